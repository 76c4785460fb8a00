// ReduceAny reduces rows of the dtypes that a Communicator does not reduce, as
// reduce.h does for the others.
//
//   row 0  [a0 a1 a2 ...]
//   row 1  [b0 b1 b2 ...]   ── reduce in order, round once ──▶ out [...]
//   row 2  [c0 c1 c2 ...]
//
//   dtype            sum  mean  min  max  prod
//   bool              -    -    and  or   and     a sum: widen first (widen.h)
//   i16 u16           x    -     x    x    x      wrap
//   c64 c128          x    x     -    -    x      in f32, f64
//   f8e4m3 f8e5m2     x    x     x    x    x      in f32, rounded once
//
// Numerics: the mean is the sum times 1/rows in the wide type, before the
//           rounding. Min and max give NaN if any row has NaN; of -0 and +0,
//           the value of the first row. An overflow is NaN in f8e4m3 and
//           infinity in f8e5m2. A complex product is (ac - bd) + (ad + bc)i,
//           each product and each sum rounded; infinities are not corrected.
//           Every byte of a bool that is not 0 is true; the output is 0 or 1.
// Work:     the calling thread, elements in order.
// Bytes:    per element: reads every row once, writes once.
// Shapes:   `count` elements (0 is allowed), aligned to their element; complex
//           numbers to one of their parts. `out` may be one of the rows, and
//           may not overlap otherwise.
// Threads:  any, concurrently on different outputs.
// Errors:   no rows, or what CanReduceAny denies, aborts the process.
// Run:      build/release/bin/kernels_test --gtest_filter='*ReduceAny*'

#ifndef LOCKSTEP_KERNELS_REDUCE_ANY_H_
#define LOCKSTEP_KERNELS_REDUCE_ANY_H_

#include <cstddef>
#include <span>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// Whether ReduceAny takes `dtype` with `op`; false for the dtypes of a
// Communicator.
constexpr bool CanReduceAny(DType dtype, ReduceOp op) {
  const bool ordered = op == ReduceOp::kMin || op == ReduceOp::kMax;
  const bool sum = op == ReduceOp::kSum, mean = op == ReduceOp::kMean;
  const bool product = op == ReduceOp::kProd;
  switch (dtype) {
    case DType::kBool: return ordered || product;
    case DType::kI16:
    case DType::kU16: return sum || ordered || product;
    case DType::kC64:
    case DType::kC128: return sum || mean || product;
    case DType::kF8E4M3:
    case DType::kF8E5M2: return sum || mean || ordered || product;
    default: return false;
  }
}

// out[i] = op over the rows of rows[r][i].
void ReduceAny(std::span<const void* const> rows, void* out, size_t count,
               DType dtype, ReduceOp op);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_REDUCE_ANY_H_
