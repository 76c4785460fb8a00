// AddLeaf adds one gradient (a leaf) to the partial sums to its left, in the
// reduction tree of reduce_pairs.h.
//
//   left[1] ─────────────────────────────(+)──▶ out
//   left[0] ───────────────────(+)────────┘
//   leaf ── × weight ── round ──┘
//
// out[i] = left[n-1][i] + (... + (left[0][i] + round(leaf[i] * weight))). The
// product is rounded to the leaf's type, then widened. Each sum is rounded
// separately, in out's type. Without left sums, out is the scaled leaf.
//
// Work:    the calling thread, elements in order, tiles of 1024.
// Bytes:   per element: reads the leaf and each left sum, writes out.
// Shapes:  rows of `count` elements (0 is allowed), aligned to their element.
//          `out` may be one of `left`, or the leaf if both have one type.
// Dtypes:  f64 leaves: out and `left` are f64; other float leaves: f32.
// Threads: any, concurrently on different outputs.
// Errors:  other dtypes, or too many sums, abort the process.
// Run:     build/release/bin/kernels_test --gtest_filter='AddLeaf*'
// Bench:   ./run bench reproducible

#ifndef LOCKSTEP_KERNELS_ADD_LEAF_H_
#define LOCKSTEP_KERNELS_ADD_LEAF_H_

#include <cstddef>
#include <span>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// The most sums that one leaf completes: 1024 = 2^10 leaves.
inline constexpr size_t kLeftSumsMax = 10;

void AddLeaf(std::span<const void* const> left, const void* leaf, DType dtype,
             double weight, void* out, DType out_dtype, size_t count);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_ADD_LEAF_H_
