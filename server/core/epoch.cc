#include "server/core/epoch.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "plan/compile.h"
#include "server/core/status_text.h"

namespace lockstep::core {

Epoch::Epoch(const DurableJob& durable, Roster& roster, JobLog& log,
             CheckpointHistory& history, absl::Time now)
    : durable_(durable),
      log_(log),
      mesh_(
          *MeshOfWorld(durable.spec, static_cast<int>(durable.members.size()))),
      members_(durable.epoch, durable.members, roster),
      registry_(members_.size(), spec().limits.parameters_max),
      recall_(members_.size(), mesh_, durable.revision.value != 0),
      revisions_(members_.size()),
      steps_(members_.size(), spec().timeouts.progress, durable.first_step,
             now),
      committed_(durable.first_step),
      checkpoints_(durable, history),
      departures_(members_.size()) {}

JobState Epoch::state() const {
  if (started_) return JobState::kRunning;
  return durable_.revision.value == 0 ? JobState::kSealed : JobState::kPlanned;
}

// After a restart it is unknown whether the epoch was started, but with a plan
// it may have been.
bool Epoch::MayTrain() const {
  return started_ || (!revisions_.has_plan() && durable_.revision.value != 0);
}

std::optional<uint64_t> Epoch::FurthestStep() const {
  if (!started_) return std::nullopt;
  return progress().Furthest().step;
}

// --- Messages ---------------------------------------------------------------

std::optional<EpochEnd> Epoch::Receive(int rank,
                                       const protocol::ToCoordinatorBody& body,
                                       EventContext& event) {
  EpochContext context = With(event);
  return Receive(rank, body, context);
}

std::optional<EpochEnd> Epoch::Receive(int rank,
                                       const protocol::ToCoordinatorBody& body,
                                       EpochContext& context) {
  const bool is_early = NeedsPlan(body) && !revisions_.has_plan();
  return is_early ? KeepEarly(rank, body, context)
                  : Deliver(rank, body, context);
}

std::optional<EpochEnd> Epoch::Deliver(int rank,
                                       const protocol::ToCoordinatorBody& body,
                                       EpochContext& context) {
  return std::visit(
      [&](const auto& message) -> std::optional<EpochEnd> {
        if constexpr (requires { On(rank, message, context); }) {
          return On(rank, message, context);
        }
        return std::nullopt;
      },
      body);
}

void Epoch::SendAll(const protocol::ToWorkerBody& body, EventContext& event) {
  With(event).SendAll(body);
}

// --- Sealed: registrations --------------------------------------------------

std::optional<EpochEnd> Epoch::On(int rank,
                                  const protocol::RegisterChunk& message,
                                  EpochContext& context) {
  if (registered_) return std::nullopt;  // a repetition
  const absl::Status added =
      registry_.Add(rank, message, &context.event.limits);
  if (!added.ok()) {
    return context.Mismatch(rank, std::string(added.message()));
  }
  context.Touch(rank);
  if (auto end = EndIfLeaverIsMissed(context)) return end;
  if (!registry_.complete()) return std::nullopt;
  const bool again = durable_.revision.value != 0;
  if (absl::Status may = CheckDataPlane(); !may.ok() && !again) {
    return context.Mismatch(-1, std::string(may.message()));
  }
  CompilePlan(context);
  return std::nullopt;
}

// Workers check their own addresses, which NCCL does not use.
absl::Status Epoch::CheckDataPlane() const {
  std::map<std::string, const protocol::Member*> machines;
  for (const protocol::Member& member : members_.list()) {
    const std::string& boot = member.process.boot_id;
    if (!boot.empty()) machines.emplace(boot, &member);
  }
  if (machines.size() < 2 || spec().data_plane == DataPlane::kTrusted) {
    return absl::OkStatus();
  }
  const protocol::Member& one = *machines.begin()->second;
  const protocol::Member& other = *std::next(machines.begin())->second;
  return absl::FailedPreconditionError(absl::StrFormat(
      "the workers are on %d machines (%s on %s, %s on %s): their data would "
      "cross a network without encryption. If all hosts on it are trusted, "
      "state `data_plane: trusted` in the spec",
      machines.size(), one.worker.value, one.process.host, other.worker.value,
      other.process.host));
}

void Epoch::CompilePlan(EpochContext& context) {
  // After a restart this compiles the adopted revision again.
  Registrations registered = registry_.Take();
  plan::PlanInput input{.mesh = mesh_,
                        .sync = spec().sync,
                        .policy = spec().buckets,
                        .revision = std::max(durable_.revision, Revision{1}),
                        .registrations = std::move(registered.parameters),
                        .transports = std::move(registered.transports),
                        .groups = std::move(registered.groups),
                        .halos = std::move(registered.halos),
                        .states = std::move(registered.states),
                        .observed_order = durable_.observed_order,
                        .pipeline = spec().pipeline,
                        .leaves = spec().reproducible.leaves};
  registered_ = true;
  recall_.Stop();
  compiling_ = context.Compile(std::move(input));
}

std::optional<EpochEnd> Epoch::Take(const Compiled& compiled,
                                    EventContext& event) {
  EpochContext context = With(event);
  if (recall_.Checks(compiled.id)) return TakeRecalled(compiled, context);
  if (compiling_ != compiled.id) {
    revisions_.Take(compiled, context);
    return std::nullopt;
  }
  compiling_ = {};
  if (compiled.result.ok()) return AdoptPlan(*compiled.result, context);
  if (!MayRunForeignPlan()) {
    return context.Mismatch(-1,
                            std::string(compiled.result.status().message()));
  }
  RunForeignPlan(context);
  return std::nullopt;
}

std::optional<EpochEnd> Epoch::AdoptPlan(const CompiledPlan& compiled,
                                         EpochContext& context) {
  steps_.progress().BeginAnew(context.now());  // no rank could move meanwhile
  const bool again = durable_.revision.value != 0;
  const bool differs = again && compiled.digest != durable_.plan_digest;
  if (differs && MayRunForeignPlan()) {
    RunForeignPlan(context);
    return std::nullopt;
  }
  if (differs) {
    return context.Mismatch(
        -1, absl::StrFormat("the plan compiled again after a restart of the "
                            "coordinator has digest %s; the adopted one is %s",
                            compiled.digest, durable_.plan_digest));
  }
  const plan::Plan& plan = *compiled.plan;
  if (!again) {
    context.Record(record::PlanAdopted{
        members_.epoch(), plan.revision, compiled.digest, {}, compiled.image});
  }
  revisions_.SetPlan(compiled);
  connecting_.emplace(compiled, members_.size());
  if (spec().sync == SyncMode::kNegotiated) {
    negotiation_.emplace(
        std::make_shared<const PassGroups>(plan),
        again ? Negotiation::Begins::kAgain : Negotiation::Begins::kAnew,
        durable_.first_step);
  }
  if (started_) {  // members hold it, or the previous revision
    if (auto end = ReceiveEarly(context)) return end;
    revisions_.Resume(context);
    return std::nullopt;
  }
  context.Remember(absl::StrFormat("plan %s: %s in %s", compiled.digest,
                                   Count(plan.parameters.size(), "parameter"),
                                   Count(plan.buckets.size(), "bucket")));
  context.SendAll(protocol::PlanReady{plan.revision, compiled.digest});
  return ReceiveEarly(context);
}

// --- Planned: acknowledged, handles, connected ------------------------------

std::optional<EpochEnd> Epoch::On(int rank, const protocol::PlanAck& message,
                                  EpochContext& context) {
  return started_ ? revisions_.On(rank, message, context)
                  : connecting_->On(rank, message, context);
}

std::optional<EpochEnd> Epoch::On(int rank,
                                  const protocol::PublishHandles& message,
                                  EpochContext& context) {
  if (started_) return std::nullopt;
  return connecting_->On(rank, message, context);
}

std::optional<EpochEnd> Epoch::On(int rank, const protocol::Connected& message,
                                  EpochContext& context) {
  if (started_) {
    context.Send(rank, protocol::Start{});
    return std::nullopt;
  }
  if (auto end = connecting_->On(rank, message, context)) return end;
  if (connecting_->all_connected()) {
    steps_.progress().Begin(context.now());
    Start(context);
  }
  return std::nullopt;
}

void Epoch::Start(EpochContext& context) {
  started_ = true;
  std::string transports;
  if (connecting_) {
    connecting_->Close();
    transports = connecting_->connections().Describe(*revisions_.plan());
  }
  steps_.progress().BeginAnew(context.now());
  context.Remember(
      absl::StrFormat("epoch %d runs%s", members_.epoch().value, transports));
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (members_.At(rank).state == WorkerState::kJoining) {
      members_.SetReady(rank);
    }
    context.Send(rank, protocol::Start{});
  }
  revisions_.RebuildOnce(context);
}

