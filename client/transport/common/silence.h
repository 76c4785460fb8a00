// Decides which peers are silent, without a clock and without sockets.
//
//   ticks   |    |    |    |    |    |    |
//   owes         x    x    x    x    x    x    a transfer is open
//   heard   x    x    x                        keepalives have stopped
//   quiet   0    0    0    1    2    3    4    ticks; silent from the bound on
//
// A peer that owes nothing is never silent, and its quiet time is reset.
//
// A late tick counts as two at most: this process was stopped or had no core.
// So a process that was stopped itself reports no silent peer.
//
// A value. Not thread-safe.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_SILENCE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_SILENCE_H_

#include <algorithm>
#include <vector>

#include "absl/time/time.h"

namespace lockstep::transport {

class Silence {
 public:
  Silence(int peers, absl::Duration bound) : bound_(bound), quiet_(peers) {}

  // The period of ticks, and of keepalives if nothing else is sent.
  static absl::Duration PeriodOf(absl::Duration bound) {
    return std::clamp(bound / 8, absl::Milliseconds(1), absl::Seconds(1));
  }
  absl::Duration period() const { return PeriodOf(bound_); }

  // `elapsed`: since the tick before. `heard`: whether anything was received
  // from `peer` since. `owes`: whether this rank waits for it.
  void Tick(int peer, absl::Duration elapsed, bool heard, bool owes) {
    absl::Duration& quiet = quiet_[peer];
    quiet = heard || !owes ? absl::ZeroDuration()
                           : quiet + std::min(elapsed, 2 * period());
  }

  absl::Duration quiet(int peer) const { return quiet_[peer]; }
  bool IsSilent(int peer) const { return quiet_[peer] >= bound_; }

 private:
  absl::Duration bound_;
  std::vector<absl::Duration> quiet_;  // by peer
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_SILENCE_H_
