// A reduction in parts: some ranks' rows are folded here, the others' where the
// carry gets to, and the bits are those of ReduceRanks (reduce.h) over all.
//
//   rows 0, 1 ── ReduceToPartial ──▶ carry ─┐
//                              rows 2, 3 ─┴─ ReduceFromCarry ──▶ out
//
// A carry is what ReduceRanks has between two rows: unrounded, so halves are
// carried in f32 (twice their bytes), other types in themselves.
//
// Shapes:  `count` elements, 0 included; aligned to their element, no more. Out
//          may be the carry or one of the inputs, where the types agree, and
//          may not overlap otherwise.
// Threads: any.
// Errors:  no inputs, or the mean of integers, ends the process.

#ifndef LOCKSTEP_KERNELS_PARTIAL_REDUCE_H_
#define LOCKSTEP_KERNELS_PARTIAL_REDUCE_H_

#include <cstddef>
#include <span>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// The type of a carry.
DType PartialTypeOf(DType dtype);

// `carry` goes first, then the inputs in their order. Without one (null) the
// first input begins.
void ReduceToPartial(const void* partial, std::span<const void* const> inputs,
                     void* out, size_t count, DType dtype, ReduceOp op);

// The end: a mean is divided by `divisor`, and halves are rounded.
void ReduceFromCarry(const void* partial, std::span<const void* const> inputs,
                     void* out, size_t count, DType dtype, ReduceOp op,
                     int divisor);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_PARTIAL_REDUCE_H_
