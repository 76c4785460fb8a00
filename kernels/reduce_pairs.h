// Reduce in pairs: rows into one, by a tree that depends on nothing but their
// number.
//
//   row 0 ─┬─(+)─┬─(+)─┬─(+) ── × factor ── round ──▶ out
//   row 1 ─┘     │     │
//   row 2 ─┬─(+)─┘     │
//   row 3 ─┘           │       Neighbours first. So the sum of rows [0, 4) is
//   row 4 ─┬─(+)─┬─(+)─┘       a value of its own in it, and who has that need
//   row 5 ─┘     │             not have the rows: any cut into equal powers of
//   row 6 ─┬─(+)─┘             two gives the same bits.
//   row 7 ─┘
//
// out[i] = round(tree of inputs[row][i] * factor). Sums and the product are in
// the rows' type, each rounded by itself; the result is rounded to out's type
// once, to nearest even. A factor that is a power of two changes no bit but the
// exponent's.
//
// Shapes:  `rows` is a power of two, each of `count` elements, 0 included;
//          aligned to their element.
// Dtypes:  rows of f32 or f64; out of any float.
// Threads: any, at the same time on different outputs.
// Errors:  rows that are no power of two, or another dtype, end the process.

#ifndef LOCKSTEP_KERNELS_REDUCE_PAIRS_H_
#define LOCKSTEP_KERNELS_REDUCE_PAIRS_H_

#include <cstddef>
#include <span>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// Rows that one call takes at most.
inline constexpr int kPairedRowsMax = 1024;

// `inputs` holds the rows behind each other; `out` is no part of them.
void ReducePairs(const void* inputs, int rows, DType dtype, double factor,
                 void* out, DType out_dtype, size_t count);

// The same of rows that lie anywhere, into several of the rows' type, each of
// which may be one of the inputs.
void ReducePairsToAll(std::span<const void* const> inputs,
                      std::span<void* const> outs, size_t count, DType dtype,
                      double factor);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_REDUCE_PAIRS_H_
