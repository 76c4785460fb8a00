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

}  // namespace

bool CountsWholeSlice(const plan::Plan& plan, int bucket, int rank) {
  const plan::Bucket& b = plan.buckets[bucket];
  return !plan::HasSlices(b) &&
         std::all_of(b.slots.begin(), b.slots.end(), [&](const auto& slot) {
           return CountsHere(plan, plan.parameters[slot.parameter], rank);
         });
}

std::vector<OwnedRange> OwnedRanges(const plan::Plan& plan, int bucket,
                                    int rank) {
  const plan::Bucket& b = plan.buckets[bucket];
  const std::vector<int>& members = plan.communicators[b.communicator].ranks;
  const int n = static_cast<int>(members.size());
  const int i = static_cast<int>(
      std::find(members.begin(), members.end(), rank) - members.begin());

  // All of it on one rank: a norm in parts would depend on their number.
  if (b.leaves > 0 && i > 0) return {};
  const plan::Slice slice = SliceIn(b, b.leaves > 0 ? 1 : n, i);
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
