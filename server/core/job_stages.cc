// The part of Job about an epoch's work, from registrations to running steps.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "plan/compile.h"
#include "server/core/commands.h"
#include "server/core/job.h"
#include "server/core/status_text.h"

namespace lockstep::core {

using protocol::CauseKind;

void Job::Receive(SessionId session, const WorkerName& name,
                  const protocol::ToCoordinator& message,
                  EventContext& context) {
  Worker* worker = roster_.Find(name);
  if (worker == nullptr || worker->session != session) return;
  worker->heard = context.now;
  if (worker->seated() && !over()) {
    leases_.Set(name, context.now + spec().timeouts.lease);
  }
  const int rank = RankOf(*worker);
  if (const auto* leave = std::get_if<protocol::Leave>(&message.body)) {
    return On(worker, *leave, context);
  }
  if (const auto* report = std::get_if<protocol::EpochReport>(&message.body)) {
    const bool is_over = !epoch_ && message.epoch == durable_.epoch;
    if (is_over) On(*worker, *report, context);
    return;
  }
  if (rank < 0 || message.epoch != epoch_->id) return;
  if (!IsTooEarly(rank, message.body, context))
    Deliver(rank, message.body, context);
}

void Job::Deliver(int rank, const protocol::ToCoordinatorBody& body,
                  EventContext& context) {
  std::visit(
      [&](const auto& b) {
        if constexpr (requires { On(rank, b, context); }) On(rank, b, context);
      },
      body);
}

// --- Sealed: registrations --------------------------------------------------

void Job::On(int rank, const protocol::RegisterChunk& message,
             EventContext& context) {
  const bool again = epoch_->plan != nullptr || epoch_->plan_is_foreign ||
                     epoch_->compiling.value != 0;
  if (again) return;  // a repetition
  const absl::Status added = epoch_->registry.Add(rank, message);
  if (!added.ok()) {
    return EndByMismatch(rank, std::string(added.message()), context);
  }
  Touch(rank, context);
  EndIfLeaverIsMissed(context);
  if (epoch_ && epoch_->registry.complete()) CompilePlan(context);
}

void Job::CompilePlan(EventContext& context) {
  // After a restart this compiles the adopted revision again.
  Registrations registered = epoch_->registry.Take();
  plan::PlanInput input{.mesh = spec().mesh,
                        .sync = spec().sync,
                        .policy = spec().buckets,
                        .revision = std::max(durable_.revision, Revision{1}),
                        .registrations = std::move(registered.parameters),
                        .transports = std::move(registered.transports),
                        .observed_order = durable_.observed_order,
                        .pipeline = spec().pipeline,
                        .leaves = spec().reproducible.leaves};
  epoch_->compiling = context.out.Compile(name(), std::move(input));
}

void Job::Take(const Compiled& event, EventContext& context) {
  const bool awaited = epoch_ && epoch_->compiling == event.id;
  if (!awaited) return;
  epoch_->compiling = {};
  if (epoch_->plan != nullptr) return AdoptRecut(event.result, context);
  if (event.result.ok()) return AdoptPlan(*event.result, context);
  if (MayRunForeignPlan()) return RunForeignPlan(context);
  EndByMismatch(-1, std::string(event.result.status().message()), context);
}

void Job::AdoptPlan(const CompiledPlan& compiled, EventContext& context) {
  epoch_->digest = compiled.digest;
  epoch_->plan = compiled.plan;
  epoch_->handles.emplace(*epoch_->plan);
  epoch_->progress.BeginAnew(context.now);  // no rank could move meanwhile
  const bool again = durable_.revision.value != 0;
  if (!again) {
    context.out.Record(name(),
                       record::PlanAdopted{epoch_->id, epoch_->plan->revision,
                                           epoch_->digest});
  } else if (epoch_->digest != durable_.plan_digest && MayRunForeignPlan()) {
    return RunForeignPlan(context);
  } else if (epoch_->digest != durable_.plan_digest) {
    return EndByMismatch(
        -1,
        absl::StrFormat("the plan compiled again after a restart of the "
                        "coordinator has digest %s; the adopted one is %s",
                        epoch_->digest, durable_.plan_digest),
        context);
  }
  BeginNegotiation(again ? Negotiation::Begins::kAgain
                         : Negotiation::Begins::kAnew);
  if (epoch_->started) {  // members hold it, or the previous revision
    ReceiveEarly(context);
    if (epoch_) ResumeRevisions(context);
    return;
  }
  state_ = JobState::kPlanned;
  Remember(absl::StrFormat("plan %s: %s in %s", epoch_->digest,
                           Count(epoch_->plan->parameters.size(), "parameter"),
                           Count(epoch_->plan->buckets.size(), "bucket")),
           context);
  TellAll(protocol::PlanReady{epoch_->plan->revision, epoch_->digest}, context);
  ReceiveEarly(context);
}

// `rank` -1: about all ranks.
void Job::EndByMismatch(int rank, const std::string& what,
                        EventContext& context) {
  protocol::Cause cause{.kind = CauseKind::kMismatch, .message = what};
  if (rank >= 0) {
    cause.workers = {NameAt(rank)};
    cause.message = absl::StrCat(WhoIs(*AtRank(rank)), " ", what);
  }
  EndEpoch(std::move(cause), Again::kNever, context);
}

// --- Planned: acknowledged, handles, connected ------------------------------

void Job::On(int rank, const protocol::PlanAck& message,
             EventContext& context) {
  if (epoch_->started) return HoldRevision(rank, message, context);
  if (message.revision != epoch_->plan->revision ||
      message.digest != epoch_->digest) {
    return EndByMismatch(
        rank,
        absl::StrFormat("holds revision %d of the plan with digest %s; the "
                        "job's is revision %d with digest %s",
                        message.revision.value, message.digest,
                        epoch_->plan->revision.value, epoch_->digest),
        context);
  }
  if (epoch_->acked.Add(rank)) Touch(rank, context);
}

void Job::On(int rank, const protocol::PublishHandles& message,
             EventContext& context) {
  if (epoch_->started) return;
  if (!epoch_->acked.Has(rank)) {
    return EndByMismatch(
        rank, "published handles of a plan that it did not acknowledge",
        context);
  }
  const auto completed = epoch_->handles->Publish(rank, message.handles);
  if (!completed.ok()) {
    return EndByMismatch(rank, std::string(completed.status().message()),
                         context);
  }
  Touch(rank, context);
  for (const int communicator : *completed) {
    const auto pieces = epoch_->handles->Complete(communicator);
    for (const int member : epoch_->handles->Members(communicator)) {
      for (const auto& piece : pieces) SendTo(*AtRank(member), piece, context);
    }
  }
  if (!completed->empty() && epoch_->handles->complete()) {
    epoch_->connect_by = context.now + spec().timeouts.connect;
  }
}

void Job::On(int rank, const protocol::Connected& message,
             EventContext& context) {
  if (epoch_->started) return SendTo(*AtRank(rank), protocol::Start{}, context);
  if (!epoch_->acked.Has(rank) || !epoch_->handles->HasAll(rank)) {
    return EndByMismatch(
        rank, "says it is connected, but did not publish its handles", context);
  }
  if (!epoch_->connected.Add(rank)) return;
  epoch_->connections.Add(message);
  roster_.Move(AtRank(rank), WorkerState::kReady);
  Touch(rank, context);
  if (!epoch_->connected.full()) return;
  epoch_->progress.Begin(context.now);
  Start(context);
}

void Job::Start(EventContext& context) {
  epoch_->started = true;
  epoch_->connect_by = absl::InfiniteFuture();
  epoch_->progress.BeginAnew(context.now);
  state_ = JobState::kRunning;
  Remember(absl::StrFormat("epoch %d runs%s", epoch_->id.value,
                           epoch_->connections.Describe(*epoch_->plan)),
           context);
  for (int rank = 0; rank < epoch_->size(); ++rank) {
    epoch_->connected.Add(rank);
    Worker* worker = AtRank(rank);
    if (worker->state == WorkerState::kJoining) {
      roster_.Move(worker, WorkerState::kReady);
    }
    SendTo(*worker, protocol::Start{}, context);
  }
  RebuildOnce(context);
}

// --- Running ----------------------------------------------------------------

void Job::On(int rank, const protocol::Progress& message,
             EventContext& context) {
  const bool all_paused = epoch_->progress.all_paused();
  if (epoch_->progress.Update(rank, message, context.now)) {
    Remember(absl::StrCat(WhoIs(*AtRank(rank)), " goes on"), context);
  }
  epoch_->lags.Update(rank, message, context.now);
  epoch_->unsubmitted.Update(rank, message);
  if (epoch_->progress.all_paused() && !all_paused) {
    Remember(AllRanks(Command::kPause, message.position.step), context);
  }
  step_ = std::max(step_, message.position.step);
  WarnOfWhatIsKnown(/*at_once=*/false, context);
  RunRevision(rank, message.revision, context);
  if (message.withdrawn) NoteStopped(rank, message.position.step);
  EndIfLeaverIsMissed(context);
}

void Job::On(int rank, const protocol::ValueDigests& message,
             EventContext& context) {
  // A restarted coordinator has no plan before all ranks have registered.
  if (epoch_->plan == nullptr) return;
  if (!epoch_->values.Add(rank, message, *epoch_->plan)) {
    return EndByMismatch(rank, "has values of parameters that are not there",
                         context);
  }
  WarnOfWhatIsKnown(/*at_once=*/false, context);
}

// A rank that is beyond a step has sent all its reports about it.
void Job::WarnOfWhatIsKnown(bool at_once, EventContext& context) {
  const auto all = [&](const auto& has_said) {
    for (int rank = 0; rank < epoch_->size(); ++rank) {
      const RankProgress& standing = epoch_->progress.of(rank);
      if (standing.present && !has_said(rank, standing.position.step)) {
        return false;
      }
    }
    return true;
  };
  UnsubmittedTracker& unsubmitted = epoch_->unsubmitted;
  const uint64_t step = unsubmitted.step();
  if (unsubmitted.has_news() &&
      (at_once || all([&](int, uint64_t at) { return at > step; }))) {
    const std::string text = unsubmitted.Take();
    if (!text.empty()) Warn(text, context);
  }
  ValueDigestTracker& values = epoch_->values;
  if (values.has_news() && (at_once || all([&](int rank, uint64_t at) {
                              return at > epoch_->first_step ||
                                     values.Has(rank);
                            }))) {
    Warn(values.Take(), context);
  }
}

void Job::On(int rank, const protocol::Busy& message, EventContext& context) {
  epoch_->progress.SetBusy(rank, message, context.now);
}

void Job::On(int rank, const protocol::Evidence& message,
             EventContext& context) {
  OnEvidence(message, NameAt(rank), context);
}

void Job::On(int rank, const protocol::LocalFailure& message,
             EventContext& context) {
  step_ = std::max(step_, message.step);
  const Worker& worker = *AtRank(rank);
  if (message.call.empty()) {
    // The ranks differ, and this one is the first to report it.
    return EndEpoch(
        {.kind = CauseKind::kLocalFailure,
         .message = absl::StrFormat("%s (as reported by %s)", message.message,
                                    WhoIs(worker))},
        Again::kIfBudgetAllows, context);
  }
  EndEpoch({.kind = CauseKind::kLocalFailure,
            .workers = {worker.name},
            .message = absl::StrFormat(
                "%s: %s failed at step %d: %s", WhoIs(worker), message.call,
                message.step,
                absl::Status(message.code, message.message).ToString())},
           Again::kIfBudgetAllows, context);
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
}

void Job::Touch(int rank, EventContext& context) {
  if (epoch_->progress.Touch(rank, context.now)) {
    Remember(absl::StrCat(WhoIs(*AtRank(rank)), " goes on"), context);
  }
}

// --- Questions --------------------------------------------------------------

std::string Job::WhereIs(int rank, absl::Time now) const {
  if (epoch_->started) {
    const RankProgress& standing = epoch_->progress.of(rank);
    return LastHeard(standing.position, now - standing.told);
  }
  return epoch_->plan == nullptr ? "while parameters were registered"
                                 : "while the data plane was connected";
}

std::string Job::Lack() const {
  if (epoch_->plan == nullptr) return "has not registered its parameters";
  if (!epoch_->acked.full()) return "has not acknowledged the plan";
  if (!epoch_->handles->complete()) return "has not published its handles";
  return "has not connected its data plane";
}

std::vector<bool> Job::Done() const {
  std::vector<bool> done(epoch_->size());
  for (int rank = 0; rank < epoch_->size(); ++rank) {
    if (epoch_->plan == nullptr) {
      done[rank] = epoch_->registry.complete(rank);
    } else if (!epoch_->acked.full()) {
      done[rank] = epoch_->acked.Has(rank);
    } else if (!epoch_->handles->complete()) {
      done[rank] = epoch_->handles->HasAll(rank);
    } else {
      done[rank] = epoch_->connected.Has(rank);
    }
  }
  return done;
}

Waits Job::WhoWaits() const {
  return epoch_->started ? Waits::OfSteps(epoch_->progress, epoch_->plan.get(),
                                          PassesDone())
                         : Waits::OfStage(epoch_->progress, Done());
}

}  // namespace lockstep::core
