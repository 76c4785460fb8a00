#include "server/core/plan_revisions.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "plan/compile.h"
#include "server/core/status_text.h"

namespace lockstep::core {
namespace {

absl::Status CannotRebuild(const JobSpec& spec, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrFormat(
      "job %s cannot rebuild its buckets now: %s", spec.name, why));
}

}  // namespace

// --- Requesting -------------------------------------------------------------

// The order matters only with more than one bucket.
bool PlanRevisions::OrderMatters(const JobSpec& spec) const {
  return spec.sync == SyncMode::kStatic && spec.reproducible.leaves == 0 &&
         has_plan() && plan()->buckets.size() > 1;
}

void PlanRevisions::RebuildOnce(EpochContext& context) {
  const bool is_due = context.spec().buckets.rebuild == Rebuild::kOnce &&
                      context.durable.revision.value == 1 && !poll_ &&
                      compiling_.value == 0;
  if (is_due && OrderMatters(context.spec())) AskForOrder(context);
}

void PlanRevisions::Resume(EpochContext& context) {
  const DurableJob& durable = context.durable;
  if (durable.revision.value > 1) {
    context.SendAll(protocol::PlanReady{durable.revision, durable.plan_digest});
  }
  RebuildOnce(context);
}

absl::Status PlanRevisions::RebuildNow(EpochContext& context) {
  if (absl::Status may = MayRebuild(context.spec()); !may.ok()) return may;
  if (absl::Status is = IsSettled(context); !is.ok()) return is;
  AskForOrder(context);
  return absl::OkStatus();
}

absl::Status PlanRevisions::MayRebuild(const JobSpec& spec) const {
  if (spec.sync == SyncMode::kNegotiated) {
    return CannotRebuild(
        spec, "sync: negotiated decides the order anew in every pass");
  }
  if (spec.sync == SyncMode::kReduceScatter) {
    return CannotRebuild(
        spec,
        "sync: reduce_scatter; ranks keep their optimizer's state by slices of "
        "the buckets");
  }
  if (spec.reproducible.leaves > 0) {
    return CannotRebuild(
        spec,
        "reproducible; the order that is observed differs from run to run");
  }
  if (!has_plan()) {
    return CannotRebuild(
        spec,
        "the coordinator restarted during this epoch and does not have its "
        "plan");
  }
  if (!OrderMatters(spec)) {
    return CannotRebuild(
        spec, "all gradients are in one bucket, whatever their order");
  }
  return absl::OkStatus();
}

absl::Status PlanRevisions::IsSettled(const EpochContext& context) const {
  const JobSpec& spec = context.spec();
  const Revision current = context.durable.revision;
  const auto names = [&context](const std::vector<int>& ranks) {
    return NameList(context.members.NamesOf(ranks), 4);
  };
  if (compiling_.value != 0) {
    return CannotRebuild(
        spec, absl::StrFormat("revision %d is under way: it is compiled",
                              plan()->revision.value + 1));
  }
  if (poll_) {
    return CannotRebuild(
        spec, absl::StrFormat(
                  "revision %d is under way, and %s did not say yet in which "
                  "order gradients become ready; a program that keeps views of "
                  "them must allow their move (GradientSync::OnMoved)",
                  poll_->revision().value, names(poll_->Unanswered())));
  }
  if (current.value > 1 && !holding_.full() && running_.empty()) {
    return CannotRebuild(
        spec, absl::StrFormat(
                  "revision %d is under way, and %s did not take it over yet; "
                  "a program that keeps views of its gradients must allow "
                  "their move (GradientSync::OnMoved)",
                  current.value, names(holding_.Missing())));
  }
  if (current.value > 1 && !running_.full()) {
    return CannotRebuild(
        spec, absl::StrFormat(
                  "revision %d is under way, and %s did not switch to it yet",
                  current.value, names(running_.Missing())));
  }
  return absl::OkStatus();
}

void PlanRevisions::AskForOrder(EpochContext& context) {
  poll_.emplace(*plan());
  for (const int rank : poll_->Unanswered()) RepeatRequest(rank, context);
}

void PlanRevisions::RepeatRequest(int rank, EpochContext& context) const {
  if (!poll_ || !poll_->Wants(rank)) return;
  context.Send(rank, protocol::OrderWanted{poll_->revision()});
}

// --- Adopting ---------------------------------------------------------------

std::optional<EpochEnd> PlanRevisions::On(int rank,
                                          const protocol::ReadyOrder& message,
                                          EpochContext& context) {
  if (!poll_ || message.revision != poll_->revision()) return std::nullopt;
  const absl::Status answered = poll_->Answer(rank, message.parameters);
  if (!answered.ok()) {
    return context.Mismatch(rank, std::string(answered.message()));
  }
  if (!poll_->complete()) return std::nullopt;
  recut_order_ = poll_->Merged();
  poll_.reset();
  compiling_ =
      context.Compile(RecutInput{plan(), context.spec().buckets, recut_order_});
  return std::nullopt;
}

void PlanRevisions::Take(const Compiled& event, EpochContext& context) {
  if (compiling_ != event.id) return;
  compiling_ = {};
  const std::vector<uint32_t> order = std::exchange(recut_order_, {});
  if (!event.result.ok()) {
    return context.Remember(absl::StrFormat(
        "revision %d of the plan is not adopted: %s",
        plan()->revision.value + 1, event.result.status().message()));
  }
  if (plan::CutAlike(*plan(), *event.result->plan)) {
    return context.Remember(
        absl::StrFormat("buckets stay as they are: gradients become ready in "
                        "the order of revision %d",
                        plan()->revision.value));
  }
  Adopt(*event.result, order, context);
}

void PlanRevisions::Adopt(const CompiledPlan& recut,
                          const std::vector<uint32_t>& order,
                          EpochContext& context) {
  compiled_ = recut;
  holding_ = RankSet(context.members.size());
  running_ = RankSet(context.members.size());
  context.Record(record::PlanAdopted{context.members.epoch(), plan()->revision,
                                     compiled_.digest, order, compiled_.image});
  const DurableJob& durable = context.durable;
  context.Remember(absl::StrFormat(
      "revision %d of the plan, %s: %s as gradients become ready",
      durable.revision.value, compiled_.digest,
      Count(plan()->buckets.size(), "bucket")));
  context.SendAll(protocol::PlanReady{durable.revision, durable.plan_digest});
}

// --- Switching --------------------------------------------------------------

std::optional<EpochEnd> PlanRevisions::On(int rank,
                                          const protocol::PlanAck& ack,
                                          EpochContext& context) {
  const DurableJob& durable = context.durable;
  if (ack.revision != durable.revision) return std::nullopt;
  if (ack.digest != durable.plan_digest) {
    return context.Mismatch(
        rank,
        absl::StrFormat("holds revision %d of the plan with digest %s; the "
                        "job's has digest %s",
                        ack.revision.value, ack.digest, durable.plan_digest));
  }
  const bool is_news = durable.revision.value > 1 && holding_.Add(rank);
  if (is_news && holding_.full()) {
    context.Remember(
        absl::StrFormat("every rank holds revision %d: it takes effect with "
                        "the next verdict that says so",
                        durable.revision.value));
  }
  return std::nullopt;
}

void PlanRevisions::NoteRunning(int rank, Revision revision,
                                EpochContext& context) {
  if (revision.value <= 1 || revision != context.durable.revision) return;
  if (running_.Add(rank) && running_.full()) {
    context.Remember(
        absl::StrFormat("every rank runs revision %d", revision.value));
  }
}

}  // namespace lockstep::core
