// What a worker says while all is well: where it is, that it is busy, that it
// lives. At most one of these messages an interval, whatever the step rate, and
// never a queue: only the newest of each kind is kept.
//
//   Moved  │ │││ │    │          │
//   sent   P    P    P     P          .   .   .   H      P Progress, H
//   Heartbeat
//          |100ms|100ms|                  lease / 4
//
// Progress or Busy is sent at once if the last of them is an interval old, else
// when it is: other messages (Announce, Submitted) do not delay it, since the
// progress lease is renewed by Progress. Any message replaces a heartbeat.
// Progress and Busy take turns. After a lost stream both are sent again, since
// the last of them may not have arrived.
//
// Threads: none; told the time.

#ifndef LOCKSTEP_CLIENT_SESSION_HEARTBEAT_SENDER_H_
#define LOCKSTEP_CLIENT_SESSION_HEARTBEAT_SENDER_H_

#include <optional>

#include "absl/time/time.h"
#include "plan/words/protocol.h"

namespace lockstep::session {

class HeartbeatSender {
 public:
  explicit HeartbeatSender(absl::Duration interval) : interval_(interval) {}

  void Moved(const protocol::Progress& progress) {
    progress_.newest = progress;
  }
  void SetBusy(const protocol::Busy& busy) { busy_.newest = busy; }

  // Where the worker last said it is.
  protocol::Position position() const {
    return progress_.newest ? progress_.newest->position : protocol::Position();
  }

  // A stream was welcomed. `silence_max`: a heartbeat at least this often.
  void Connected(absl::Duration silence_max);
  // Nothing can be sent.
  void Disconnected() { connected_ = false; }
  // Progress means something only inside an epoch.
  void SetInEpoch(bool in_epoch) { in_epoch_ = in_epoch; }

  // Some message, of whatever kind, was sent.
  void Sent(absl::Time now) { last_sent_ = now; }

  // The message to send now, if there is one. The caller sends it and says
  // Sent.
  std::optional<protocol::ToCoordinatorBody> TakeDue(absl::Time now);

  // Before the worker leaves: its newest Progress, if it was not sent and names
  // parameters that nobody, or only others, submit. However soon.
  std::optional<protocol::ToCoordinatorBody> TakeLast();

  // The first moment at which TakeDue could return something.
  absl::Time NextDue() const;

 private:
  template <typename Word>
  struct Latest {
    std::optional<Word> newest;
    std::optional<Word> told;  // on this stream
    bool Untold() const { return newest && newest != told; }
    const Word& Tell() { return *(told = newest); }
  };

  bool HasNews() const {
    return busy_.Untold() || (in_epoch_ && progress_.Untold());
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
