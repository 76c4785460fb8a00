#include "server/runtime/record_counters.h"

#include <string>
#include <variant>

namespace lockstep::runtime {
namespace {

using protocol::CauseKind;
using record::JobOutcome;

constexpr CauseKind kLastCause = CauseKind::kGrown;

std::string_view LabelOf(JobOutcome outcome) {
  switch (outcome) {
    case JobOutcome::kCompleted: return "completed";
    case JobOutcome::kFailed: return "failed";
    case JobOutcome::kStopped: return "stopped";
  }
  return "unknown";
}

}  // namespace

std::string_view LabelOf(CauseKind kind) {
  switch (kind) {
    case CauseKind::kNone: return "none";
    case CauseKind::kProcessDied: return "process_died";
    case CauseKind::kLeaseExpired: return "lease_expired";
    case CauseKind::kStreamLost: return "stream_lost";
    case CauseKind::kLocalFailure: return "local_failure";
    case CauseKind::kMismatch: return "mismatch";
    case CauseKind::kJoinDeadline: return "join_deadline";
    case CauseKind::kLeft: return "left";
    case CauseKind::kStopped: return "stopped";
    case CauseKind::kReplaced: return "replaced";
    case CauseKind::kConnectFailed: return "connect_failed";
    case CauseKind::kLink: return "link";
    case CauseKind::kGrown: return "grown";
  }
  return "unknown";
}

RecordCounters::RecordCounters(MetricSink* metrics)
    : jobs_created_(metrics->GetCounter({"lockstep_jobs_created_total"})),
      jobs_adopted_(metrics->GetCounter({"lockstep_jobs_adopted_total"})),
      epochs_begun_(metrics->GetCounter({"lockstep_epochs_begun_total"})),
      saves_committed_(
          metrics->GetCounter({"lockstep_saves_committed_total"})) {
  for (const JobOutcome outcome :
       {JobOutcome::kCompleted, JobOutcome::kFailed, JobOutcome::kStopped}) {
    jobs_ended_[outcome] =
        metrics->GetCounter({"lockstep_jobs_ended_total",
                             {{"outcome", std::string(LabelOf(outcome))}}});
  }
  for (int kind = 0; kind <= static_cast<int>(kLastCause); ++kind) {
    const auto cause = static_cast<CauseKind>(kind);
    epochs_ended_[cause] =
        metrics->GetCounter({"lockstep_epochs_ended_total",
                             {{"cause", std::string(LabelOf(cause))}}});
  }
}

void RecordCounters::Add(const record::Record& record) {
  const record::Body& body = record.body;
  if (std::holds_alternative<record::JobCreated>(body)) jobs_created_->Add();
  if (std::holds_alternative<record::JobAdopted>(body)) jobs_adopted_->Add();
  if (std::holds_alternative<record::EpochBegan>(body)) epochs_begun_->Add();
  if (std::holds_alternative<record::SaveCommitted>(body)) {
    saves_committed_->Add();
  }
  if (const auto* ended = std::get_if<record::JobEnded>(&body)) {
    jobs_ended_.at(ended->outcome)->Add();
  }
  if (const auto* ended = std::get_if<record::EpochFinished>(&body)) {
    epochs_ended_.at(ended->cause.kind)->Add();
  }
}

}  // namespace lockstep::runtime
