#include "plan/records.h"

#include <algorithm>

namespace lockstep::plan {

bool EndsByRecords(const std::vector<TransportFacts>& transports, int ranks,
                   int leaves) {
  return leaves == 0 && static_cast<int>(transports.size()) == ranks &&
         std::all_of(transports.begin(), transports.end(),
                     [](const TransportFacts& facts) {
                       return facts.decides_on_device;
                     });
}

bool EndsByRecords(const Plan& plan) {
  const bool has_leaves =
      std::any_of(plan.buckets.begin(), plan.buckets.end(),
                  [](const Bucket& bucket) { return bucket.leaves > 0; });
  if (plan.ranks.empty() || has_leaves) return false;
  for (const Lane& lane : plan.ranks[0].lanes) {
    if (lane.kind != LaneKind::kVerdict || lane.transfers.size() != 1) continue;
    return lane.transfers[0].kind == TransferKind::kAllGather;
  }
  return false;
}

}  // namespace lockstep::plan
