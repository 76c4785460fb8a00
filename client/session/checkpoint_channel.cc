#include "client/session/checkpoint_channel.h"

#include "absl/strings/str_format.h"
#include "client/session/session_impl.h"

namespace lockstep {

void Session::Impl::Checkpoints::Report(
    const protocol::CheckpointReport& report) {
  session_->event_loop_->Post(session::ReportCheckpoint{report});
}

absl::StatusOr<protocol::CheckpointNews> Session::Impl::Checkpoints::Await(
    absl::FunctionRef<bool(const protocol::CheckpointNews&)> holds,
    absl::Time deadline) {
  const auto view = session_->event_loop_->Await(
      [&](const session::View& view) {
        return holds(view.checkpoints) || session::IsOver(view);
      },
      deadline);
  if (holds(view->checkpoints)) return view->checkpoints;
  if (session::IsOver(*view)) {
    return session_->AwaitUnlessOver(
        [](const session::View&) { return false; });
  }
  return absl::DeadlineExceededError(absl::StrFormat(
      "rank %d: the coordinator did not answer about a checkpoint in time",
      session_->rank()));
}

}  // namespace lockstep
