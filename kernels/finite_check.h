// CheckFinite finds, in one pass over gradients, whether all are finite, and
// their sum of squares.
//
//   data ── × inverse_scale ── squared ──▶ tree of f64 sums ──▶ sum_of_squares
//        └─ inf or NaN? ─────────────────────────────────────▶ non_finite
//
// `inverse_scale` undoes a loss scale. Each element is widened to f64,
// multiplied, squared, and added in the fixed order of sum_tree.h, where
// element i is leaf i. Each operation is rounded separately, in f64. So the
// bits depend on the elements, their order and the scale, but not on the
// processor, the number of threads or the alignment. The sum of two checked
// buffers does not have the bits of one check over both: to get equal bits on
// all ranks, check the same buffers in the same order.
//
// Elements that are not finite are counted and left out of the sum. The sum is
// infinite if the finite elements overflow f64.
//
// Work:    the calling thread, runs of 4096 elements in order.
// Bytes:   per element: reads it once; a second time in a run with an element
//          that is not finite.
// Threads: any.
// Errors:  a dtype that is not a float aborts the process.
// Run:     build/release/bin/kernels_test --gtest_filter='FiniteCheck*'
// Bench:   ./run bench kernels

#ifndef LOCKSTEP_KERNELS_FINITE_CHECK_H_
#define LOCKSTEP_KERNELS_FINITE_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/sum_tree.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

struct FiniteCheck {
  double sum_of_squares = 0;  // sum of (element * inverse_scale)^2
  uint64_t non_finite = 0;    // number of infinities and NaNs
};

// `data`: `count` elements (0 is allowed), aligned to their element.
FiniteCheck CheckFinite(const void* data, DType dtype, size_t count,
                        double inverse_scale = 1.0);

// A range of a buffer, in elements; may be empty.
struct ElementRange {
  size_t offset;
  size_t count;
};

// Adds CheckFinite of each range to *total, in order. The ranges are the
// tensors of a bucket; several calls cover the buckets of a step.
void AddFiniteCheck(const void* data, DType dtype,
                    std::span<const ElementRange> ranges, double inverse_scale,
                    FiniteCheck* total);

// Bytes of scratch that the device kernel needs, aligned to 8.
inline size_t FiniteCheckScratchBytes(std::span<const ElementRange> ranges) {
  size_t runs = 0;
  for (const ElementRange& range : ranges) runs += RunsOf(range.count);
  return runs * sizeof(double);
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_FINITE_CHECK_H_
