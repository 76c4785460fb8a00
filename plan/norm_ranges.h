// The elements of the reduced gradients that each rank counts in the global
// norm.
//
// After the reduction all ranks of a bucket's communicator have the same
// gradients, so they share the work. A rank counts the slice that it reduces if
// transports split the reduction (reduce_slices.h), and can then count during
// the reduction. In a sharded bucket it counts its slice. A bucket with leaves
// is split into as many parts, and a rank counts one part for each of its
// leaves, so the bits of the parts' norms do not depend on the number of ranks.
// If several groups have replicas of a parameter, only the group with the
// lowest rank counts it. Together the ranks count every logical element once.
// Padding is zero and adds nothing.

#ifndef LOCKSTEP_PLAN_NORM_RANGES_H_
#define LOCKSTEP_PLAN_NORM_RANGES_H_

#include <vector>

#include "plan/ir.h"
#include "plan/shard.h"

namespace lockstep::plan {

// For each parameter of the plan: true if it is counted, false for a replica of
// a counted one. The plan has its buckets.
std::vector<bool> CountedParameters(const Plan& plan);

// `position`: of the rank in the bucket's communicator. `counted`:
// CountedParameters(plan), whose cost is linear in the plan's parameters.

// Whether the rank counts all of its slice, or of its leaves' parts, up to the
// flags. False for a sharded bucket.
bool CountsWholeSlice(const Bucket& bucket, const std::vector<bool>& counted);

// The elements, from the bucket's start, that the rank counts of a bucket
// without leaves: in order, none empty; one range if CountsWholeSlice.
std::vector<Slice> NormRanges(const Plan& plan, const Bucket& bucket,
                              int position, const std::vector<bool>& counted);

// The same for a bucket with leaves, for each of the rank's leaves in order.
struct LeafNormRanges {
  int leaf = 0;  // of the job
  std::vector<Slice> ranges;
};
std::vector<LeafNormRanges> NormRangesOfLeaves(
    const Plan& plan, const Bucket& bucket, int position,
    const std::vector<bool>& counted);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_NORM_RANGES_H_
