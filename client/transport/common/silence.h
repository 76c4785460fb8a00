// Which peers are silent, and since when: the rule alone, without a clock and
// without sockets.
//
//   ticks   |    |    |    |    |    |    |
//   owes         x    x    x    x    x    x    a transfer is open
//   heard   x    x    x                        keepalives have stopped
//   quiet   0    0    0    1    2    3    4    ticks; silent from the bound on
//
// A peer that owes nothing is not missed, nor for what it was before.
//
// Time counts only while the watcher itself runs: a tick that comes late, for
// the watcher was stopped or got no core, counts as two at most. So whoever was
// stopped itself blames nobody for it.
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

  // How often to tick, and to send a keepalive where nothing else is sent.
  static absl::Duration PeriodOf(absl::Duration bound) {
    return std::clamp(bound / 8, absl::Milliseconds(1), absl::Seconds(1));
  }
  absl::Duration period() const { return PeriodOf(bound_); }

  // `elapsed` since the tick before. `heard`: something came from `peer` since;
  // `owes`: this rank waits for it.
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
