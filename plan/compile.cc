#include "plan/compile.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "plan/bucket.h"
#include "plan/merge.h"
#include "plan/pipeline/lanes.h"
#include "plan/pipeline/stages.h"

namespace lockstep::plan {
namespace {

// The order that was observed, which must name every parameter once; without
// one, as gradients are expected to become ready.
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

// Buckets and lanes of a plan that has its parameters and communicators.
absl::Status Cut(const std::vector<int>& communicator_of,
                 std::vector<int> order, const BucketPolicy& policy,
                 Plan* plan) {
  absl::Status sorted =
      SortByStage(plan->parameters, plan->pipeline, plan->mesh, &order);
  if (!sorted.ok()) return sorted;
  plan->buckets = CutBuckets(plan->parameters, plan->communicators,
                             communicator_of, order, policy);
  return LayLanes(plan);
}

std::set<int> ParametersOf(const Bucket& bucket) {
  std::set<int> parameters;
  for (const Slot& slot : bucket.slots) parameters.insert(slot.parameter);
  return parameters;
}

// Nothing fits beside another parameter, not even an empty one.
constexpr BucketPolicy kEachAlone{.first_bytes_max = -1, .bytes_max = -1};

absl::Status ValidateWorld(const PlanInput& input) {
  if (absl::Status mesh = Validate(input.mesh); !mesh.ok()) return mesh;
  const size_t world = static_cast<size_t>(input.mesh.WorldSize());
  if (input.registrations.size() != world) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "mesh %s has %d ranks, but %d registered", ToString(input.mesh), world,
        input.registrations.size()));
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
  plan.parameters = std::move(merged->parameters);
  plan.pipeline = input.pipeline;
  absl::Status cut = Cut(merged->communicator_of, *order,
                         alone ? kEachAlone : input.policy, &plan);
  if (!cut.ok()) return cut;
  return plan;
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
            .pipeline = plan.pipeline};
  if (absl::Status cut = Cut(communicator_of, *order, policy, &next);
      !cut.ok()) {
    return cut;
  }
  return next;
}

bool CutAlike(const Plan& a, const Plan& b) {
  return std::equal(a.buckets.begin(), a.buckets.end(), b.buckets.begin(),
                    b.buckets.end(), [](const Bucket& x, const Bucket& y) {
                      return ParametersOf(x) == ParametersOf(y);
                    });
}

}  // namespace lockstep::plan
