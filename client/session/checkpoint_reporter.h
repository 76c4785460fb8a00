// When a worker sends its CheckpointReport.
//
//   Set    │ save 1, 0 B   │ 1 B │ 2 B       │ written
//   sent   R               ▏     ▏     R     R
//          |──── 1 s ──────|───── 1 s ─|
//
// A report that differs from the last one sent only in the number of bytes
// waits until a second has passed since then; any other is sent at once. After
// a lost stream the newest is sent again.
//
// Threads: none. Callers pass the time.

#ifndef LOCKSTEP_CLIENT_SESSION_CHECKPOINT_REPORTER_H_
#define LOCKSTEP_CLIENT_SESSION_CHECKPOINT_REPORTER_H_

#include <optional>

#include "absl/time/time.h"
#include "protocol/checkpoint.h"

namespace lockstep::session {

class CheckpointReporter {
 public:
  void Set(const protocol::CheckpointReport& report) { newest_ = report; }
  // A stream was welcomed, or was lost.
  void SetConnected(bool connected) {
    connected_ = connected;
    sent_.reset();
  }
  // The epoch is over: nothing is sent any more.
  void Clear() {
    newest_.reset();
    sent_.reset();
  }

  // The report to send now, if any.
  std::optional<protocol::CheckpointReport> TakeDue(absl::Time now) {
    if (now < NextDue()) return std::nullopt;
    sent_ = newest_;
    sent_at_ = now;
    return newest_;
  }

  // The first time at which TakeDue returns a report.
  absl::Time NextDue() const {
    if (!connected_ || !newest_ || newest_ == sent_) {
      return absl::InfiniteFuture();
    }
    return OnlyGrows() ? sent_at_ + kInterval : absl::InfinitePast();
  }

 private:
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  // Since the report that was sent. Must not be equal to it.
  bool OnlyGrows() const {
    if (!sent_ || !sent_->save || !newest_->save) return false;
    protocol::CheckpointReport same = *newest_;
    same.save->bytes_done = sent_->save->bytes_done;
    return same == *sent_;
  }

  bool connected_ = false;
  std::optional<protocol::CheckpointReport> newest_;
  std::optional<protocol::CheckpointReport> sent_;  // on this stream
  absl::Time sent_at_ = absl::InfinitePast();
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_CHECKPOINT_REPORTER_H_