// --- Running ----------------------------------------------------------------

std::optional<EpochEnd> Epoch::On(int rank, const protocol::Progress& message,
                                  EpochContext& context) {
  const uint64_t step = message.position.step;
  steps_.On(rank, message, context);
  committed_ = std::max(committed_, step);
  WarnOfWhatIsKnown(/*at_once=*/false, context);
  revisions_.NoteRunning(rank, message.revision, context);
  if (message.withdrawn) departures_.Stop(rank, step);
  return EndIfLeaverIsMissed(context);
}

std::optional<EpochEnd> Epoch::On(int rank,
                                  const protocol::ValueDigests& message,
                                  EpochContext& context) {
  // A restarted coordinator has no plan at first.
  if (!revisions_.has_plan()) return std::nullopt;
  if (auto end = steps_.On(rank, message, *revisions_.plan(), context)) {
    return end;
  }
  WarnOfWhatIsKnown(/*at_once=*/false, context);
  return std::nullopt;
}

// A rank that is still here prints the warning.
void Epoch::WarnOfWhatIsKnown(bool at_once, EpochContext& context) {
  for (const std::string& text : steps_.TakeWarnings(at_once)) {
    log_.Warn(text, context.event);
    int rank = 0;
    while (rank < members_.size() && departures_.HasLeft(rank)) ++rank;
    if (rank < members_.size()) context.Send(rank, protocol::Warning{text});
  }
}

