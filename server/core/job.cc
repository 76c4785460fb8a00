#include "server/core/job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/core/assignment.h"
#include "server/core/commands.h"
#include "server/core/missing_workers.h"
#include "server/core/status_text.h"

namespace lockstep::core {

using protocol::Cause;
using protocol::CauseKind;

Job::Job(const DurableJob& durable, absl::Duration stopped_after)
    : durable_(durable),
      stopped_after_(std::min(stopped_after, durable.spec.timeouts.lease / 4)),
      budget_(durable.spec.limits) {}

// --- Forming ----------------------------------------------------------------

void Job::Arrive(Worker* worker, EventContext& context) {
  roster_.SetArrived(worker, true);
  state_ = JobState::kForming;
  join_by_ = std::min(join_by_, std::max(context.now, first_epoch_from_) +
                                    spec().timeouts.join);
  Remember(absl::StrFormat("%s joins: %d of %d are here", WhoIs(*worker),
                           roster_.arrived().size(), spec().mesh.WorldSize()),
           context);
  TryForm(context);
}

void Job::TryForm(EventContext& context) {
  const int arrived = static_cast<int>(roster_.arrived().size());
  const bool complete = arrived == spec().mesh.WorldSize();
  if (!complete || !roster_.all_arrived_are_here()) return;
  if (!FirstEpochIsDelayed(context.now)) return Form(context);
  if (form_at_ == absl::InfiniteFuture()) {
    Remember(absl::StrCat("the job ", WhyDelayed(context.now)), context);
  }
  form_at_ = first_epoch_from_;
}

bool Job::FirstEpochIsDelayed(absl::Time now) const {
  return !has_begun() && now < first_epoch_from_;
}

std::string Job::WhyDelayed(absl::Time now) const {
  return absl::StrCat("waits ", HowLong(first_epoch_from_ - now), " ",
                      why_delayed_);
}

void Job::DelayFirstEpoch(absl::Time when, const std::string& why) {
  if (when <= first_epoch_from_) return;
  first_epoch_from_ = when;
  why_delayed_ = why;
  if (form_at_ != absl::InfiniteFuture()) form_at_ = when;
  if (join_by_ != absl::InfiniteFuture()) {
    join_by_ = std::max(join_by_, when + spec().timeouts.join);
  }
}

void Job::Form(EventContext& context) {
  std::vector<protocol::Member> arrived;
  for (const WorkerName& worker : roster_.arrived()) {
    arrived.push_back(roster_.Find(worker)->member());
  }
  auto members = AssignRanks(std::move(arrived), durable_.members);
  const EpochId id{durable_.epoch.value + 1};
  if (Wants(durable_.wanted, Command::kDrain)) {
    Want(Nothing(durable_.wanted), context);  // the drain is complete
  }
  proofs_.clear();
  step_ = std::max(step_, durable_.steps);
  context.out.Record(name(), record::EpochBegan{id, members, step_});

  state_ = JobState::kSealed;
  join_by_ = absl::InfiniteFuture();
  form_at_ = absl::InfiniteFuture();
  epoch_.emplace(id, durable_.members, spec(), step_, context.now);
  Remember(absl::StrFormat("epoch %d forms with %s", id.value,
                           Count(epoch_->size(), "worker")),
           context);
  for (int rank = 0; rank < epoch_->size(); ++rank) {
    Worker* worker = AtRank(rank);
    roster_.SetArrived(worker, false);
    SendTo(*worker,
           protocol::EpochFormed{rank, epoch_->members, epoch_->first_step},
           context);
  }
  if (durable_.wanted.number != 0) TellAll(durable_.wanted, context);
}

// --- Endings ----------------------------------------------------------------

void Job::EndEpoch(Cause cause, Again again, EventContext& context) {
  const EpochId id = epoch_->id;
  // A failure completes a desired stop or drain early.
  const bool was_failure = again == Again::kIfBudgetAllows;
  const bool stops = was_failure && Wants(durable_.wanted, Command::kStop);
  const bool drains = was_failure && Wants(durable_.wanted, Command::kDrain);
  std::optional<std::string> no_more = "";
  if (again == Again::kWhenWorkersCome || drains) {
    no_more.reset();
  } else if (stops) {
    no_more = ByOperator("stopped", durable_.wanted.reason);
  } else if (was_failure) {
    std::optional<uint64_t> step;
    if (epoch_->started)
      step = std::max(step_, epoch_->progress.Furthest().step);
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
  const auto members = epoch_->members;
  context.out.Record(name(), record::EpochFinished{id, cause, step_});
  Remember(absl::StrFormat("epoch %d ends: %s", id.value, cause.message),
           context);
  epoch_.reset();
  AwaitNextEpoch(context.now);
  const bool final = no_more.has_value();
  if (final) {
    EndJob(stopped ? record::JobOutcome::kStopped : record::JobOutcome::kFailed,
           cause, context);
  }
  for (const protocol::Member& member : members) {
    Worker* worker = roster_.Find(member.worker);
    if (worker->state == WorkerState::kReady) {
      roster_.Move(worker, WorkerState::kJoining);
    }
    context.out.Send(worker->session, name(), id,
                     protocol::EpochEnded{cause, final});
  }
}

// A drained job waits like a new one: for its first worker, without a deadline.
void Job::AwaitNextEpoch(absl::Time now) {
  const bool drained = Wants(durable_.wanted, Command::kDrain);
  state_ = drained ? JobState::kForming : JobState::kEpochEnded;
  join_by_ = drained ? absl::InfiniteFuture() : now + spec().timeouts.join;
}

void Job::EndJob(record::JobOutcome outcome, Cause cause,
                 EventContext& context) {
  context.out.Record(name(), record::JobEnded{outcome, std::move(cause)});
  state_ = StateAfter(outcome);
  epoch_.reset();
  leases_.ClearAll();
  resumes_.ClearAll();
  join_by_ = absl::InfiniteFuture();
  pulse_ = absl::InfiniteFuture();
  form_at_ = absl::InfiniteFuture();
  Remember(std::string(Over().message()), context);
}

void Job::Stop(const std::string& reason, EventContext& context) {
  Cause cause{.kind = CauseKind::kStopped,
              .message = ByOperator("stopped", reason)};
  if (epoch_) return EndEpoch(std::move(cause), Again::kNever, context);
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
      .spec = spec(), .roster = roster_, .epoch_lives = epoch_.has_value()};
  const auto name_holder = durable_.name_holders.find(worker);
  if (name_holder != durable_.name_holders.end())
    state.newest = name_holder->second;
  return state;
}

int Job::RankOf(const Worker& worker) const {
  const bool may_be = epoch_ && worker.seated();
  return may_be ? epoch_->RankOf(worker.name) : -1;
}

std::vector<WorkerName> Job::NamesOf(const std::vector<int>& ranks) const {
  std::vector<WorkerName> names;
  for (const int rank : ranks) names.push_back(NameAt(rank));
  return names;
}

std::string Job::WhoIs(const Worker& worker) const {
  return Who(worker.name, RankOf(worker), worker.process);
}

// --- Doing ------------------------------------------------------------------

void Job::SendTo(const Worker& worker, protocol::ToWorkerBody body,
                 EventContext& context) {
  context.out.Send(worker.session, name(), epoch_ ? epoch_->id : EpochId{},
                   std::move(body));
}

void Job::TellAll(const protocol::ToWorkerBody& body, EventContext& context) {
  for (int rank = 0; rank < epoch_->size(); ++rank) {
    SendTo(*AtRank(rank), body, context);
  }
}

void Job::KeepWarning(const std::string& text, EventContext& context) {
  constexpr size_t kWarningsMax = 16;
  if (warnings_.size() == kWarningsMax) warnings_.pop_front();
  warnings_.push_back(text);
  Remember(absl::StrCat("warning: ", text), context);
}

void Job::Warn(const std::string& text, EventContext& context) {
  KeepWarning(text, context);
  for (int rank = 0; rank < epoch_->size(); ++rank) {
    if (epoch_->left.Has(rank)) continue;
    return SendTo(*AtRank(rank), protocol::Warning{text}, context);
  }
}

void Job::Remember(std::string text, EventContext& context) {
  history_.Add(context.now, text);
  context.out.Note(name(), std::move(text));
}

}  // namespace lockstep::core
