#include "plan/norm_ranges.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "plan/reduce_slices.h"

namespace lockstep::plan {
namespace {

// One rank of a bucket's communicator.
class NormMember {
 public:
  NormMember(const Plan& plan, const Bucket& bucket, int position,
             const std::vector<bool>& counted)
      : bucket_(bucket),
        ranks_(static_cast<int>(
            plan.communicators[bucket.communicator].ranks.size())),
        position_(position),
        counted_(counted) {}

  Slice OwnSlice() const {
    if (HasSlices(bucket_)) return SliceOf(bucket_, ranks_, position_);
    return ReduceSlice(bucket_.total,
                       static_cast<int64_t>(SizeOf(bucket_.dtype)), ranks_,
                       position_);
  }

  // All of `slice` as one range, up to the flags, or slot by slot.
  std::vector<Slice> CountedIn(const Slice& slice) const {
    std::vector<Slice> ranges;
    const auto add = [&](const Slot& slot) {
      const Slice part = PartIn(slot, slice);
      if (part.count > 0) {
        ranges.push_back({slot.offset + part.offset, part.count});
      }
    };
    if (CountsWholeSlice(bucket_, counted_)) {
      add({.offset = 0, .count = bucket_.flags_offset});
      return ranges;
    }
    for (const Slot& slot : bucket_.slots) {
      if (counted_[slot.parameter]) add(slot);
    }
    return ranges;
  }

  int leaves() const { return bucket_.leaves / ranks_; }
  int first_leaf() const { return position_ * leaves(); }

 private:
  const Bucket& bucket_;
  const int ranks_;
  const int position_;
  const std::vector<bool>& counted_;
};

// The coordinates shared by all replicas of a parameter on `rank`.
std::vector<int> ReplicaCoordinatesOf(const Mesh& mesh,
                                      const Parameter& parameter, int rank) {
  std::vector<int> place = mesh.CoordinatesOf(rank);
  for (const auto* axes : {&parameter.axes, &parameter.replicated_over}) {
    for (const std::string& axis : *axes) place[mesh.AxisIndex(axis)] = 0;
  }
  return place;
}

}  // namespace

std::vector<bool> CountedParameters(const Plan& plan) {
  std::vector<bool> counted(plan.parameters.size(), true);
  struct Owner {
    int rank;
    int parameter;
  };
  std::map<std::pair<std::string, std::vector<int>>, Owner> owners;
  for (const Bucket& bucket : plan.buckets) {
    const std::vector<int>& ranks =
        plan.communicators[bucket.communicator].ranks;
    const int lowest = *std::min_element(ranks.begin(), ranks.end());
    for (const Slot& slot : bucket.slots) {
      const Parameter& parameter = plan.parameters[slot.parameter];
      if (parameter.replicated_over.empty()) continue;
      const auto [owner, is_new] = owners.try_emplace(
          {parameter.name, ReplicaCoordinatesOf(plan.mesh, parameter, lowest)},
          Owner{lowest, slot.parameter});
      if (is_new) continue;
      const bool takes_over = lowest < owner->second.rank;
      counted[takes_over ? owner->second.parameter : slot.parameter] = false;
      if (takes_over) owner->second = {lowest, slot.parameter};
    }
  }
  return counted;
}

bool CountsWholeSlice(const Bucket& bucket, const std::vector<bool>& counted) {
  return !bucket.sharded &&
         std::all_of(bucket.slots.begin(), bucket.slots.end(),
                     [&](const Slot& slot) { return counted[slot.parameter]; });
}

std::vector<Slice> NormRanges(const Plan& plan, const Bucket& bucket,
                              int position, const std::vector<bool>& counted) {
  const NormMember member(plan, bucket, position, counted);
  return member.CountedIn(member.OwnSlice());
}

std::vector<LeafNormRanges> NormRangesOfLeaves(
    const Plan& plan, const Bucket& bucket, int position,
    const std::vector<bool>& counted) {
  const NormMember member(plan, bucket, position, counted);
  std::vector<LeafNormRanges> leaves;
  const int end = member.first_leaf() + member.leaves();
  for (int leaf = member.first_leaf(); leaf < end; ++leaf) {
    leaves.push_back({.leaf = leaf,
                      .ranges = member.CountedIn(
                          PairsSlice(bucket.total, bucket.leaves, leaf))});
  }
  return leaves;
}

}  // namespace lockstep::plan
