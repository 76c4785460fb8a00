// Reduce: the contributions of several ranks into one row, element by element.
//
//   rank 0  [a0 a1 a2 ...]
//   rank 1  [b0 b1 b2 ...]   ── fold in rank order, round once ──▶  out [...]
//   rank 2  [c0 c1 c2 ...]
//
// Every host transport reduces with it (docs/architecture.md, "Numerics").
//
// Numerics: out[i] = round(((a op b) op c) ...). Halves are widened to f32
//           before the first operation and rounded after the last; other types
//           are computed in themselves. Mean is the sum, times 1/divisor once,
//           in f32 (f64 for f64), before the rounding; the divisor is the
//           number of ranks unless one is given. Integers wrap. Min and max
//           give NaN if any rank has NaN; of -0 and +0 the first rank's.
// Shapes:   `count` elements, 0 included; aligned to their element, no more.
//           `out` may be one of the inputs, and may not overlap otherwise.
// Threads:  any, at the same time on different outputs. The elements are
//           independent: a row may be cut anywhere, the bits are the same.
// Errors:   no ranks, or the mean of integers, ends the process.

#ifndef LOCKSTEP_KERNELS_REDUCE_H_
#define LOCKSTEP_KERNELS_REDUCE_H_

#include <cstddef>
#include <span>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// out[i] = op over ranks of inputs[rank][i].
void ReduceRanks(std::span<const void* const> inputs, void* out, size_t count,
                 DType dtype, ReduceOp op);

// The same over `rows` inputs that lie behind each other, `count` elements
// each: what an all-gather leaves.
void ReduceRows(const void* inputs, int rows, void* out, size_t count,
                DType dtype, ReduceOp op);

// The same into several rows, each of which may be one of the inputs: what a
// rank does that reads its slice from all and writes it to all. `divisor`: of
// a mean; 0: the number of ranks.
void ReduceRanksToAll(std::span<const void* const> inputs,
                      std::span<void* const> outs, size_t count, DType dtype,
                      ReduceOp op, int divisor = 0);

// dst[i] = op(dst[i], src[i]), rounded: ReduceRanks of {dst, src} into dst. A
// chain of these rounds halves at every link; sum ranks with ReduceRanks.
void Reduce(void* dst, const void* src, size_t count, DType dtype, ReduceOp op);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_REDUCE_H_
