// The part of Job about later revisions: rebuilding the plan's buckets.
//
//   OrderWanted ─▶ the lowest rank of each group
//   ReadyOrder  ◀─ ... after its next step             all have answered:
//   PlanReady   ─▶ every rank                          recut, verify, record
//   PlanAck     ◀─ a rank that has fetched and prepared the revision, as its
//                  step summaries say
//   Progress    ◀─ with the revision, once a verdict has switched to it
//
// The coordinator takes no part in the switch: ranks switch at the verdict that
// shows that every rank holds the revision (docs/architecture.md, "Step
// agreement"). One revision at a time: the next is requested when all ranks run
// this one.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "plan/compile.h"
#include "server/core/job.h"
#include "server/core/status_text.h"

namespace lockstep::core {

// --- Requesting -------------------------------------------------------------

// The order matters only with more than one bucket.
bool Job::OrderMatters() const {
  return spec().sync == SyncMode::kStatic && spec().reproducible.leaves == 0 &&
         epoch_->plan != nullptr && epoch_->plan->buckets.size() > 1;
}

void Job::RebuildOnce(EventContext& context) {
  const bool is_due = spec().buckets.rebuild == Rebuild::kOnce &&
                      durable_.revision.value == 1 && !epoch_->poll &&
                      epoch_->compiling.value == 0;
  if (is_due && OrderMatters()) AskForOrder(context);
}

// After a coordinator restart, once the plan is compiled again: the
// announcement of the revision, or the request for one, may have been lost.
void Job::ResumeRevisions(EventContext& context) {
  if (durable_.revision.value > 1) {
    TellAll(protocol::PlanReady{durable_.revision, durable_.plan_digest},
            context);
  }
  RebuildOnce(context);
}

absl::Status Job::RebuildNow(EventContext& context) {
  const auto refuse = [this](const std::string& why) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "job %s cannot rebuild its buckets now: %s", spec().name, why));
  };
  if (spec().sync == SyncMode::kNegotiated) {
    return refuse("sync: negotiated decides the order anew in every pass");
  }
  if (spec().sync == SyncMode::kReduceScatter) {
    return refuse(
        "sync: reduce_scatter; ranks keep their optimizer's state by slices of "
        "the buckets");
  }
  if (spec().reproducible.leaves > 0) {
    return refuse(
        "reproducible; the order that is observed differs from run to run");
  }
  if (epoch_->plan == nullptr) {
    return refuse(
        "the coordinator restarted during this epoch and does not have its "
        "plan");
  }
  if (!OrderMatters()) {
    return refuse("all gradients travel in one bucket, whatever their order");
  }
  if (epoch_->compiling.value != 0) {
    return refuse(absl::StrFormat("revision %d is under way: it is compiled",
                                  epoch_->plan->revision.value + 1));
  }
  if (epoch_->poll) {
    return refuse(absl::StrFormat(
        "revision %d is under way, and %s did not say yet in which order "
        "gradients become ready; a program that keeps views of them must "
        "allow their move (GradientSync::OnMoved)",
        epoch_->poll->revision().value,
        NameList(NamesOf(epoch_->poll->DesiredCommands()), 4)));
  }
  if (durable_.revision.value > 1 && !epoch_->holding.full() &&
      epoch_->running.empty()) {
    return refuse(absl::StrFormat(
        "revision %d is under way, and %s did not take it over yet; a program "
        "that keeps views of its gradients must allow their move "
        "(GradientSync::OnMoved)",
        durable_.revision.value,
        NameList(NamesOf(epoch_->holding.Missing()), 4)));
  }
  if (durable_.revision.value > 1 && !epoch_->running.full()) {
    return refuse(absl::StrFormat(
        "revision %d is under way, and %s did not switch to it yet",
        durable_.revision.value,
        NameList(NamesOf(epoch_->running.Missing()), 4)));
  }
  AskForOrder(context);
  return absl::OkStatus();
}

void Job::AskForOrder(EventContext& context) {
  epoch_->poll.emplace(*epoch_->plan);
  const protocol::OrderWanted wanted{epoch_->poll->revision()};
  for (const int rank : epoch_->poll->DesiredCommands()) {
    SendTo(*AtRank(rank), wanted, context);
  }
}

// --- Adopting ---------------------------------------------------------------

void Job::On(int rank, const protocol::ReadyOrder& message,
             EventContext& context) {
  if (!epoch_->poll || message.revision != epoch_->poll->revision()) return;
  const absl::Status answered = epoch_->poll->Answer(rank, message.parameters);
  if (!answered.ok()) {
    return EndByMismatch(rank, std::string(answered.message()), context);
  }
  if (epoch_->poll->complete()) CompileRecut(context);
}

void Job::CompileRecut(EventContext& context) {
  epoch_->recut_order = epoch_->poll->Merged();
  epoch_->poll.reset();
  epoch_->compiling = context.out.Compile(
      name(), RecutInput{epoch_->plan, spec().buckets, epoch_->recut_order});
}

void Job::AdoptRecut(const absl::StatusOr<CompiledPlan>& compiled,
                     EventContext& context) {
  const std::vector<uint32_t> order = std::move(epoch_->recut_order);
  const plan::Plan& plan = *epoch_->plan;
  if (!compiled.ok()) {
    return Remember(
        absl::StrFormat("revision %d of the plan is not adopted: "
                        "%s",
                        plan.revision.value + 1, compiled.status().message()),
        context);
  }
  if (plan::CutAlike(plan, *compiled->plan)) {
    return Remember(
        absl::StrFormat("buckets stay as they are: gradients become ready in "
                        "the order of revision %d",
                        plan.revision.value),
        context);
  }
  epoch_->digest = compiled->digest;
  epoch_->plan = compiled->plan;
  epoch_->holding = RankSet(epoch_->size());
  epoch_->running = RankSet(epoch_->size());
  context.out.Record(name(),
                     record::PlanAdopted{epoch_->id, epoch_->plan->revision,
                                         epoch_->digest, order});
  Remember(absl::StrFormat("revision %d of the plan, %s: %s as gradients "
                           "become ready",
                           durable_.revision.value, epoch_->digest,
                           Count(epoch_->plan->buckets.size(), "bucket")),
           context);
  TellAll(protocol::PlanReady{durable_.revision, durable_.plan_digest},
          context);
}

// --- Switching --------------------------------------------------------------

void Job::HoldRevision(int rank, const protocol::PlanAck& ack,
                       EventContext& context) {
  if (ack.revision != durable_.revision) return;
  if (ack.digest != durable_.plan_digest) {
    return EndByMismatch(
        rank,
        absl::StrFormat("holds revision %d of the plan with digest %s; the "
                        "job's has digest %s",
                        ack.revision.value, ack.digest, durable_.plan_digest),
        context);
  }
  if (durable_.revision.value == 1 || !epoch_->holding.Add(rank)) return;
  if (epoch_->holding.full()) {
    Remember(absl::StrFormat("every rank holds revision %d: it takes effect "
                             "with the next verdict that says so",
                             durable_.revision.value),
             context);
  }
}

void Job::RunRevision(int rank, Revision revision, EventContext& context) {
  if (revision.value <= 1 || revision != durable_.revision) return;
  if (epoch_->running.Add(rank) && epoch_->running.full()) {
    Remember(absl::StrFormat("every rank runs revision %d", revision.value),
             context);
  }
}

}  // namespace lockstep::core
