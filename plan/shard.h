// Slices: the part of a sharded bucket, or of one with leaves, that belongs to
// each rank.
//
//   | slot 0 |pad| slot 1          |pad| slot 2 |   pad    | flags |
//   0         ▲           ▲            ▲        ▲          flags_offset
//   |─ rank 0 ─|─ rank 1 ─|─ rank 2 ─|─ rank 3 ─|
//
// Slices have equal counts and start at multiples of 64 bytes. Their borders
// ignore slots, so all ranks have the same amount of work.

#ifndef LOCKSTEP_PLAN_SHARD_H_
#define LOCKSTEP_PLAN_SHARD_H_

#include <cstdint>

#include "plan/ir.h"

namespace lockstep::plan {

// Elements, from the start of a bucket or of a parameter.
struct Slice {
  int64_t offset = 0;
  int64_t count = 0;
  bool operator==(const Slice&) const = default;
};

// Pads `bucket`, whose slots and dtype are set, for equal slices for `ranks`
// ranks (or leaves). The flags follow the padding of the last slice.
void PadToSlices(Bucket* bucket, int ranks);

inline bool HasSlices(const Bucket& bucket) {
  return bucket.sharded || bucket.leaves > 0;
}

// The slice of the rank at this position of the bucket's communicator, which
// has `ranks`. For a bucket without slices: all elements but the flags.
Slice SliceOf(const Bucket& bucket, int ranks, int position);

// The part of a slice in a slot, from the slot's start; count 0 if they do not
// overlap.
Slice PartIn(const Slot& slot, const Slice& slice);

// Whether `transfer` gathers a sharded bucket's updated parameters before the
// step: the only transfer of a bucket that needs no gradient.
bool GathersParameters(const Plan& plan, const Transfer& transfer);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_SHARD_H_
