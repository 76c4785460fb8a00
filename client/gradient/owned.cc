#include "client/gradient/owned.h"

#include <algorithm>
#include <string>

#include "client/transport/slices.h"
#include "plan/shard.h"

namespace lockstep::gradient {
namespace {

bool CountsHere(const plan::Plan& plan, const Parameter& parameter, int rank) {
  const std::vector<int> coordinates = plan.mesh.CoordinatesOf(rank);
  return std::all_of(parameter.replicated_over.begin(),
                     parameter.replicated_over.end(),
                     [&](const std::string& axis) {
                       return coordinates[plan.mesh.AxisIndex(axis)] == 0;
                     });
}

plan::Slice SliceIn(const plan::Bucket& bucket, int n, int i) {
  if (plan::HasSlices(bucket)) return plan::SliceOf(bucket, n, i);
  const transport::Range slice =
      transport::FoldSlice(bucket.total, SizeOf(bucket.dtype), n, i);
  return {.offset = static_cast<int64_t>(slice.begin),
          .count = static_cast<int64_t>(slice.count)};
}

// Where the rank stands in its bucket's communicator.
struct Member {
  int size = 0;
  int position = 0;
};

Member MemberOf(const plan::Plan& plan, const plan::Bucket& bucket, int rank) {
  const std::vector<int>& members =
      plan.communicators[bucket.communicator].ranks;
  const auto at = std::find(members.begin(), members.end(), rank);
  return {static_cast<int>(members.size()),
          static_cast<int>(at - members.begin())};
}

// What its rank folds if each has one leaf; else one part of several.
plan::Slice PartOfLeaf(const plan::Bucket& bucket, int leaf) {
  const transport::Range part =
      transport::PairsSlice(bucket.total, bucket.leaves, leaf);
  return {.offset = static_cast<int64_t>(part.begin),
          .count = static_cast<int64_t>(part.count)};
}

// What this rank counts of `slice`: all of it at once, up to the flags, or slot
// by slot.
std::vector<OwnedRange> RangesIn(const plan::Plan& plan, int bucket, int rank,
                                 const plan::Slice& slice) {
  const plan::Bucket& b = plan.buckets[bucket];
  std::vector<OwnedRange> ranges;
  const auto add = [&](const plan::Slot& slot) {
    const plan::Slice part = plan::PartIn(slot, slice);
    if (part.count > 0) {
      ranges.push_back({slot.offset + part.offset, part.count});
    }
  };
  if (CountsWholeSlice(plan, bucket, rank)) {
    add({.offset = 0, .count = b.flags_offset});
    return ranges;
  }
  for (const plan::Slot& slot : b.slots) {
    if (CountsHere(plan, plan.parameters[slot.parameter], rank)) add(slot);
  }
  return ranges;
}

}  // namespace

bool CountsWholeSlice(const plan::Plan& plan, int bucket, int rank) {
  const plan::Bucket& b = plan.buckets[bucket];
  return !b.sharded &&
         std::all_of(b.slots.begin(), b.slots.end(), [&](const auto& slot) {
           return CountsHere(plan, plan.parameters[slot.parameter], rank);
         });
}

std::vector<OwnedLeaf> OwnedLeaves(const plan::Plan& plan, int bucket,
                                   int rank) {
  const plan::Bucket& b = plan.buckets[bucket];
  const Member member = MemberOf(plan, b, rank);
  const int here = b.leaves / member.size;
  std::vector<OwnedLeaf> leaves;
  for (int leaf = member.position * here; leaf < (member.position + 1) * here;
       ++leaf) {
    leaves.push_back(
        {.leaf = leaf,
         .ranges = RangesIn(plan, bucket, rank, PartOfLeaf(b, leaf))});
  }
  return leaves;
}

std::vector<OwnedRange> OwnedRanges(const plan::Plan& plan, int bucket,
                                    int rank) {
  const plan::Bucket& b = plan.buckets[bucket];
  const auto [n, i] = MemberOf(plan, b, rank);
  return RangesIn(plan, bucket, rank, SliceIn(b, n, i));
}

}  // namespace lockstep::gradient
