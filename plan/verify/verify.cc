#include "plan/verify/verify.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text/rank_list.h"
#include "plan/verify/agreement.h"
#include "plan/verify/diagnostics.h"
#include "plan/verify/halos.h"
#include "plan/verify/operations.h"
#include "plan/verify/simulator.h"
#include "plan/verify/state.h"
#include "plan/verify/structure.h"
#include "plan/verify/traffic.h"
#include "plan/verify/values.h"

namespace lockstep::plan {
namespace {

// Whether all findings are about launch orders.
bool OnlyLaunchOrders(const Diagnostics& diagnostics) {
  for (const Diagnostic& diagnostic : diagnostics.kept()) {
    if (diagnostic.rule != Rule::kLaunchOrder) return false;
  }
  return !diagnostics.empty();
}

absl::Status CheckStructure(const Plan& plan) {
  Diagnostics diagnostics;
  CheckTables(plan, diagnostics);
  if (diagnostics.empty()) CheckHalos(plan, diagnostics);
  if (diagnostics.empty()) CheckState(plan, diagnostics);
  if (diagnostics.empty()) CheckLanes(plan, diagnostics);
  // If a transfer was removed, the launch order refers to nothing. Report also
  // the ranks that wait for it.
  if (OnlyLaunchOrders(diagnostics)) {
    const Traffic traffic = TrafficOf(plan);
    CheckCollectives(plan, traffic, diagnostics);
    CheckPointToPoint(plan, traffic, diagnostics);
  }
  if (diagnostics.empty()) CheckTasks(plan, diagnostics);
  if (diagnostics.empty()) CheckNorms(plan, diagnostics);
  return diagnostics.ToStatus();
}

absl::Status CheckAgreement(const Plan& plan, const Traffic& traffic) {
  Diagnostics diagnostics;
  CheckCollectives(plan, traffic, diagnostics);
  CheckPointToPoint(plan, traffic, diagnostics);
  if (diagnostics.empty()) CheckValues(plan, traffic, diagnostics);
  return diagnostics.ToStatus();
}

absl::Status CheckPlay(const Plan& plan, const Traffic& traffic,
                       QueueSharing queues, absl::string_view model) {
  const auto circle = FindDeadlock(plan, traffic, queues);
  if (!circle) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the plan deadlocks ", model, ": ", Describe(plan, *circle)));
}

}  // namespace

absl::Status Verify(const Plan& plan) {
  absl::Status status = CheckStructure(plan);
  if (!status.ok()) return status;
  const Traffic traffic = TrafficOf(plan);
  status = CheckAgreement(plan, traffic);
  if (!status.ok()) return status;
  status = CheckPlay(plan, traffic, QueueSharing::kEachLane,
                     "even if every lane runs by itself");
  if (!status.ok()) return status;
  return CheckPlay(plan, traffic, QueueSharing::kEachRank,
                   "if each rank runs one transfer at a time, in launch order");
}

absl::Status CheckSync(const Plan& plan, SyncMode sync) {
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const bool sharded = plan.buckets[b].sharded;
    if (sharded == (sync == SyncMode::kReduceScatter)) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "bucket %d is %s: sync: reduce_scatter, and no other mode, cuts all "
        "buckets into slices of ranks",
        b, sharded ? "sharded" : "not sharded"));
  }
  const bool negotiated = sync == SyncMode::kNegotiated;
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    if (plan.buckets[b].announced == negotiated) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "bucket %d is %s: sync: negotiated, and no other mode, has the ranks "
        "announce their gradients",
        b, negotiated ? "not announced" : "announced"));
  }
  if (!negotiated) return absl::OkStatus();
  if (!plan.halos.empty()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: has the halo exchange %s: negotiated mode runs "
                        "gradients only",
                        RankList(plan.halos[0].ranks), plan.halos[0].name));
  }
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (const Lane& lane : plan.ranks[rank].lanes) {
      const bool ordered_by_plan =
          lane.kind == LaneKind::kPipeline || lane.kind == LaneKind::kHalo;
      if (!ordered_by_plan) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "rank %d has a %s lane, %s: negotiated mode runs gradients only",
          rank, Name(lane.kind), lane.name));
    }
  }
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    if (plan.buckets[b].leaves > 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "bucket %d is summed in a tree: negotiated mode cannot", b));
    }
    if (plan.buckets[b].error_feedback) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "bucket %d feeds back errors: negotiated mode cannot", b));
    }
    if (plan.buckets[b].slots.size() == 1) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "bucket %d holds %d parameters: in negotiated mode each is sent alone",
        b, plan.buckets[b].slots.size()));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::plan
