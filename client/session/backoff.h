// Randomised exponential backoff between reconnection attempts.
//
//   initial, 2 initial, 4 initial, ... max    each times a draw from [1/2, 1]
//
// Workers of one job lose their coordinator at the same time; the random factor
// keeps them from reconnecting at the same time.
//
// Threads: none. Randomness: the seed.

#ifndef LOCKSTEP_CLIENT_SESSION_BACKOFF_H_
#define LOCKSTEP_CLIENT_SESSION_BACKOFF_H_

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace lockstep::session {

class Backoff {
 public:
  Backoff(absl::Duration initial, absl::Duration max, uint64_t seed)
      : initial_(initial), max_(max), next_(initial), random_(seed) {}

  absl::Duration Next() {
    const absl::Duration whole = next_;
    next_ = std::min(2 * next_, max_);
    return whole * std::uniform_real_distribution<double>(0.5, 1)(random_);
  }

  // A connection succeeded: restarts at the initial delay.
  void Reset() { next_ = initial_; }

 private:
  const absl::Duration initial_;
  const absl::Duration max_;
  absl::Duration next_;
  std::mt19937_64 random_;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_BACKOFF_H_
