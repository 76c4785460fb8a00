// How many workers of a job may join now: as many as the job has places, and
// then so many a second.
//
//   tokens   burst ──joins──▶ 0 ──time──▶ burst      never more
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_JOIN_RATE_H_
#define LOCKSTEP_SERVER_CORE_JOIN_RATE_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace lockstep::core {

class JoinRate {
 public:
  // Whether one more worker may join; takes a token if so. Times must not
  // decrease.
  bool Take(absl::Time now, int64_t burst, int64_t per_second) {
    const double full = static_cast<double>(burst);
    const double gained = absl::ToDoubleSeconds(now - counted_at_) *
                          static_cast<double>(per_second);
    tokens_ = std::min(full, tokens_ + gained);
    counted_at_ = now;
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  double tokens_ = 0;
  absl::Time counted_at_ = absl::InfinitePast();  // then the first is full
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_JOIN_RATE_H_
