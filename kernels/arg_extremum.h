// MarkExtremum is the local step of the index of a maximum or minimum over
// ranks: each rank marks where it has the extremum, and the least mark over all
// ranks is the result.
//
//   values    [3   7   7   NaN]     on rank `index` = 2
//   extrema   [5   7   7   NaN]     reduced over all ranks
//   out       [max 2   2   max]     max: INT32_MAX
//
// Equality: of values, so that -0 equals +0; NaN equals nothing. Every byte of
//           a bool that is not 0 is true.
// Work:     the calling thread, elements in order.
// Bytes:    per element: reads 2 elements, writes 4 bytes.
// Shapes:   `count` elements (0 is allowed), aligned to their element. `out`
//           overlaps neither input.
// Threads:  any, concurrently on different outputs.
// Errors:   a complex dtype aborts the process: complex numbers have no order.
// Run:      build/release/bin/kernels_test --gtest_filter='*MarkExtremum*'

#ifndef LOCKSTEP_KERNELS_ARG_EXTREMUM_H_
#define LOCKSTEP_KERNELS_ARG_EXTREMUM_H_

#include <cstddef>
#include <cstdint>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// out[i] = values[i] equals extrema[i] ? index : INT32_MAX.
void MarkExtremum(const void* values, const void* extrema, int32_t* out,
                  size_t count, DType dtype, int32_t index);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_ARG_EXTREMUM_H_
