#include "server/core/job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/core/commands.h"
#include "server/core/missing_workers.h"
#include "server/core/status_text.h"

namespace lockstep::core {

using protocol::Cause;
using protocol::CauseKind;

Job::Job(const DurableJob& durable, absl::Duration stopped_after)
    : durable_(durable),
      stopped_after_(std::min(stopped_after, durable.spec.timeouts.lease / 4)),
      log_(durable),
      budget_(durable.spec.limits),
      links_(durable.spec.limits.restart_window) {}

// --- Endings ----------------------------------------------------------------

void Job::EndIf(std::optional<EpochEnd> end, EventContext& context) {
  if (end) EndEpoch(*std::move(end), context);
}

std::optional<int> Job::WorstLinked(const Cause& cause, absl::Time now) {
  if (cause.kind != CauseKind::kLink || cause.workers.size() != 2) {
    return std::nullopt;
  }
  const auto worst = links_.Add(now, cause.workers[0], cause.workers[1]);
  if (!worst) return std::nullopt;
  return epoch_->members().RankOf(*worst);
}

void Job::EndEpoch(EpochEnd end, EventContext& context) {
  const std::optional<int> goes = WorstLinked(end.cause, context.now);
  if (goes && *goes >= 0) {
    end.lost.push_back(*goes);
    absl::StrAppend(&end.cause.message, "; this is the third such end: ",
                    epoch_->members().WhoIs(*goes),
                    " has the most bad links, and goes");
  }
  const auto& [reason, again, lost, unfinished] = end;
  Cause cause = reason;
  const EpochId id = durable_.epoch;
  const auto members = epoch_->members().list();
  const WorkerName gone =
      goes && *goes >= 0 ? members[*goes].worker : WorkerName{};
  for (const int rank : lost) {
    const WorkerName& worker = members[rank].worker;
    leases_.Clear(worker);
    resumes_.Clear(worker);
    roster_.Move(roster_.Find(worker), WorkerState::kLost);
  }
  // A failure completes a desired stop or drain early.
  const bool may_go_on =
      again == Again::kIfBudgetAllows || again == Again::kIfDesired;
  const bool stops = may_go_on && Wants(durable_.wanted, Command::kStop);
  const bool drains = may_go_on && Wants(durable_.wanted, Command::kDrain);
  const bool is_drained = drains || again == Again::kWhenWorkersCome;
  std::optional<std::string> no_more = "";
  if (is_drained) {
    no_more.reset();
  } else if (stops) {
    no_more = ByOperator("stopped", durable_.wanted.reason);
  } else if (again == Again::kIfDesired) {
    no_more.reset();
  } else if (again == Again::kIfBudgetAllows) {
    std::optional<uint64_t> step = epoch_->FurthestStep();
    if (step) step = std::max(committed(), *step);
    if (goes) step.reset();  // the next try is another one
    no_more = budget_.Spend(context.now, step, cause);
  }
  const bool stopped = stops || cause.kind == CauseKind::kStopped;
  if (no_more && !no_more->empty()) {
    absl::StrAppend(&cause.message,
                    "; the job does not form again: ", *no_more);
  }
  if (drains) {
    absl::StrAppend(&cause.message, "; ",
                    ByOperator("drained", durable_.wanted.reason));
  }
  step_ = committed();
  stepped_at_ = stepped_at();
  context.out.Record(name(),
                     record::EpochFinished{id, cause, step_, unfinished});
  Remember(absl::StrFormat("epoch %d ends: %s", id.value, cause.message),
           context);
  epoch_.reset();
  grow_at_ = absl::InfiniteFuture();
  AwaitNextEpoch(context.now);
  AwaitReports(lost, context.now);
  const bool final = no_more.has_value();
  if (final) {
    EndJob(stopped ? record::JobOutcome::kStopped : record::JobOutcome::kFailed,
           cause, context);
    TellWaiting(cause, context);
  } else if (is_drained) {
    SendAway(roster_.arrived(), cause, context);
  }
  for (const protocol::Member& member : members) {
    Worker* worker = roster_.Find(member.worker);
    if (worker->state == WorkerState::kReady) {
      roster_.Move(worker, WorkerState::kJoining);
    }
    context.out.Send(worker->session, name(), id,
                     protocol::EpochEnded{
                         cause, final || is_drained || member.worker == gone});
    if (!is_drained || !worker->holds_rank()) continue;
    Detach(worker, absl::OkStatus(), context);
    roster_.Move(worker, WorkerState::kLost);
  }
}

void Job::TellWaiting(const Cause& cause, EventContext& context) {
  for (const WorkerName& worker : roster_.arrived()) {
    context.out.Send(roster_.Find(worker)->session, name(), EpochId{},
                     protocol::EpochEnded{cause, /*final=*/true});
  }
}

// The job is drained: nobody of its launches need come again.
void Job::SendAway(std::set<WorkerName> workers, const Cause& cause,
                   EventContext& context) {
  recovery_.reset();
  reports_by_ = absl::InfiniteFuture();
  returns_by_ = absl::InfiniteFuture();
  for (const auto& [worker_name, worker] : roster_.workers()) {
    if (worker.launch) drained_launches_.insert(worker.launch->id);
  }
  for (const WorkerName& worker_name : workers) {
    Worker* worker = roster_.Find(worker_name);
    context.out.Refuse(std::exchange(worker->session, {}), name(),
                       absl::CancelledError(cause.message));
    Detach(worker, absl::OkStatus(), context);
    roster_.Move(worker, WorkerState::kLost);
  }
}

// A drained job waits like a new one: for its first worker, without a deadline.
void Job::AwaitNextEpoch(absl::Time now) {
  const bool drained = Wants(durable_.wanted, Command::kDrain);
  state_ = drained ? JobState::kForming : JobState::kEpochEnded;
  join_by_ = drained ? absl::InfiniteFuture() : now + spec().timeouts.join;
  ended_at_ = now;
}

void Job::EndJob(record::JobOutcome outcome, Cause cause,
                 EventContext& context) {
  context.out.Record(name(), record::JobEnded{outcome, std::move(cause)});
  state_ = StateAfter(outcome);
  step_ = committed();
  epoch_.reset();
  leases_.ClearAll();
  resumes_.ClearAll();
  recovery_.reset();
  join_by_ = absl::InfiniteFuture();
  reports_by_ = absl::InfiniteFuture();
  returns_by_ = absl::InfiniteFuture();
  pulse_ = absl::InfiniteFuture();
  form_at_ = absl::InfiniteFuture();
  shrink_at_ = absl::InfiniteFuture();
  grow_at_ = absl::InfiniteFuture();
  Remember(std::string(Over().message()), context);
}

void Job::Stop(const std::string& reason, EventContext& context) {
  Cause cause{.kind = CauseKind::kStopped,
              .message = ByOperator("stopped", reason)};
  if (epoch_) {
    return EndEpoch({std::move(cause), Again::kNever, {}}, context);
  }
  EndJob(record::JobOutcome::kStopped, cause, context);
  TellTheEnd(cause, context);
}

void Job::TellTheEnd(const Cause& cause, EventContext& context) {
  for (const auto& [name, worker] : roster_.workers()) {
    SendTo(worker, protocol::EpochEnded{cause, /*final=*/true}, context);
  }
}

absl::Status Job::Over() const {
  const record::JobEnded& ended = *durable_.ended;
  std::string how = "it completed";
  if (ended.outcome == record::JobOutcome::kFailed) how = "it failed";
  if (ended.outcome == record::JobOutcome::kStopped) how = "it was stopped";
  if (!ended.cause.message.empty()) {
    absl::StrAppend(&how, ": ", ended.cause.message);
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("job %s is over: %s", spec().name, how));
}

void Job::UnbindAll(EventContext& context) {
  for (auto& [worker_name, worker] : roster_.workers()) {
    context.out.Close(std::exchange(worker.session, {}), Over());
  }
}

// --- Questions --------------------------------------------------------------

AdmissionState Job::AdmissionStateOf(const WorkerName& worker) const {
  AdmissionState state{
      .spec = spec(), .roster = roster_, .has_begun = has_begun()};
  if (epoch_) {
    state.members = epoch_->members().size();
    state.is_member = epoch_->members().RankOf(worker) >= 0;
  }
  if (!epoch_ && Wants(durable_.wanted, Command::kDrain)) {
    state.drained = ByOperator("drained", durable_.wanted.reason);
    state.drained_launches = &drained_launches_;
  }
  if (recovery_) {
    state.away = recovery_->away() - (recovery_->IsAway(worker) ? 1 : 0);
    state.recovery = &*recovery_;
    // Then the job ends, or goes on without them.
    const bool evicts = spec().on_stuck == OnStuck::kEvict;
    state.away_until =
        std::min(join_by_, evicts ? returns_by_ : absl::InfiniteFuture());
  }
  const auto name_holder = durable_.name_holders.find(worker);
  if (name_holder != durable_.name_holders.end())
    state.newest = name_holder->second;
  return state;
}

int Job::RankOf(const Worker& worker) const {
  const bool may_be = epoch_ && worker.holds_rank();
  return may_be ? epoch_->members().RankOf(worker.name) : -1;
}

std::string Job::WhoIs(const Worker& worker) const {
  return Who(worker.name, RankOf(worker), worker.process);
}

uint64_t Job::committed() const {
  return epoch_ ? std::max(step_, epoch_->committed()) : step_;
}

absl::Time Job::stepped_at() const {
  return epoch_ ? std::max(stepped_at_, epoch_->advanced()) : stepped_at_;
}

// --- Doing ------------------------------------------------------------------

void Job::SendTo(const Worker& worker, protocol::ToWorkerBody body,
                 EventContext& context) {
  const EpochId epoch = epoch_ ? durable_.epoch : EpochId{};
  context.out.Send(worker.session, name(), epoch, std::move(body));
}

}  // namespace lockstep::core
