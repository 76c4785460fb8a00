// Slices: which part of a sharded bucket, or of one with leaves, belongs to
// which rank.
//
//   | slot 0 |pad| slot 1          |pad| slot 2 |   pad    | flags |
//   0         ▲           ▲            ▲        ▲          flags_offset
//   |─ rank 0 ─|─ rank 1 ─|─ rank 2 ─|─ rank 3 ─|
//
// Slices are of equal counts and start at multiples of 64 bytes. They cut slots
// where they fall: what counts is that all ranks have as much to do.

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

// Makes room in `bucket`, of which slots and dtype are known, for equal slices
// for so many ranks, or leaves: its flags go behind the padding of the last.
void PadToSlices(Bucket* bucket, int ranks);

inline bool HasSlices(const Bucket& bucket) {
  return bucket.sharded || bucket.leaves > 0;
}

// The slice of the rank at this position of the bucket's communicator, which
// has `ranks`; of a bucket without slices, all but the flags.
Slice SliceOf(const Bucket& bucket, int ranks, int position);

// The part of a slice that lies in a slot, from the slot's start; count 0 if
// there is none.
Slice PartIn(const Slot& slot, const Slice& slice);

// Brings what other ranks updated of a sharded bucket's parameters, before the
// step: of a bucket's transfers the one that no gradient is needed for.
bool GathersParameters(const Plan& plan, const Transfer& transfer);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_SHARD_H_
