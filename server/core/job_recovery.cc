// The part of Job about recovery: the reports of an ended epoch's members, the
// decision (recovery_tracker.h), and who holds the state in the next epoch.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/commands.h"
#include "server/core/formation.h"
#include "server/core/job.h"
#include "server/core/status_text.h"

namespace lockstep::core {

using protocol::CauseKind;

void Job::AwaitReports(const std::vector<int>& lost, absl::Time now) {
  recovery_.emplace(durable_.members, durable_.left);
  returns_by_ = now + spec().timeouts.progress;
  for (const int rank : lost) {
    recovery_->Forget(durable_.members[rank].worker);
  }
}

void Job::On(const Worker& worker, const protocol::EpochReport& message,
             EventContext& context) {
  step_ = std::max(step_, message.position.step);
  budget_.Correct(step_);
  const uint64_t step = message.position.step;
  const bool has_passed = !message.verdict.empty() && step > 0;
  const std::string passed =
      has_passed
          ? absl::StrCat(" and has passed the verdict of step ", step - 1)
          : "";
  Remember(absl::StrFormat("%s stands %s%s", worker.name.value,
                           Where(message.position), passed),
           context);
  if (!recovery_) return;
  NoteUnfinished(worker, message.position, context);
  if (!durable_.recovery) {
    recovery_->Report(worker.name, message);
    return Settle(context);
  }
  context.out.Send(worker.session, name(), durable_.epoch, *durable_.recovery);
}

// The progress known when the epoch ended may have been old.
void Job::NoteUnfinished(const Worker& worker,
                         const protocol::Position& position,
                         EventContext& context) {
  if (over() || durable_.left.empty() || !durable_.unfinished.value.empty() ||
      durable_.left.count(worker.name) > 0) {
    return;
  }
  for (const auto& [name, left] : durable_.left) {
    if (position <= protocol::Position{left.steps, protocol::Phase::kCompute})
      return;
  }
  context.out.Record(this->name(),
                     record::EpochFinished{durable_.epoch, durable_.cause,
                                           durable_.steps, worker.name});
}

// The worker has ended its epoch, with evidence that had no effect here: the
// others cannot go on without it.
void Job::EndWith(const Worker& worker, EventContext& context) {
  const int rank = RankOf(worker);
  EndEpoch({{.kind = CauseKind::kLocalFailure,
             .workers = {worker.name},
             .message = absl::StrFormat(
                 "%s has ended the epoch without a cause that is known here, "
                 "%s",
                 WhoIs(worker), epoch_->WhereIs(rank, context.now))},
            Again::kIfBudgetAllows,
            {}},
           context);
}

void Job::JoinAgain(Worker* worker, EventContext& context) {
  if (recovery_) recovery_->Forget(worker->name);
  Decide(context);
  if (AllHaveFinished()) EndWithTheFinished(context);
  if (!over()) Arrive(worker, context);
}

void Job::ForgetReport(const WorkerName& worker, EventContext& context) {
  if (!recovery_) return;
  recovery_->Forget(worker);
  Settle(context);
}

// A worker that may be lost, and that holds no rank, need not come again.
void Job::ForgetReturn(const Worker& worker, EventContext& context) {
  if (over() || !recovery_ || !recovery_->settled()) return;
  recovery_->Forget(worker.name);
  TryForm(context);
}

void Job::Settle(EventContext& context) {
  Decide(context);
  if (AllHaveFinished()) return EndWithTheFinished(context);
  if (recovery_ && recovery_->settled()) TryForm(context);
}

void Job::Decide(EventContext& context) {
  if (!recovery_ || !recovery_->settled() || over()) return;
  reports_by_ = absl::InfiniteFuture();
  if (!durable_.recovery && recovery_->any_reported()) {
    const protocol::RecoveryDecision decision = recovery_->Decide();
    if (!decision.holders.empty()) step_ = decision.steps;
    context.out.Record(name(),
                       record::RecoveryDecided{durable_.epoch, decision});
    Remember(absl::StrFormat("epoch %d is settled: %s", durable_.epoch.value,
                             DecisionText(decision)),
             context);
    for (const protocol::Member& member : durable_.members) {
      const Worker* worker = roster_.Find(member.worker);
      if (worker == nullptr || worker->generation != member.generation) {
        continue;
      }
      context.out.Send(worker->session, name(), durable_.epoch, decision);
    }
  }
}

void Job::ForgetTheAbsent(EventContext& context) {
  reports_by_ = absl::InfiniteFuture();
  if (!recovery_) return;
  for (const WorkerName& name : recovery_->Awaited()) {
    const Worker* worker = roster_.Find(name);
    const bool is_here = worker != nullptr && worker->session.value != 0;
    if (!is_here) recovery_->Forget(name);
  }
  Settle(context);
}

// Members that live, neither go on nor say that they are busy. Their processes
// may never end.
std::vector<StallView> Job::Hung(absl::Time now) const {
  std::vector<StallView> hung;
  if (!recovery_ || now < ended_at_ + spec().timeouts.progress) return hung;
  for (const WorkerName& worker_name : recovery_->Returning()) {
    const Worker* worker = roster_.Find(worker_name);
    if (worker == nullptr || worker->busy_until > now) continue;
    hung.push_back(
        {worker_name,
         absl::StrFormat("epoch %d ended %s ago, and %s has not joined again",
                         durable_.epoch.value, HowLong(now - ended_at_),
                         WhoIs(*worker))});
  }
  return hung;
}

void Job::EvictTheHung(EventContext& context) {
  returns_by_ = absl::InfiniteFuture();
  if (!recovery_ || spec().on_stuck != OnStuck::kEvict) return;
  for (const WorkerName& worker_name : recovery_->Returning()) {
    const Worker* worker = roster_.Find(worker_name);
    if (worker == nullptr || worker->busy_until <= context.now) continue;
    returns_by_ = std::min(returns_by_, worker->busy_until);
  }
  const std::string what = absl::StrFormat(
      "has not joined again within %s after epoch %d, and is not waited for",
      HowLong(context.now - ended_at_), durable_.epoch.value);
  std::vector<Loss> lost;
  for (const StallView& stall : Hung(context.now)) {
    Worker* worker = roster_.Find(stall.worker);
    if (worker->holds_rank()) {
      lost.push_back({worker, what});
    } else {
      Remember(absl::StrCat(WhoIs(*worker), " ", what), context);
      recovery_->Forget(stall.worker);
    }
  }
  Lose(CauseKind::kLeaseExpired, lost, context);
  if (!epoch_ && !over()) Settle(context);
}

// A member of the ended epoch leaves after its last step. Durable before it is
// told so: the others must not do less steps than it.
void Job::RecordFinished(const Worker& worker, const protocol::Leave& leave,
                         EventContext& context) {
  if (epoch_ || !recovery_ || durable_.left.count(worker.name) > 0) return;
  for (const protocol::Member& member : durable_.members) {
    if (member.worker != worker.name || member.generation != worker.generation)
      continue;
    context.out.Record(
        name(), record::WorkerLeft{durable_.epoch, worker.name, leave.steps,
                                   leave.verdict, leave.command});
  }
}

bool Job::IsGone(const protocol::Member& member) const {
  const Worker* worker = roster_.Find(member.worker);
  return worker == nullptr || worker->generation != member.generation ||
         worker->state == WorkerState::kLost;
}

// Somebody has the result of the last step, and nobody that holds the state is
// there to go on: those that do left, too, or are lost. Without a decision
// these are all members. Nobody completes the job for one that was to go on.
bool Job::AllHaveFinished() const {
  if (epoch_ || over() || durable_.left.empty()) return false;
  const WorkerName& unfinished = durable_.unfinished;
  if (!unfinished.value.empty() && durable_.left.count(unfinished) == 0)
    return false;
  uint64_t steps = step_;
  if (durable_.recovery) {
    steps = durable_.recovery->steps;
    for (const uint32_t rank : durable_.recovery->holders) {
      const protocol::Member& holder = durable_.members[rank];
      const bool has_left = durable_.left.count(holder.worker) > 0;
      if (!has_left && !IsGone(holder)) return false;
    }
  } else if (!recovery_ || !recovery_->settled() || recovery_->any_reported()) {
    return false;
  }
  return std::any_of(
      durable_.left.begin(), durable_.left.end(),
      [steps](const auto& left) { return left.second.steps >= steps; });
}

// All ranks left by the same verdict, so each departure has the command.
void Job::EndWithTheFinished(EventContext& context) {
  EndAfterRecovery(durable_.left.begin()->second.command, context);
}

void Job::EndAfterRecovery(std::optional<Command> command,
                           EventContext& context) {
  if (command && Wants(durable_.wanted, Command::kStop)) {
    return Stop(durable_.wanted.reason, context);
  }
  if (command && Wants(durable_.wanted, Command::kDrain)) {
    SendAway(roster_.arrived(),
             {.message = ByOperator("drained", durable_.wanted.reason)},
             context);
    return AwaitNextEpoch(context.now);
  }
  EndJob(record::JobOutcome::kCompleted, {}, context);
  TellTheEnd({.message = "the job completed"}, context);
}

// The newest epoch may have begun without the worker. It passed no step if
// durable_.steps is what it was, and nobody left with more.
std::optional<int> Job::HeldCell(const Worker& worker) const {
  if (epoch_ || !worker.held || worker.held->steps != durable_.steps) {
    return std::nullopt;
  }
  for (const auto& [name, left] : durable_.left) {
    if (left.steps > durable_.steps) return std::nullopt;
  }
  return worker.held->cell;
}

std::optional<DecidedState> Job::ClaimedState(const WorkerName& worker,
                                              const protocol::Hello& hello,
                                              EventContext& context) {
  if (!hello.held) return std::nullopt;
  const auto& decision = durable_.recovery;
  const bool is_about_this_epoch =
      !epoch_ && decision && hello.held->epoch == durable_.epoch;
  if (is_about_this_epoch && hello.held->steps == decision->steps) {
    for (const uint32_t rank : decision->holders) {
      if (durable_.members[rank].worker != worker) continue;
      const auto world = static_cast<int>(durable_.members.size());
      return DecidedState{decision->steps, world,
                          CellOf(spec(), world, static_cast<int>(rank))};
    }
  }
  Remember(absl::StrFormat(
               "%s says that it holds the state after %s, of epoch %d: it does "
               "not, and is a newcomer",
               worker.value, Count(hello.held->steps, "step"),
               hello.held->epoch.value),
           context);
  return std::nullopt;
}

}  // namespace lockstep::core
