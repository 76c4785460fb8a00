// The waiting of one polling loop: spins, yields or sleeps when a poll finds no
// progress (wait_policy.h).
//
//   Waiter waiter(shm_group);
//   for (;;) {
//     if (poll()) waiter.Moved();
//     else if (Status s = waiter.WaitOnce(ranks); !s.ok()) return s;
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

  // The poll made progress.
  void Moved();

  // The poll made no progress: waits a moment for `ranks`. Errors: Cancelled
  // once this rank has left. Unavailable, with the failed peer, if one of
  // `ranks` is gone and one more poll has made no progress. DeadlineExceeded,
  // with the failed peer, if its process has been stopped for
  // WaitPolicy::silence.
  absl::Status WaitOnce(RankMask ranks);

 private:
  absl::Status LookForGone(RankMask ranks);
  absl::Status LookForStopped(RankMask ranks);
  void Yield();
  void Sleep(RankMask ranks);
  void Disarm();

  ShmGroup& shm_group_;
  uint32_t turns_ = 0;                   // since the last progress
  WaitPolicy::Clock::time_point began_;  // the first reading of the clock
  bool armed_ = false;                   // counted in `sleepers`
  uint32_t notified_ = 0;                // `wakes` when it was armed
  RankMask seen_gone_ = 0;
  // Set at the first sleep: which peers are stopped, and the last check.
  std::optional<Silence> silence_;
  WaitPolicy::Clock::time_point looked_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_WAITER_H_
