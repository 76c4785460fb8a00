// Assigns gradients to buckets: which gradients are reduced together.
//
//   order      d  c  b  a          (in the order in which they become ready)
//   buckets   |d c| b |a|          closed by: first bound, bound, another dtype

#ifndef LOCKSTEP_PLAN_BUCKET_H_
#define LOCKSTEP_PLAN_BUCKET_H_

#include <cstdint>
#include <vector>

#include "lockstep/job_options.h"
#include "plan/ir.h"

namespace lockstep::plan {

// Slots and flags start at multiples of this, so that vector loops and 16-byte
// loads need no head.
inline constexpr int64_t kSlotAlignmentBytes = 64;

// The first multiple of kSlotAlignmentBytes at or after `offset`, in elements.
int64_t AlignedOffset(int64_t offset, DType dtype);

// Processes `order` (indices of `parameters`, as their gradients become ready)
// and assigns a slot to each parameter. A rank has one open bucket at a time.
// The bucket closes when the rank's next parameter has another dtype, op, stage
// or communicator, or would exceed the bound of `policy` (bytes on the wire,
// with padding, without flags). The bound of a rank's first bucket is
// first_bytes_max. Buckets of disjoint sets of ranks, as of different pipeline
// stages, do not close each other.
//
// communicator_of[p] is the communicator of parameter p. Each parameter must be
// valid. The result is in the order of the buckets' first slots, so every rank
// can launch its buckets in this order. Deterministic.
std::vector<Bucket> CutBuckets(
    const std::vector<Parameter>& parameters,
    const std::vector<CommunicatorSpec>& communicators,
    const std::vector<int>& communicator_of, const std::vector<int>& order,
    const BucketPolicy& policy);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_BUCKET_H_
