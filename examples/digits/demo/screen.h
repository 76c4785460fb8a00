// What a person sees of the training, and what its processes say of it.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEMO_SCREEN_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEMO_SCREEN_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "examples/digits/demo/flags.h"
#include "examples/digits/progress_report.h"

namespace lockstep::digits {

// Shows what the children print: progress as a bar, the rest as it is.
class Screen {
 public:
  explicit Screen(const Flags& flags) : flags_(flags) {}

  void Take(const std::string& name, absl::string_view line);

  double accuracy() const { return accuracy_; }
  // The training that was shown last.
  int64_t steps_done() const { return steps_done_; }
  // Workers that compared gradients; their largest error, as a part of its
  // bound.
  int audits() const { return audits_; }
  double gradient_error() const { return gradient_error_; }

 private:
  const Flags& flags_;
  const ProgressPrinter printer_;
  double accuracy_ = 0;
  int64_t steps_done_ = 0;
  int audits_ = 0;
  double gradient_error_ = 0;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEMO_SCREEN_H_
