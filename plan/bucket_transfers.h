// The transfers of one rank for one bucket, and for the verdict, with the local
// operations on their sides (LocalOp).
//
//   whole     cast, write-flags | all-reduce | cast, read-flags, norm
//   sharded   cast | reduce-scatter | cast, norm
//             write-flags | all-reduce of the flags | read-flags
//   leaves    all-to-all | sum-pairs
//             cast | all-gather | cast, norm of each leaf
//             write-flags | all-reduce of the flags | read-flags
//   leaves, in pairs
//             write-flags | all-reduce in pairs | cast, read-flags, norm of
//             each leaf
//   announced zero-unless-given, cast, write-flags | all-reduce | cast,
//             read-flags, rescale, norm, zero-unless-given
//   verdict   write-summary | all-reduces over the world | read-summary
//
// Casts are there only where the transfer's dtype is not the bucket's. A mean
// over the ranks that announced a gradient is a sum, rescaled behind it; of
// halves the sum is taken in f32 and rescaled before it is rounded. With a wire
// of halves, where a sum can overflow, the transfer itself takes the mean over
// those ranks, and nothing is rescaled.

#ifndef LOCKSTEP_PLAN_BUCKET_TRANSFERS_H_
#define LOCKSTEP_PLAN_BUCKET_TRANSFERS_H_

#include <vector>

#include "plan/ir.h"

namespace lockstep::plan {

// In order; all but their `after` and `after_task`. `position` is that of the
// rank in the bucket's communicator, `counted` is CountedParameters(plan)
// (norm_ranges.h). `sums_in_pairs`: the communicator can add the sums of leaves
// in pairs by itself. The gather of a sharded bucket's
// parameters is not one of them.
std::vector<Transfer> BucketTransfers(const Plan& plan, int bucket,
                                      int position, bool sums_in_pairs,
                                      const std::vector<bool>& counted);

// One group, the same on all ranks.
std::vector<Transfer> VerdictTransfers(const Plan& plan);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_BUCKET_TRANSFERS_H_
