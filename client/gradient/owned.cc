#include "client/gradient/owned.h"

#include <algorithm>
#include <string>

#include "client/transport/slices.h"
#include "kernels/sum_tree.h"
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

// Whole runs of the sum tree, of what lies before any padding: that depends on
// the ranks.
plan::Slice PartOfLeaf(const plan::Bucket& bucket, int leaf) {
  const int64_t run = kernels::kSumRun;
  const int64_t end = bucket.slots.back().offset + bucket.slots.back().count;
  const int64_t runs = (end + run - 1) / run;
  const auto begin = [&](int64_t l) {
    return std::min((runs * l + bucket.leaves - 1) / bucket.leaves * run, end);
  };
  return {.offset = begin(leaf), .count = begin(leaf + 1) - begin(leaf)};
}

}  // namespace

bool CountsWholeSlice(const plan::Plan& plan, int bucket, int rank) {
  const plan::Bucket& b = plan.buckets[bucket];
  return !plan::HasSlices(b) &&
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
    OwnedLeaf& owned = leaves.emplace_back();
    owned.leaf = leaf;
    for (const plan::Slot& slot : b.slots) {
      if (!CountsHere(plan, plan.parameters[slot.parameter], rank)) continue;
      const plan::Slice part = plan::PartIn(slot, PartOfLeaf(b, leaf));
      if (part.count > 0) {
        owned.ranges.push_back({slot.offset + part.offset, part.count});
      }
    }
  }
  return leaves;
}

std::vector<OwnedRange> OwnedRanges(const plan::Plan& plan, int bucket,
                                    int rank) {
  const plan::Bucket& b = plan.buckets[bucket];
  const auto [n, i] = MemberOf(plan, b, rank);
  const plan::Slice slice = SliceIn(b, n, i);
  const plan::Slot whole{.offset = 0, .count = b.flags_offset};
  if (CountsWholeSlice(plan, bucket, rank)) {
    const plan::Slice part = plan::PartIn(whole, slice);
    if (part.count == 0) return {};
    return {{part.offset, part.count}};
  }
  std::vector<OwnedRange> ranges;
  for (const plan::Slot& slot : b.slots) {
    if (!CountsHere(plan, plan.parameters[slot.parameter], rank)) continue;
    const plan::Slice part = plan::PartIn(slot, slice);
    if (part.count > 0)
      ranges.push_back({slot.offset + part.offset, part.count});
  }
  return ranges;
}

}  // namespace lockstep::gradient
