// Reduces the contributions of several ranks into one row, element by element.
//
//   rank 0  [a0 a1 a2 ...]
//   rank 1  [b0 b1 b2 ...]   ── reduce in rank order, round once ──▶ out [...]
//   rank 2  [c0 c1 c2 ...]
//
// Every host transport uses it (docs/architecture.md, "Numerics").
//
// Numerics: out[i] = round(((a op b) op c) ...). Halves are widened to f32
//           before the first operation and rounded after the last; other types
//           are computed in their own type. The mean is the sum, multiplied by
//           1/divisor once, in f32 (f64 for f64), before the rounding; the
//           divisor is the number of ranks unless one is given. Integers wrap.
//           Min and max give NaN if any rank has NaN; of -0 and +0, the value
//           of the first rank.
// Work:    the calling thread, elements in order.
// Bytes:   per element: reads every input once, writes every output once.
// Shapes:  `count` elements (0 is allowed), aligned to their element. `out` may
//          be one of the inputs, and may not overlap otherwise.
// Threads: any, concurrently on different outputs. Elements are independent: a
//          row may be split anywhere, with the same bits.
// Errors:  no ranks, or the mean of integers, abort the process.
// Run:     build/release/bin/kernels_test --gtest_filter='*Reduce*'
// Bench:   ./run bench kernels

#ifndef LOCKSTEP_KERNELS_REDUCE_H_
#define LOCKSTEP_KERNELS_REDUCE_H_

#include <cstddef>
#include <span>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// out[i] = op over ranks of inputs[rank][i].
void ReduceRanks(std::span<const void* const> inputs, void* out, size_t count,
                 DType dtype, ReduceOp op);

// The same over `rows` consecutive inputs of `count` elements each, the layout
// of an all-gather's output.
void ReduceRows(const void* inputs, int rows, void* out, size_t count,
                DType dtype, ReduceOp op);

// The same into several rows, each of which may be one of the inputs, for a
// rank that reads its slice from all ranks and writes the result to all.
// `divisor`: for a mean; 0: the number of ranks.
void ReduceRanksToAll(std::span<const void* const> inputs,
                      std::span<void* const> outs, size_t count, DType dtype,
                      ReduceOp op, int divisor = 0);

// dst[i] = op(dst[i], src[i]), rounded: ReduceRanks of {dst, src} into dst. A
// chain of these calls rounds halves at every call; to sum ranks, use
// ReduceRanks.
void Reduce(void* dst, const void* src, size_t count, DType dtype, ReduceOp op);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_REDUCE_H_
