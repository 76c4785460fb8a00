// Which elements of the reduced gradients each rank counts in the global norm.
//
// After the reduction all members of a bucket's communicator hold the same
// gradients, so they share the work. A rank counts the slice that it reduces
// where transports cut the work (reduce_slices.h), and can then count it while
// it reduces. In a sharded bucket it counts its slice. A bucket with leaves is
// cut in as many parts, and a rank counts one part for each of its leaves: the
// parts, and so the bits of their norms, do not depend on the number of ranks.
// If several groups hold replicas of a parameter, only the group with the
// lowest rank counts it. Together the ranks count every logical element once.
// Padding is zeros, and adds nothing.

#ifndef LOCKSTEP_PLAN_NORM_RANGES_H_
#define LOCKSTEP_PLAN_NORM_RANGES_H_

#include <vector>

#include "plan/ir.h"
#include "plan/shard.h"

namespace lockstep::plan {

// By parameter of the plan: is it counted, and not a replica of it? The plan
// has its buckets.
std::vector<bool> CountedParameters(const Plan& plan);

// `position` is that of the rank in the bucket's communicator; `counted` is
// CountedParameters(plan), which costs as much as the plan has parameters.

// Does the rank count all of its slice, or of its leaves' parts, up to the
// flags? False for a sharded bucket.
bool CountsWholeSlice(const Bucket& bucket, const std::vector<bool>& counted);

// The elements, from the bucket's start, that the rank counts of a bucket
// without leaves: in order, none empty, one range if CountsWholeSlice.
std::vector<Slice> NormRanges(const Plan& plan, const Bucket& bucket,
                              int position, const std::vector<bool>& counted);

// The same of a bucket with leaves, for each of the rank's leaves in order.
struct LeafNormRanges {
  int leaf = 0;  // of the job
  std::vector<Slice> ranges;
};
std::vector<LeafNormRanges> NormRangesOfLeaves(
    const Plan& plan, const Bucket& bucket, int position,
    const std::vector<bool>& counted);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_NORM_RANGES_H_
