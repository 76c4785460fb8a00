// The clock of one simulated process: it began at another time than the others
// and runs at another rate.

#ifndef LOCKSTEP_TESTS_SIM_SIM_CLOCK_H_
#define LOCKSTEP_TESTS_SIM_SIM_CLOCK_H_

#include "absl/time/time.h"

namespace lockstep::sim {

struct SimClock {
  absl::Duration offset;
  double rate = 1;  // seconds of this clock in a simulated second

  absl::Time Local(absl::Time simulated) const {
    return absl::UnixEpoch() + offset + (simulated - absl::UnixEpoch()) * rate;
  }
  // A simulated time at which this clock shows `local` or a little more.
  absl::Time Simulated(absl::Time local) const {
    if (local == absl::InfiniteFuture()) return local;
    return absl::UnixEpoch() + (local - absl::UnixEpoch() - offset) / rate +
           absl::Nanoseconds(2);
  }
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_SIM_CLOCK_H_
