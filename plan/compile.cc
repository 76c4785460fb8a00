#include "plan/compile.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "base/text/count.h"
#include "base/text/rank_list.h"
#include "plan/bucket.h"
#include "plan/declared_groups.h"
#include "plan/halo/declared_halos.h"
#include "plan/merge.h"
#include "plan/pairs.h"
#include "plan/pipeline/lanes.h"
#include "plan/pipeline/shared.h"
#include "plan/pipeline/stages.h"
#include "plan/records.h"
#include "plan/shard.h"
#include "plan/state/declared_state.h"

namespace lockstep::plan {
namespace {

// The observed order, which must have every parameter once; without one, the
// order in which gradients are expected to become ready.
absl::StatusOr<std::vector<int>> ReadyOrder(
    const std::vector<uint32_t>& observed,
    const std::vector<Parameter>& parameters) {
  std::vector<int> order(parameters.size());
  if (observed.empty()) {
    std::iota(order.rbegin(), order.rend(), 0);
    return order;
  }
  if (observed.size() != parameters.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("observed_order names %d of %d parameters",
                        observed.size(), parameters.size()));
  }
  std::vector<bool> named(parameters.size());
  for (size_t i = 0; i < observed.size(); ++i) {
    const uint32_t index = observed[i];
    if (index >= parameters.size() || named[index]) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "observed_order names parameter %d, which is %s", index,
          index < parameters.size() ? "there already" : "not registered"));
    }
    named[index] = true;
    order[i] = static_cast<int>(index);
  }
  return order;
}

// How the buckets of a job are summed.
struct Sums {
  bool sharded = false;
  int leaves = 0;
  bool announced = false;
  std::vector<bool> in_pairs;  // by communicator: leaves in one operation
  bool by_records = false;     // how steps end
};

std::vector<bool> EachSumsInPairs(
    const std::vector<TransportFacts>& transports,
    const std::vector<CommunicatorSpec>& communicators) {
  std::vector<bool> in_pairs;
  for (const CommunicatorSpec& communicator : communicators) {
    in_pairs.push_back(SumsInPairs(transports, communicator.ranks));
  }
  return in_pairs;
}

// The same as in an earlier revision.
std::vector<bool> EachSumsInPairs(const Plan& plan) {
  std::vector<bool> in_pairs(plan.communicators.size(), false);
  for (const RankPlan& rank : plan.ranks) {
    for (const Lane& lane : rank.lanes) {
      for (const Transfer& transfer : lane.transfers) {
        if (transfer.kind != TransferKind::kAllReducePairs) continue;
        in_pairs[transfer.communicator] = true;
      }
    }
  }
  return in_pairs;
}

// All ranks have equally many leaves of the tree, as one subtree each.
absl::Status CheckLeaves(const Plan& plan) {
  for (const Bucket& bucket : plan.buckets) {
    if (bucket.leaves == 0) continue;
    const size_t ranks = plan.communicators[bucket.communicator].ranks.size();
    if (std::has_single_bit(ranks) && bucket.leaves % ranks == 0) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s is reduced over %d ranks, and reproducible.leaves is %d: the ranks "
        "must be a power of two, %d at most",
        plan.parameters[bucket.slots[0].parameter].name, ranks, bucket.leaves,
        bucket.leaves));
  }
  return absl::OkStatus();
}

// Adds buckets and lanes to a plan that has its parameters and communicators.
absl::Status Cut(const std::vector<int>& communicator_of,
                 std::vector<int> order, const BucketPolicy& policy,
                 const Sums& sums, Plan* plan) {
  absl::Status sorted =
      SortByStage(plan->parameters, plan->pipeline, plan->mesh, &order);
  if (!sorted.ok()) return sorted;
  plan->buckets = CutBuckets(plan->parameters, plan->communicators,
                             communicator_of, order, policy);
  for (Bucket& bucket : plan->buckets) {
    const CommunicatorSpec& members = plan->communicators[bucket.communicator];
    bucket.sharded = sums.sharded;
    bucket.leaves = sums.leaves;
    bucket.announced = sums.announced;
    if (HasSlices(bucket)) {
      // Padded for the leaves: so the layout does not depend on the number of
      // ranks.
      PadToSlices(&bucket, sums.leaves > 0
                               ? sums.leaves
                               : static_cast<int>(members.ranks.size()));
    }
  }
  if (absl::Status divides = CheckLeaves(*plan); !divides.ok()) return divides;
  return BuildLanes(plan, sums.in_pairs, sums.by_records);
}

// State may be sliced like sharded buckets: ranks keep it in these slices.
absl::Status CheckSlicesStay(const Plan& plan, const Plan& next) {
  if (plan.buckets == next.buckets || plan.buckets.empty() ||
      !plan.buckets[0].sharded) {
    return absl::OkStatus();
  }
  for (const StateTensor& tensor : plan.state) {
    if (tensor.slices.empty()) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "the slices of state \"%s\" would move with the buckets",
        absl::Utf8SafeCEscape(tensor.name)));
  }
  return absl::OkStatus();
}

