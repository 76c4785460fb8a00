#include "client/gradient/owned.h"

#include <algorithm>
#include <string>

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

// The i-th n-th of a slot.
plan::Slice Share(const plan::Slot& slot, int n, int i) {
  const int64_t begin = slot.count * i / n;
  return {.offset = begin, .count = slot.count * (i + 1) / n - begin};
}

}  // namespace

std::vector<OwnedRange> OwnedRanges(const plan::Plan& plan, int bucket,
                                    int rank) {
  const plan::Bucket& b = plan.buckets[bucket];
  const std::vector<int>& members = plan.communicators[b.communicator].ranks;
  const int n = static_cast<int>(members.size());
  const int i = static_cast<int>(
      std::find(members.begin(), members.end(), rank) - members.begin());

  // All of it on one rank: a norm in parts would depend on their number.
  if (b.leaves > 0 && i > 0) return {};
  const plan::Slice slice = plan::SliceOf(b, n, i);
  std::vector<OwnedRange> ranges;
  for (const plan::Slot& slot : b.slots) {
    if (!CountsHere(plan, plan.parameters[slot.parameter], rank)) continue;
    const plan::Slice part = b.sharded ? plan::PartIn(slot, slice)
                                       : Share(slot, b.leaves > 0 ? 1 : n, i);
    if (part.count > 0)
      ranges.push_back({slot.offset + part.offset, part.count});
  }
  return ranges;
}

}  // namespace lockstep::gradient
