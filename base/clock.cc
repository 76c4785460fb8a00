#include "base/clock.h"

#include <time.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lockstep {
namespace {

absl::Duration Monotonic() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace

SystemClock::SystemClock() : origin_(absl::Now() - Monotonic()) {}

absl::Time SystemClock::Now() const { return origin_ + Monotonic(); }

absl::Duration SystemClock::RealTimeUntil(absl::Time moment) const {
  return std::max(absl::ZeroDuration(), moment - Now());
}

}  // namespace lockstep
