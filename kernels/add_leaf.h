// Add leaf: a gradient joins the sums to its left that it completes, in the
// tree of reduce_pairs.h.
//
//   left[1] ─────────────────────────────(+)──▶ out
//   left[0] ───────────────────(+)────────┘
//   leaf ── × weight ── round ──┘
//
// out[i] = left[n-1][i] + (... + (left[0][i] + round(leaf[i] * weight))): the
// product is rounded to the leaf's type, then widened; each sum is rounded by
// itself, in out's type. With nothing to its left, out is the leaf.
//
// Shapes:  rows of `count` elements, 0 included; aligned to their element.
// `out`
//          may be one of `left`, or the leaf if they are of one type.
// Dtypes:  out and `left` of f32, for leaves of any float but f64; of f64 for
//          those.
// Threads: any, at the same time on different outputs.
// Errors:  other dtypes, or too many sums, end the process.

#ifndef LOCKSTEP_KERNELS_ADD_LEAF_H_
#define LOCKSTEP_KERNELS_ADD_LEAF_H_

#include <cstddef>
#include <span>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// Sums that one leaf completes at most: of 1024 leaves.
inline constexpr size_t kLeftSumsMax = 10;

void AddLeaf(std::span<const void* const> left, const void* leaf, DType dtype,
             double weight, void* out, DType out_dtype, size_t count);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_ADD_LEAF_H_
