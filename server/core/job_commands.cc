// The part of Job about operator commands.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/commands.h"
#include "server/core/job.h"
#include "server/core/status_text.h"

namespace lockstep::core {

using protocol::CauseKind;

absl::Status Job::ApplyCommand(JobCommand command, const std::string& reason,
                               const std::string& by, EventContext& context) {
  const std::string asked =
      ByOperator(std::string(Name(command)) + " is asked for", reason, by);
  if (command == JobCommand::kRebuild) return Rebuild(asked, context);
  if (command == JobCommand::kSave && !MayTrain()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("job %s is %s: only a running job can save",
                        spec().name, Name(state())));
  }
  const absl::StatusOr<protocol::DesiredCommands> wanted =
      Ask(durable_.wanted, command, reason);
  if (!wanted.ok()) return wanted.status();
  const bool drains_now = command == JobCommand::kDrain && !MayTrain();
  if (*wanted == durable_.wanted && !drains_now) return absl::OkStatus();
  Remember(asked, context);
  if (command == JobCommand::kStop && !MayTrain()) {
    Stop(reason, context);
    return absl::OkStatus();
  }
  if (*wanted != durable_.wanted) Want(*wanted, context);
  ReviseGrowth(context);
  if (drains_now) DrainAtOnce(context);
  return absl::OkStatus();
}

absl::Status Job::Rebuild(const std::string& asked, EventContext& context) {
  if (state() != JobState::kRunning) {
    return absl::FailedPreconditionError(
        absl::StrFormat("job %s is %s: only a running job can rebuild",
                        spec().name, Name(state())));
  }
  absl::Status begun = epoch_->RebuildNow(context);
  if (begun.ok()) Remember(asked, context);
  return begun;
}

bool Job::MayTrain() const { return epoch_ && epoch_->MayTrain(); }

void Job::Want(protocol::DesiredCommands wanted, EventContext& context) {
  context.out.Record(name(), record::CommandsWanted{std::move(wanted)});
  if (epoch_) epoch_->SendAll(durable_.wanted, context);
}

// No rank trains: sends every worker away.
void Job::DrainAtOnce(EventContext& context) {
  const protocol::Cause cause{
      .kind = CauseKind::kStopped,
      .message = ByOperator("drained", durable_.wanted.reason)};
  if (epoch_) {
    return EndEpoch({cause, Again::kWhenWorkersCome, {}}, context);
  }
  std::set<WorkerName> here;
  for (const auto& [worker_name, worker] : roster_.workers()) {
    if (worker.holds_rank()) here.insert(worker_name);
  }
  const std::string sent_away =
      here.empty()
          ? "it has no workers"
          : absl::StrCat(Count(here.size(), "worker"),
                         here.size() == 1 ? " is" : " are", " sent away");
  Remember(absl::StrCat("the job is drained: ", sent_away,
                        ", and it waits for new ones"),
           context);
  SendAway(std::move(here), cause, context);
  AwaitNextEpoch(context.now);
}

// All ranks left cleanly: by `command`, or because their work is done.
void Job::EndAfterLastStep(std::optional<Command> command,
                           EventContext& context) {
  const protocol::DesiredCommands& wanted = durable_.wanted;
  if (command && Wants(wanted, Command::kStop)) {
    return Stop(wanted.reason, context);
  }
  if (command && Wants(wanted, Command::kDrain)) {
    return EndEpoch({{.kind = CauseKind::kStopped,
                      .message = ByOperator("drained", wanted.reason)},
                     Again::kWhenWorkersCome,
                     {}},
                    context);
  }
  EndJob(record::JobOutcome::kCompleted, {}, context);
  TellWaiting({.message = "the job completed"}, context);
}

}  // namespace lockstep::core
