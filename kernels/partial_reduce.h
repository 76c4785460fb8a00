// A reduction in parts: some ranks' rows are reduced here into a partial
// result, and the process that receives it adds the other rows. The bits are
// those of ReduceRanks (reduce.h) over all rows.
//
//   rows 0, 1 ── ReduceToPartial ──▶ partial ─┐
//                               rows 2, 3 ────┴─ ReduceFromPartial ──▶ out
//
// A partial result is the value that ReduceRanks has between two rows. It is
// not rounded, so halves are kept in f32 (twice their bytes), other types in
// their own type.
//
// Work:    the calling thread, tiles of 1024 elements.
// Bytes:   per element: reads the partial result and every input, writes out.
// Shapes:  `count` elements (0 is allowed), aligned to their element. `out` may
//          be the partial result or one of the inputs if the types agree, and
//          may not overlap otherwise.
// Threads: any.
// Errors:  no inputs, or the mean of integers, abort the process.
// Run:     build/release/bin/kernels_test --gtest_filter='PartialReduce*'

#ifndef LOCKSTEP_KERNELS_PARTIAL_REDUCE_H_
#define LOCKSTEP_KERNELS_PARTIAL_REDUCE_H_

#include <cstddef>
#include <span>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// The dtype of a partial result.
DType PartialTypeOf(DType dtype);

// Reduces `partial` first, then the inputs in order. If `partial` is null,
// starts with the first input.
void ReduceToPartial(const void* partial, std::span<const void* const> inputs,
                     void* out, size_t count, DType dtype, ReduceOp op);

// The last part: divides a mean by `divisor` and rounds halves.
void ReduceFromPartial(const void* partial, std::span<const void* const> inputs,
                       void* out, size_t count, DType dtype, ReduceOp op,
                       int divisor);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_PARTIAL_REDUCE_H_
