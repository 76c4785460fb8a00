// One wait of a rank for others: what a turn does that found nothing new.
//
//   Watch watch(board);
//   for (;;) {
//     if (look()) watch.Moved();
//     else if (Status status = watch.Turn(for_whom); !status.ok()) return
//     status;
//   }
//
// Threads: one.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_WAITER_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_WAITER_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "client/transport/common/silence.h"
#include "client/transport/shm/shm_group.h"
#include "client/transport/shm/wait_policy.h"

namespace lockstep::transport {

class Waiter {
 public:
  explicit Waiter(ShmGroup& shm_group) : shm_group_(shm_group) {}
  ~Waiter() { Disarm(); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Something was new.
  void Moved();

  // Nothing was: waits a moment for `ranks`. Cancelled once this rank has left;
  // Unavailable, with the rank, if one of them has, and a look after that found
  // nothing still; DeadlineExceeded, with the rank, if the process of one has
  // been stopped for WaitPolicy::silence.
  absl::Status Turn(RankMask ranks);

 private:
  absl::Status LookForGone(RankMask ranks);
  absl::Status LookForStopped(RankMask ranks);
  void Yield();
  void Sleep(RankMask ranks);
  void Disarm();

  ShmGroup& shm_group_;
  uint32_t turns_ = 0;                   // since something was new
  WaitPolicy::Clock::time_point began_;  // the first look at the clock
  bool armed_ = false;                   // counted among the sleepers
  uint32_t rung_ = 0;                    // the bell, when it was armed
  RankMask seen_gone_ = 0;
  // From the first sleep on: who is stopped, and the last look at that.
  std::optional<Silence> silence_;
  WaitPolicy::Clock::time_point looked_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_WAITER_H_
