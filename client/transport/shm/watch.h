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

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_WATCH_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_WATCH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "client/transport/shm/board.h"
#include "client/transport/shm/patience.h"

namespace lockstep::transport {

class Watch {
 public:
  explicit Watch(Board& board) : board_(board) {}
  ~Watch() { Disarm(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Something was new.
  void Moved();

  // Nothing was: waits a moment for `ranks`. Cancelled once this rank has left;
  // Unavailable, with the rank, if one of them has, and a look after that found
  // nothing still.
  absl::Status Turn(RankMask ranks);

 private:
  absl::Status LookForGone(RankMask ranks);
  void Yield();
  void Sleep(RankMask ranks);
  void Disarm();

  Board& board_;
  uint32_t turns_ = 0;                 // since something was new
  Patience::Clock::time_point began_;  // the first look at the clock
  bool armed_ = false;                 // counted among the sleepers
  uint32_t rung_ = 0;                  // the bell, when it was armed
  RankMask seen_gone_ = 0;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_WATCH_H_
