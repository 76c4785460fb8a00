// The part of Epoch about new streams of members and restarts of the
// coordinator: state without records.
//
// The plan's bytes are not journaled, nor is whether the epoch was started, nor
// are members' messages. Each member resumes with the state it holds. From this
// the epoch infers:
//
//   one was started         all were: one of them sends the plan again
//   none was started        all register again: the plan is compiled again and
//                           must be the same
//   a later revision        was adopted while steps ran: all were started
//
// In an adopted job (adoption.h), whose plan another coordinator compiled, all
// register again; so they do if no member sends the plan (plan_recall.h).

#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "server/core/epoch.h"

namespace lockstep::core {

// --- Members ----------------------------------------------------------------

protocol::EpochFormed Epoch::Formed(int rank) const {
  return {rank, members_.list(), durable_.first_step, durable_.holders,
          durable_.previous_world};
}

void Epoch::Announce(EventContext& event) {
  EpochContext context = With(event);
  for (int rank = 0; rank < members_.size(); ++rank) {
    context.Send(rank, Formed(rank));
  }
  if (durable_.wanted != protocol::DesiredCommands{})
    context.SendAll(durable_.wanted);
}

std::optional<EpochEnd> Epoch::Resume(int rank, const protocol::Hello& hello,
                                      EventContext& event) {
  EpochContext context = With(event);
  const bool holds = hello.resume && started_ &&
                     hello.resume->plan_digest == durable_.plan_digest;
  if (holds) {
    const protocol::PlanAck ack{hello.resume->revision,
                                hello.resume->plan_digest};
    if (auto end = revisions_.On(rank, ack, context)) return end;
  }
  Restate(rank, context);
  // Start is sent to all ranks at once, so one that received it proves it for
  // all.
  if (HasStarted(hello) && !started_) Start(context);
  // The end of its former stream may not be heard yet.
  recall_.Lose(rank, "lost its stream", context);
  const bool leaves = hello.resume && hello.resume->leaving;
  const bool registers = !HasStarted(hello) || registry_.complete(rank);
  recall_.Resume(rank, registers || leaves, HoldsPlan(hello) && !leaves);
  if (started_) recall_.Ask(context);
  return ResumePasses(rank, hello, context);
}

void Epoch::Restate(int rank, EpochContext& context) {
  registry_.Repeat(rank);
  early_.erase(rank);
  context.Send(rank, Formed(rank));
  // After a restart the plan can be fetched only once it is here again.
  if (revisions_.has_plan()) {
    context.Send(rank,
                 protocol::PlanReady{durable_.revision, durable_.plan_digest});
  }
  if (connecting_) connecting_->Repeat(rank, context);
  if (started_) context.Send(rank, protocol::Start{});
  revisions_.RepeatRequest(rank, context);
  if (durable_.wanted != protocol::DesiredCommands{})
    context.Send(rank, durable_.wanted);
  checkpoints_.Resume(rank, context);
}

// A member that was started sends Held itself; one that was not has received no
// decision.
std::optional<EpochEnd> Epoch::ResumePasses(int rank,
                                            const protocol::Hello& hello,
                                            EpochContext& context) {
  if (spec().sync != SyncMode::kNegotiated) return std::nullopt;
  if (negotiation_) negotiation_->Resume(rank);
  if (HasStarted(hello) || durable_.revision.value == 0) return std::nullopt;
  return Receive(rank, protocol::Held{}, context);
}

bool Epoch::HasStarted(const protocol::Hello& hello) const {
  return hello.resume && hello.resume->started &&
         hello.resume->epoch == members_.epoch();
}

bool Epoch::HoldsPlan(const protocol::Hello& hello) const {
  return hello.resume && hello.resume->epoch == members_.epoch() &&
         hello.resume->revision == durable_.revision &&
         hello.resume->plan_digest == durable_.plan_digest;
}

// --- The plan after a restart -----------------------------------------------

void Epoch::LoseStream(int rank, EventContext& event) {
  EpochContext context = With(event);
  recall_.Lose(rank, "lost its stream", context);
  if (started_) recall_.Ask(context);
}

std::optional<EpochEnd> Epoch::On(int rank, const protocol::PlanPart& message,
                                  EpochContext& context) {
  recall_.On(rank, message, context);
  return std::nullopt;
}

std::optional<EpochEnd> Epoch::TakeRecalled(const Compiled& checked,
                                            EpochContext& context) {
  recall_.Take(checked, context);
  if (!checked.result.ok()) return std::nullopt;
  registered_ = true;
  registry_.Take();
  return AdoptPlan(*checked.result, context);
}

// --- Messages about a plan that is not here yet -----------------------------

bool Epoch::NeedsPlan(const protocol::ToCoordinatorBody& body) const {
  const bool is_about_plan =
      std::holds_alternative<protocol::PlanAck>(body) ||
      std::holds_alternative<protocol::PublishHandles>(body) ||
      std::holds_alternative<protocol::Connected>(body);
  const bool is_about_passes =
      std::holds_alternative<protocol::Held>(body) ||
      std::holds_alternative<protocol::Announce>(body) ||
      std::holds_alternative<protocol::Submitted>(body);
  return is_about_passes || (is_about_plan && !started_);
}

std::optional<EpochEnd> Epoch::KeepEarly(
    int rank, const protocol::ToCoordinatorBody& body, EpochContext& context) {
  if (durable_.revision.value == 0) {
    return context.Mismatch(rank, "speaks of a plan before there is one");
  }
  if (early_[rank].Add(body)) return std::nullopt;
  return context.Mismatch(
      rank, "says more than a step can hold, before the plan is here again");
}

std::optional<EpochEnd> Epoch::ReceiveEarly(EpochContext& context) {
  const auto early = std::exchange(early_, {});
  for (const auto& [rank, messages] : early) {
    for (const protocol::ToCoordinatorBody& body : messages.all()) {
      if (auto end = Deliver(rank, body, context)) return end;
    }
  }
  return std::nullopt;
}

// --- Adopted epochs ---------------------------------------------------------

// Another coordinator compiled the plan, perhaps of another version. Static
// plans run without the coordinator, so it need not have the plan.
bool Epoch::MayRunForeignPlan() const {
  return durable_.adopted && started_ && spec().sync != SyncMode::kNegotiated;
}

void Epoch::RunForeignPlan(EpochContext& context) {
  context.Remember(
      absl::StrFormat("the plan %s of the adopted epoch cannot be compiled "
                      "here: steps run on without its description",
                      durable_.plan_digest));
}

}  // namespace lockstep::core
