// The transfers of one rank for one bucket and for the verdict, with the local
// operations before and after them (LocalOp).
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
//   verdict   write-summary | all-reduces over the world, or an all-gather |
//             read-summary
//
// Casts exist only if the transfer's dtype differs from the bucket's. A mean
// over the ranks that announced a gradient is a sum that is rescaled after the
// transfer; a sum of halves is computed in f32 and rescaled before it is
// rounded. With a wire of halves, where a sum can overflow, the transfer itself
// computes the mean over those ranks, and no rescale follows.

#ifndef LOCKSTEP_PLAN_BUCKET_TRANSFERS_H_
#define LOCKSTEP_PLAN_BUCKET_TRANSFERS_H_

#include <vector>

#include "plan/ir.h"

namespace lockstep::plan {

// The transfers in order, without `after` and `after_task`, and without the
// gather of a sharded bucket's parameters. `position`: of the rank in the
// bucket's communicator. `counted`: CountedParameters(plan) (norm_ranges.h).
// `sums_in_pairs`: whether the communicator has an all-reduce in pairs.
std::vector<Transfer> BucketTransfers(const Plan& plan, int bucket,
                                      int position, bool sums_in_pairs,
                                      const std::vector<bool>& counted);

// One group of transfers, the same on all ranks; `by_records`: one (records.h).
std::vector<Transfer> VerdictTransfers(const Plan& plan, bool by_records);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_BUCKET_TRANSFERS_H_