std::optional<EpochEnd> Epoch::On(int rank,
                                  const protocol::CheckpointReport& message,
                                  EpochContext& context) {
  return checkpoints_.On(rank, message, context);
}

std::optional<EpochEnd> Epoch::On(int rank, const protocol::Busy& message,
                                  EpochContext& context) {
  steps_.On(rank, message, context);
  return std::nullopt;
}

std::optional<EpochEnd> Epoch::On(int rank,
                                  const protocol::LocalFailure& message,
                                  EpochContext&) {
  committed_ = std::max(committed_, message.step);
  protocol::Cause cause{.kind = protocol::CauseKind::kLocalFailure};
  if (message.call.empty()) {
    // The ranks differ, and this one is the first to report it.
    cause.message = absl::StrFormat("%s (as reported by %s)", message.message,
                                    members_.WhoIs(rank));
  } else {
    cause.workers = {members_.NameAt(rank)};
    cause.message = absl::StrFormat(
        "%s: %s failed at step %d: %s", members_.WhoIs(rank), message.call,
        message.step, absl::Status(message.code, message.message).ToString());
  }
  return EpochEnd{std::move(cause), Again::kIfBudgetAllows, {}};
}

absl::Status Epoch::RebuildNow(EventContext& event) {
  EpochContext context = With(event);
  return revisions_.RebuildNow(context);
}

std::optional<EpochEnd> Epoch::On(int rank, const protocol::ReadyOrder& message,
                                  EpochContext& context) {
  return revisions_.On(rank, message, context);
}

// --- Passes -----------------------------------------------------------------

std::optional<EpochEnd> Epoch::On(int rank, const protocol::Announce& message,
                                  EpochContext& context) {
  return Negotiate(rank, message, context);
}

std::optional<EpochEnd> Epoch::On(int rank, const protocol::Submitted& message,
                                  EpochContext& context) {
  return Negotiate(rank, message, context);
}

std::optional<EpochEnd> Epoch::On(int rank, const protocol::Held& message,
                                  EpochContext& context) {
  return Negotiate(rank, message, context);
}

template <typename Message>
std::optional<EpochEnd> Epoch::Negotiate(int rank, const Message& message,
                                         EpochContext& context) {
  if (!negotiation_) {
    return context.Mismatch(
        rank, "speaks of passes, but the job is not in negotiated mode");
  }
  const Negotiation::Stated before = negotiation_->StatedBy(rank);
  if (const auto objection = negotiation_->Receive(rank, message)) {
    return context.Mismatch(objection->rank, objection->what);
  }
  if (negotiation_->StatedBy(rank) != before) context.Touch(rank);
  for (auto& [told, decide] : negotiation_->TakeUntold()) {
    context.Send(told, std::move(decide));
  }
  return std::nullopt;
}

// --- Time -------------------------------------------------------------------

std::optional<EpochEnd> Epoch::Wake(bool may_resume, EventContext& event) {
  EpochContext context = With(event);
  if (auto end = departures_.Expire(may_resume, context)) return end;
  if (connecting_) {
    if (auto end = connecting_->Expire(context)) return end;
  }
  recall_.Wake(context);
  NameLate(context);
  return CallStuck(context);
}

absl::Time Epoch::NextWake() const {
  return std::min(
      {departures_.NextExpiry(), steps_.NextDue(), recall_.NextWake(),
       connecting_ ? connecting_->connect_by() : absl::InfiniteFuture()});
}

void Epoch::BeginAnew(absl::Time now) {
  steps_.BeginAnew(now);
  departures_.BeginAnew(now + spec().timeouts.resume);
  recall_.BeginAnew(now, spec().timeouts.lease);
  if (connecting_) connecting_->BeginAnew(now + spec().timeouts.connect);
}

}  // namespace lockstep::core
