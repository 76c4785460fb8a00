#include "plan/compile.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "plan/bucket.h"
#include "plan/merge.h"

namespace lockstep::plan {
namespace {

using PlaceOf = absl::flat_hash_map<absl::string_view, int>;

absl::Status NotAPermutation(absl::string_view name, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "observed_order %s parameter %s", why, absl::Utf8SafeCEscape(name)));
}

// Each name's place in the observed order, which must name every parameter
// once and nothing else.
absl::StatusOr<PlaceOf> PlacesIn(const std::vector<std::string>& observed,
                                 const std::vector<Parameter>& parameters) {
  PlaceOf place_of;
  for (size_t i = 0; i < observed.size(); ++i) {
    if (!place_of.try_emplace(observed[i], static_cast<int>(i)).second) {
      return NotAPermutation(observed[i], "repeats");
    }
  }
  PlaceOf unregistered = place_of;
  for (const Parameter& parameter : parameters) {
    if (!place_of.contains(parameter.name)) {
      return NotAPermutation(parameter.name, "lacks");
    }
    unregistered.erase(parameter.name);
  }
  for (const std::string& name : observed) {
    if (unregistered.contains(name)) {
      return NotAPermutation(name, "names the unregistered");
    }
  }
  return place_of;
}

// Indices of `parameters`, as their gradients are expected to become ready.
absl::StatusOr<std::vector<int>> ReadyOrder(
    const std::vector<std::string>& observed,
    const std::vector<Parameter>& parameters) {
  std::vector<int> order(parameters.size());
  std::iota(order.begin(), order.end(), 0);
  if (observed.empty()) {
    std::reverse(order.begin(), order.end());
    return order;
  }
  const absl::StatusOr<PlaceOf> place_of = PlacesIn(observed, parameters);
  if (!place_of.ok()) return place_of.status();
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return place_of->at(parameters[a].name) < place_of->at(parameters[b].name);
  });
  return order;
}

Transfer Reduction(const Bucket& bucket, int index) {
  return {.kind = TransferKind::kAllReduce,
          .communicator = bucket.communicator,
          .dtype = bucket.dtype,
          .shape = {bucket.total},
          .op = bucket.op,
          .bucket = index};
}

// Every rank launches the buckets that it holds in the one order of `buckets`,
// so no two ranks can wait for each other.
std::vector<RankPlan> GradientLanes(const Plan& plan) {
  std::vector<RankPlan> ranks(plan.mesh.WorldSize());
  for (RankPlan& rank : ranks) {
    rank.lanes.push_back({.kind = LaneKind::kGradient, .name = "gradient"});
  }
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    const Bucket& bucket = plan.buckets[i];
    const Transfer reduction = Reduction(bucket, static_cast<int>(i));
    for (const int member : plan.communicators[bucket.communicator].ranks) {
      std::vector<Transfer>& lane = ranks[member].lanes[0].transfers;
      ranks[member].launch_order.push_back({0, static_cast<int>(lane.size())});
      lane.push_back(reduction);
    }
  }
  return ranks;
}

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
  const absl::StatusOr<std::vector<int>> order =
      ReadyOrder(input.observed_order, merged->parameters);
  if (!order.ok()) return order.status();

  Plan plan{.revision = input.revision, .mesh = input.mesh};
  plan.buckets = CutBuckets(merged->parameters, merged->communicators,
                            merged->communicator_of, *order, input.policy);
  plan.communicators = std::move(merged->communicators);
  plan.parameters = std::move(merged->parameters);
  plan.ranks = GradientLanes(plan);
  return plan;
}

}  // namespace lockstep::plan
