// What a checkpointer needs of its session: it sends this rank's
// CheckpointReport and receives CheckpointNews (protocol/checkpoint.h).
//
//   Report(report) ─▶ the coordinator, and again on each new stream
//   Await(holds)   ◀─ the newest news of this epoch
//
// An interface: Session::Impl::checkpoints() implements it; a test of a
// checkpointer has a coordinator of its own behind it.
//
// Threads: all methods from any thread. Report does not block. The news are
//          those of one epoch, so one checkpointer a session uses it.
// Errors:  once the epoch has ended or this rank has left, the news do not
//          change any more: Await returns them if they satisfy `holds`, and
//          else the reason for the end.

#ifndef LOCKSTEP_CLIENT_SESSION_CHECKPOINT_CHANNEL_H_
#define LOCKSTEP_CLIENT_SESSION_CHECKPOINT_CHANNEL_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protocol/checkpoint.h"

namespace lockstep::session {

class CheckpointChannel {
 public:
  virtual ~CheckpointChannel() = default;

  // Replaces the earlier report. A report that differs from the last one that
  // was sent only in bytes_done is sent at most once a second: callers may
  // report after every piece that they write. Any other is sent at once.
  virtual void Report(const protocol::CheckpointReport& report) = 0;

  // Blocks until `holds` is true of the newest news and returns them.
  // DeadlineExceeded if that has not happened at `deadline`. `holds` is called
  // with a lock held: it must be quick and must not use this channel.
  virtual absl::StatusOr<protocol::CheckpointNews> Await(
      absl::FunctionRef<bool(const protocol::CheckpointNews&)> holds,
      absl::Time deadline = absl::InfiniteFuture()) = 0;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_CHECKPOINT_CHANNEL_H_
