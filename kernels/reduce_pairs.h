// ReducePairs sums rows into one by a tree that depends only on their number.
//
//   row 0 ─┬─(+)─┬─(+)─┬─(+) ── × factor ── round ──▶ out
//   row 1 ─┘     │     │
//   row 2 ─┬─(+)─┘     │
//   row 3 ─┘           │       Adjacent rows are added first, so the sum of
//   row 4 ─┬─(+)─┬─(+)─┘       rows [0, 4) is a node of the tree. A process
//   row 5 ─┘     │             that has this sum does not need the rows. Any
//   row 6 ─┬─(+)─┘             split into equal powers of two gives the same
//   row 7 ─┘                   bits.
//
// out[i] = round(tree of inputs[row][i] * factor). Sums and the product are
// computed in the rows' type and rounded separately. The result is rounded to
// out's type once, to nearest even. A factor that is a power of two changes
// only the exponent.
//
// Work:    the calling thread, tiles of 1024 elements.
// Bytes:   per element: reads every row once, writes every output once.
// Shapes:  `rows` is a power of two, each row has `count` elements (0 is
//          allowed), aligned to their element.
// Dtypes:  rows are f32 or f64; out is any float.
// Threads: any, concurrently on different outputs.
// Errors:  a number of rows that is not a power of two, or another dtype,
//          aborts the process.
// Run:     build/release/bin/kernels_test --gtest_filter='ReducePairs*'
// Bench:   ./run bench reproducible

#ifndef LOCKSTEP_KERNELS_REDUCE_PAIRS_H_
#define LOCKSTEP_KERNELS_REDUCE_PAIRS_H_

#include <cstddef>
#include <span>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// The most rows of one call.
inline constexpr int kPairedRowsMax = 1024;

// `inputs`: the rows, consecutive in memory. `out` does not overlap them.
void ReducePairs(const void* inputs, int rows, DType dtype, double factor,
                 void* out, DType out_dtype, size_t count);

// The same for rows at any addresses, into several outputs of the rows' type,
// each of which may be one of the inputs.
void ReducePairsToAll(std::span<const void* const> inputs,
                      std::span<void* const> outs, size_t count, DType dtype,
                      double factor);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_REDUCE_PAIRS_H_
