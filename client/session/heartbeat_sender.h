// Periodic messages of a worker: its position, whether it is busy, and
// heartbeats. At most one is sent per interval, at any step rate; only the
// newest of each kind is kept, never a queue.
//
//   Moved  │ │││ │    │          │
//   sent   P    P    P     P          .   .   .   H
//          |100ms|100ms|                  lease / 4
//
//   P Progress, H Heartbeat
//
// Progress or Busy is sent at once if an interval has passed since the last of
// them, else at the end of the interval. Other messages (Announce, Submitted)
// do not delay it, since Progress renews the progress lease. Any message
// replaces a heartbeat. Progress and Busy alternate. After a lost stream both
// are sent again, since the last of them may not have arrived.
//
// Threads: none. Callers pass the time.

#ifndef LOCKSTEP_CLIENT_SESSION_HEARTBEAT_SENDER_H_
#define LOCKSTEP_CLIENT_SESSION_HEARTBEAT_SENDER_H_

#include <optional>

#include "absl/time/time.h"
#include "protocol/protocol.h"

namespace lockstep::session {

class HeartbeatSender {
 public:
  explicit HeartbeatSender(absl::Duration interval) : interval_(interval) {}

  void Moved(const protocol::Progress& progress) {
    progress_.newest = progress;
  }
  void SetBusy(const protocol::Busy& busy) { busy_.newest = busy; }

  // The newest position given to Moved.
  protocol::Position position() const {
    return progress_.newest ? progress_.newest->position : protocol::Position();
  }

  // A stream was welcomed. Heartbeats are at most `silence_max` apart.
  void Connected(absl::Duration silence_max);
  // Nothing can be sent.
  void Disconnected() { connected_ = false; }
  // Progress is sent only inside an epoch.
  void SetInEpoch(bool in_epoch) { in_epoch_ = in_epoch; }

  // A message of any kind was sent.
  void Sent(absl::Time now) { last_sent_ = now; }

  // The message to send now, if any. The caller sends it and calls Sent.
  std::optional<protocol::ToCoordinatorBody> TakeDue(absl::Time now);

  // The newest Progress, regardless of the interval, if it was not sent.
  std::optional<protocol::ToCoordinatorBody> TakeProgress();

  // Before the worker leaves: its newest Progress, regardless of the interval,
  // if it was not sent and names parameters that no rank, or only other ranks,
  // submit.
  std::optional<protocol::ToCoordinatorBody> TakeLast();

  // The first time at which TakeDue could return a message.
  absl::Time NextDue() const;

 private:
  template <typename Word>
  struct Latest {
    std::optional<Word> newest;
    std::optional<Word> sent;  // on this stream
    bool Unsent() const { return newest && newest != sent; }
    const Word& TakeNewest() { return *(sent = newest); }
  };

  bool HasNews() const {
    return busy_.Unsent() || (in_epoch_ && progress_.Unsent());
  }

  const absl::Duration interval_;
  absl::Duration silence_max_ = absl::InfiniteDuration();
  bool connected_ = false;
  bool in_epoch_ = false;
  bool busy_was_last_ = false;
  Latest<protocol::Progress> progress_;
  Latest<protocol::Busy> busy_;
  absl::Time last_news_ = absl::InfinitePast();  // Progress or Busy
  absl::Time last_sent_ = absl::InfinitePast();  // anything
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_HEARTBEAT_SENDER_H_
