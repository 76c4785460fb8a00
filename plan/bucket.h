// Cuts gradients into buckets: which of them travel together.
//
//   order      d  c  b  a          (as they become ready)
//   buckets   |d c| b |a|          first bound, bound, another dtype

#ifndef LOCKSTEP_PLAN_BUCKET_H_
#define LOCKSTEP_PLAN_BUCKET_H_

#include <cstdint>
#include <vector>

#include "lockstep/job_spec.h"
#include "plan/ir.h"

namespace lockstep::plan {

// Slots and flags start at multiples of this, so that vector loops and 16-byte
// loads need no head.
inline constexpr int64_t kSlotAlignmentBytes = 64;

// The first multiple of kSlotAlignmentBytes at or after `offset`, in elements.
int64_t AlignedOffset(int64_t offset, DType dtype);

// Walks `order` (indices of `parameters`, as their gradients become ready) and
// gives each parameter a slot. A rank has one open bucket at a time: it closes
// when the rank's next parameter has another dtype, op, stage or communicator,
// or would end beyond the bound of `policy` (bytes on the wire: padding counts,
// flags do not). The
// first bucket of a rank obeys first_bytes_max. Buckets of ranks that share
// nothing (other pipeline stages, say) do not close each other.
//
// communicator_of[p] is the communicator of parameter p. Each parameter must be
// valid. Buckets come in the order of their first slots, so their order seen
// from any rank is the order in which they can be launched. Deterministic.
std::vector<Bucket> CutBuckets(
    const std::vector<Parameter>& parameters,
    const std::vector<CommunicatorSpec>& communicators,
    const std::vector<int>& communicator_of, const std::vector<int>& order,
    const BucketPolicy& policy);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_BUCKET_H_
