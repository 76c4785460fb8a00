// ScaleAndCheck multiplies a row by a factor, in place, and adds the finite
// check of parts of the result, in one pass over memory.
//
//   data    [ scaled, not checked | range | scaled | range | scaled ]
//     │ × factor ── round ──▶ data    │                │
//     └──────────────────────────────▶└── tree of sums ┴──▶ *total
//
// The bits of *total and of the data are those of two passes: Scale of
// `scaled` (cast_scale.h), then AddFiniteCheck of `checked` with an inverse
// scale of 1 (finite_check.h). So the check is of the values after rounding.
// The mean of a sum uses it with factor 1 / ranks, where the gradients' norm
// is computed behind the sum.
//
// Work:    the calling thread, runs of 4096 elements in order.
// Bytes:   per element of `scaled`: reads it once, writes it once. The check of
//          a run reads it from the cache.
// Dtypes:  floats.
// Threads: any, concurrently on different data and totals.
// Errors:  another dtype, or ranges that are not part of `scaled`, in order and
//          disjoint, abort the process.
// Run:     build/release/bin/kernels_test --gtest_filter='ScaleAndCheck*'
// Bench:   ./run bench kernels

#ifndef LOCKSTEP_KERNELS_SCALE_AND_CHECK_H_
#define LOCKSTEP_KERNELS_SCALE_AND_CHECK_H_

#include <span>

#include "base/check.h"
#include "kernels/finite_check.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

// Offsets count elements from `data`, which is aligned to its element.
void ScaleAndCheck(void* data, DType dtype, double factor,
                   const ElementRange& scaled,
                   std::span<const ElementRange> checked, FiniteCheck* total);

// Calls on_gap(ElementRange) and on_range(ElementRange) for the elements of
// `scaled` in order: those between the ranges of `checked`, and the ranges. No
// gap is empty; a range may be. For the kernel and its device twin.
template <class OnGap, class OnRange>
void ForScaledParts(const ElementRange& scaled,
                    std::span<const ElementRange> checked, OnGap on_gap,
                    OnRange on_range) {
  const size_t end = scaled.offset + scaled.count;
  size_t next = scaled.offset;
  for (const ElementRange& range : checked) {
    Check(range.offset >= next && range.offset <= end &&
              range.count <= end - range.offset,
          "a checked range is out of order, or not of the scaled elements");
    if (range.offset > next) on_gap(ElementRange{next, range.offset - next});
    on_range(range);
    next = range.offset + range.count;
  }
  if (next < end) on_gap(ElementRange{next, end - next});
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_SCALE_AND_CHECK_H_
