#include "client/gradient/owned.h"

#include <algorithm>
#include <string>

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

}  // namespace

std::vector<OwnedRange> OwnedRanges(const plan::Plan& plan, int bucket,
                                    int rank) {
  const plan::Bucket& b = plan.buckets[bucket];
  const std::vector<int>& members = plan.communicators[b.communicator].ranks;
  const int64_t n = static_cast<int64_t>(members.size());
  const int64_t i =
      std::find(members.begin(), members.end(), rank) - members.begin();

  std::vector<OwnedRange> ranges;
  for (const plan::Slot& slot : b.slots) {
    if (!CountsHere(plan, plan.parameters[slot.parameter], rank)) continue;
    const int64_t begin = slot.count * i / n;
    const int64_t end = slot.count * (i + 1) / n;
    if (begin < end) ranges.push_back({slot.offset + begin, end - begin});
  }
  return ranges;
}

}  // namespace lockstep::gradient
