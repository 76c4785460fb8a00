// Reports progress after every step: a bar for people, or lines for a program
// that draws the bar itself.
//
//   progress 130 4.579 0.1127      steps done, seconds, loss

#ifndef LOCKSTEP_EXAMPLES_DIGITS_PROGRESS_REPORT_H_
#define LOCKSTEP_EXAMPLES_DIGITS_PROGRESS_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "examples/digits/progress.h"

namespace lockstep::digits {

std::string ToMachineLine(const Progress& progress);

// Empty for any other line. The caller sets `steps`.
std::optional<Progress> FromMachineLine(absl::string_view line);

class ProgressReport {
 public:
  // `for_machines`: lines on stdout instead of a bar on stderr.
  ProgressReport(int64_t steps, bool for_machines)
      : steps_(steps), for_machines_(for_machines) {}

  void Passed(int64_t step, double loss) const;
  double seconds() const { return absl::ToDoubleSeconds(absl::Now() - began_); }

 private:
  const int64_t steps_;
  const bool for_machines_;
  const ProgressPrinter printer_;
  const absl::Time began_ = absl::Now();
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_PROGRESS_REPORT_H_
