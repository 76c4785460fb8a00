// Divide divides floats, 8-bit ones and complex ones too, by a whole number:
// the mean of what all ranks have the sum of.
//
// Numerics: one division in f32 (f64 for f64 and c128), rounded once to the
//           type; complex numbers part by part.
// Work:     the calling thread, elements in order.
// Bytes:    per element: reads 1 and writes 1 element.
// Shapes:   `count` elements (0 is allowed), aligned to their element; complex
//           numbers to one of their parts. `out` may be `in`, and may not
//           overlap it otherwise.
// Threads:  any, concurrently on different outputs.
// Errors:   another dtype, and the divisor 0, abort the process.
// Run:      build/release/bin/kernels_test --gtest_filter='*Divide*'

#ifndef LOCKSTEP_KERNELS_DIVIDE_H_
#define LOCKSTEP_KERNELS_DIVIDE_H_

#include <cstddef>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// out[i] = in[i] / divisor.
void Divide(const void* in, void* out, size_t count, DType dtype, int divisor);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_DIVIDE_H_