std::set<int> ParametersOf(const Bucket& bucket) {
  std::set<int> parameters;
  for (const Slot& slot : bucket.slots) parameters.insert(slot.parameter);
  return parameters;
}

// Bounds that no second parameter fits, not even an empty one.
BucketPolicy AloneBy(BucketPolicy policy) {
  policy.first_bytes_max = policy.bytes_max = -1;
  return policy;
}

absl::Status ValidateWorld(const PlanInput& input) {
  if (absl::Status mesh = Validate(input.mesh); !mesh.ok()) return mesh;
  const size_t world = static_cast<size_t>(input.mesh.WorldSize());
  if (input.registrations.size() != world) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "mesh %s has %s, but %d registered", ToString(input.mesh),
        Count(world, "rank"), input.registrations.size()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Plan> Compile(const PlanInput& input) {
  if (absl::Status world = ValidateWorld(input); !world.ok()) return world;
  absl::StatusOr<Merged> merged = Merge(input.mesh, input.registrations);
  if (!merged.ok()) return merged.status();
  const bool alone = input.sync == SyncMode::kNegotiated;
  if (alone && merged->parameters.size() > kNegotiatedParametersMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d parameters are registered; sync: negotiated takes at most %d",
        merged->parameters.size(), kNegotiatedParametersMax));
  }
  const absl::StatusOr<std::vector<int>> order =
      ReadyOrder(input.observed_order, merged->parameters);
  if (!order.ok()) return order.status();

  Plan plan{.revision = input.revision, .mesh = input.mesh};
  plan.communicators = std::move(merged->communicators);
  absl::Status groups =
      AddDeclaredGroups(input.mesh, input.groups, &plan.communicators);
  if (!groups.ok()) return groups;
  if (absl::Status halos = AddDeclaredHalos(input.halos, &plan); !halos.ok()) {
    return halos;
  }
  if (alone && !plan.halos.empty()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: halo %s is declared, and sync: negotiated runs gradients only",
        RankList(plan.halos[0].ranks),
        absl::Utf8SafeCEscape(plan.halos[0].name)));
  }
  plan.parameters = std::move(merged->parameters);
  plan.pipeline = input.pipeline;
  DeclareSharedReplicas(merged->communicator_of, &plan);
  absl::Status cut =
      Cut(merged->communicator_of, *order,
          alone ? AloneBy(input.policy) : input.policy,
          {.sharded = input.sync == SyncMode::kReduceScatter,
           .leaves = input.leaves,
           .announced = input.sync == SyncMode::kNegotiated,
           .in_pairs = EachSumsInPairs(input.transports, plan.communicators),
           .by_records = EndsByRecords(input.transports, plan.mesh.WorldSize(),
                                       input.leaves)},
          &plan);
  if (cut.ok()) cut = AddDeclaredState(input.states, &plan);
  if (!cut.ok()) return cut;
  return plan;
}

std::vector<uint32_t> OrderOf(const Plan& plan) {
  std::vector<uint32_t> order;
  order.reserve(plan.parameters.size());
  for (const Bucket& bucket : plan.buckets) {
    for (const Slot& slot : bucket.slots) {
      order.push_back(static_cast<uint32_t>(slot.parameter));
    }
  }
  return order;
}

absl::StatusOr<Plan> Recut(const Plan& plan, const BucketPolicy& policy,
                           const std::vector<uint32_t>& observed_order) {
  const absl::StatusOr<std::vector<int>> order =
      ReadyOrder(observed_order, plan.parameters);
  if (!order.ok()) return order.status();
  std::vector<int> communicator_of(plan.parameters.size());
  for (const Bucket& bucket : plan.buckets) {
    for (const Slot& slot : bucket.slots) {
      communicator_of[slot.parameter] = bucket.communicator;
    }
  }
  Plan next{.revision = {plan.revision.value + 1},
            .mesh = plan.mesh,
            .communicators = plan.communicators,
            .parameters = plan.parameters,
            .pipeline = plan.pipeline,
            .halos = plan.halos,
            .state = plan.state};
  Sums sums{.in_pairs = EachSumsInPairs(plan),
            .by_records = EndsByRecords(plan)};
  if (!plan.buckets.empty()) {
    const Bucket& any = plan.buckets[0];
    sums.sharded = any.sharded;
    sums.leaves = any.leaves;
    sums.announced = any.announced;
  }
  absl::Status cut = Cut(communicator_of, *order, policy, sums, &next);
  if (cut.ok()) cut = CheckSlicesStay(plan, next);
  if (!cut.ok()) return cut;
  return next;
}

bool CutAlike(const Plan& a, const Plan& b) {
  return std::equal(a.buckets.begin(), a.buckets.end(), b.buckets.begin(),
                    b.buckets.end(), [](const Bucket& x, const Bucket& y) {
                      return ParametersOf(x) == ParametersOf(y);
                    });
}

}  // namespace lockstep::plan
