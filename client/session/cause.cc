#include "client/session/cause.h"

#include "absl/strings/str_format.h"

namespace lockstep::session {
namespace {

using protocol::CauseKind;

absl::StatusCode CodeOf(CauseKind kind) {
  switch (kind) {
    case CauseKind::kMismatch: return absl::StatusCode::kInvalidArgument;
    case CauseKind::kJoinDeadline: return absl::StatusCode::kDeadlineExceeded;
    case CauseKind::kStopped: return absl::StatusCode::kCancelled;
    case CauseKind::kConnectFailed: return absl::StatusCode::kUnavailable;
    case CauseKind::kNone: return absl::StatusCode::kFailedPrecondition;
    case CauseKind::kProcessDied:
    case CauseKind::kLeaseExpired:
    case CauseKind::kStreamLost:
    case CauseKind::kLocalFailure:
    case CauseKind::kLeft:
    case CauseKind::kReplaced:
    case CauseKind::kLink:
    case CauseKind::kGrown: return absl::StatusCode::kAborted;
  }
  return absl::StatusCode::kAborted;
}

}  // namespace

absl::Status StatusOf(const protocol::EpochEnded& ended) {
  const protocol::Cause& cause = ended.cause;
  if (cause.message.empty()) {
    return absl::Status(CodeOf(cause.kind),
                        ended.final ? "the job is over" : "the epoch ended");
  }
  return absl::Status(CodeOf(cause.kind), cause.message);
}

absl::Status StatusOfWaiting(const JobName& job, const WorkerName& worker,
                             const protocol::EpochEnded& ended) {
  if (ended.cause.kind != CauseKind::kNone) return StatusOf(ended);
  return absl::CancelledError(absl::StrFormat(
      "job %s completed while %s waited to be given a rank: it was not needed",
      job.value, worker.value));
}

absl::Status StatusOfFailure(const View& view,
                             const protocol::LocalFailure& failure) {
  if (failure.call.empty()) return absl::AbortedError(failure.message);
  const auto& self = view.members[view.rank];
  return absl::AbortedError(absl::StrFormat(
      "rank %d (%s on %s) failed in step %d: %s: %s: %s", view.rank,
      self.worker.value, self.process.host, failure.step, failure.call,
      absl::StatusCodeToString(failure.code), failure.message));
}

absl::Status StatusOfDeath(int rank, const protocol::Evidence& evidence) {
  return absl::AbortedError(absl::StrFormat(
      "rank %d (%s) died: %s", rank, evidence.subject.value, evidence.detail));
}

int RankOf(const View& view, const protocol::Evidence& evidence) {
  for (size_t rank = 0; rank < view.members.size(); ++rank) {
    const protocol::Member& member = view.members[rank];
    if (member.worker != evidence.subject) continue;
    const bool same_incarnation = evidence.generation == member.generation &&
                                  evidence.process == member.process;
    return same_incarnation ? static_cast<int>(rank) : -1;
  }
  return -1;
}

}  // namespace lockstep::session
