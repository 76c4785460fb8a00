// The output of the training for people, and what the child processes report.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEMO_SCREEN_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEMO_SCREEN_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "examples/digits/demo/flags.h"
#include "examples/digits/progress_report.h"
#include "examples/digits/traffic_report.h"

namespace lockstep::digits {

// Shows the children's output: progress as a bar, other lines unchanged.
class Screen {
 public:
  explicit Screen(const Flags& flags) : flags_(flags) {}

  void Take(const std::string& name, absl::string_view line);

  double accuracy() const { return accuracy_; }
  // Steps of the last training shown.
  int64_t steps_done() const { return steps_done_; }
  // The number of workers that compared gradients, and their largest error as a
  // fraction of its bound.
  int audits() const { return audits_; }
  double gradient_error() const { return gradient_error_; }
  // By all workers together.
  const LaneBytes& bytes_moved() const { return bytes_moved_; }

 private:
  const Flags& flags_;
  const ProgressPrinter printer_;
  double accuracy_ = 0;
  int64_t steps_done_ = 0;
  int audits_ = 0;
  double gradient_error_ = 0;
  LaneBytes bytes_moved_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEMO_SCREEN_H_
