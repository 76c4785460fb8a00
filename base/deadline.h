// A time limit on the monotonic clock, for adapters that block. (State machines
// get the time as an argument.)

#ifndef LOCKSTEP_BASE_DEADLINE_H_
#define LOCKSTEP_BASE_DEADLINE_H_

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"

namespace lockstep {

class Deadline {
 public:
  // Infinite if `timeout` is longer than a year.
  explicit Deadline(absl::Duration timeout)
      : never_(timeout > absl::Hours(24 * 365)),
        at_(never_ ? Clock::time_point::max()
                   : Clock::now() + absl::ToChronoNanoseconds(timeout)) {}

  // Zero once it has passed.
  absl::Duration Left() const {
    if (never_) return absl::InfiniteDuration();
    return std::max(
        absl::ZeroDuration(),
        absl::FromChrono(std::chrono::nanoseconds(at_ - Clock::now())));
  }

  bool Passed() const { return Left() == absl::ZeroDuration(); }

 private:
  using Clock = std::chrono::steady_clock;
  bool never_;
  Clock::time_point at_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_DEADLINE_H_
