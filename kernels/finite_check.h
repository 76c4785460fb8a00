// Finite check: one pass over gradients that says whether they can be used and
// how long they are.
//
//   data ── × inverse_scale ── squared ──▶ tree of f64 sums ──▶ sum_of_squares
//        └─ inf or NaN? ─────────────────────────────────────▶ non_finite
//
// `inverse_scale` undoes a loss scale: each element is widened to f64,
// multiplied, squared, and added in the fixed order of sum_tree.h, where
// element i is leaf i. Each of these operations is rounded by itself, in f64.
// So the bits depend on the elements, their order and the scale; not on the
// processor, on threads, or on how the memory is aligned. Two buffers checked
// apart and added do not give the bits of one buffer: callers that want equal
// bits on all ranks check the same buffers in the same order.
//
// Elements that are not finite are counted, and add nothing to the sum: it
// covers the finite ones only. The sum itself is infinite if the finite ones
// are too large for f64.
//
// Threads: any. Errors: a dtype that is no float ends the process.

#ifndef LOCKSTEP_KERNELS_FINITE_CHECK_H_
#define LOCKSTEP_KERNELS_FINITE_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/sum_tree.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

struct FiniteCheck {
  double sum_of_squares = 0;  // of element * inverse_scale, finite ones only
  uint64_t non_finite = 0;    // how many elements are infinite or NaN
};

// `data`: `count` elements, 0 included, aligned to their element.
FiniteCheck CheckFinite(const void* data, DType dtype, size_t count,
                        double inverse_scale = 1.0);

// A part of a buffer, in elements; may be empty.
struct ElementRange {
  size_t offset;
  size_t count;
};

// Adds CheckFinite of each range to *total, one after the other: many tensors
// of a bucket, bucket after bucket of a step.
void AddFiniteCheck(const void* data, DType dtype,
                    std::span<const ElementRange> ranges, double inverse_scale,
                    FiniteCheck* total);

// What the device's twin needs beside: bytes of memory, aligned to 8.
inline size_t FiniteCheckScratchBytes(std::span<const ElementRange> ranges) {
  size_t runs = 0;
  for (const ElementRange& range : ranges) runs += RunsOf(range.count);
  return runs * sizeof(double);
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_FINITE_CHECK_H_
