// How long steps take, as the mean since somebody last asked.

#ifndef LOCKSTEP_CLIENT_GRADIENT_STEP_TIMES_H_
#define LOCKSTEP_CLIENT_GRADIENT_STEP_TIMES_H_

#include <cstdint>

#include "absl/time/time.h"

namespace lockstep::gradient {

class StepTimes {
 public:
  explicit StepTimes(absl::Time start) : since_(start), last_(start) {}

  void Passed(absl::Time now) {
    steps_ += 1;
    last_ = now;
  }

  // Time that does not count, since the last step passed.
  void Paused(absl::Duration duration) {
    since_ += duration;
    last_ += duration;
  }

  // Mean seconds of the steps passed since the last call; 0 if none was.
  double TakeMeanSeconds() {
    if (steps_ == 0) return 0;
    const double mean = absl::ToDoubleSeconds(last_ - since_) / steps_;
    since_ = last_;
    steps_ = 0;
    return mean;
  }

 private:
  absl::Time since_;
  absl::Time last_;
  int64_t steps_ = 0;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_STEP_TIMES_H_
