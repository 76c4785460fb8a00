// Cuts a group's parameters into buckets.

#ifndef LOCKSTEP_PLAN_BUCKET_H_
#define LOCKSTEP_PLAN_BUCKET_H_

#include <vector>

#include "lockstep/job_spec.h"
#include "plan/ir.h"

namespace lockstep::plan {

// Slots start at multiples of this, so that vector loops and 16-byte loads need
// no head.
inline constexpr int64_t kSlotAlignmentBytes = 64;

// Walks `order` (indices of `parameters`, the order in which gradients become
// ready) and cuts a new bucket when the dtype, the op or the communicator
// changes, or when the bound of `policy` would be passed. communicator_of[p] is
// the communicator of parameter p. The first bucket of all obeys
// first_bytes_max. Deterministic.
std::vector<Bucket> CutBuckets(const std::vector<Parameter>& parameters,
                               const std::vector<int>& communicator_of,
                               const std::vector<int>& order,
                               const BucketPolicy& policy);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_BUCKET_H_
