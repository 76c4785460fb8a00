// Conversions of dtypes that a transport cannot reduce to ones that it can, and
// back.
//
//   bool i8 u8 i16 u16   ── WidenToI32 ──▶  i32  ── NarrowFromI32 ──▶  the same
//   bool, all integers   ── ConvertToF32 ─▶ f32  ── ScaleF32 ─────▶   means
//
// Numerics: widening is exact. Narrowing keeps the low bits of an integer, so
//           that a sum of any number of i16 wraps as a sum in i16 does; a bool
//           is true if the number is not 0. Every byte of a bool that is not 0
//           is true. ConvertToF32 rounds to nearest even, and copies f32.
// Work:     the calling thread, elements in order.
// Bytes:    per element: reads 1 and writes 1 element.
// Shapes:   `count` elements (0 is allowed), aligned to their element. Source
//           and destination do not overlap.
// Threads:  any, concurrently on different destinations.
// Errors:   another dtype aborts the process.
// Run:      build/release/bin/kernels_test --gtest_filter='*Widen*'

#ifndef LOCKSTEP_KERNELS_WIDEN_H_
#define LOCKSTEP_KERNELS_WIDEN_H_

#include <cstddef>
#include <cstdint>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

void WidenToI32(const void* in, int32_t* out, size_t count, DType from);
void NarrowFromI32(const int32_t* in, void* out, size_t count, DType to);

void ConvertToF32(const void* in, float* out, size_t count, DType from);

// data = data * factor, in place.
void ScaleF32(float* data, size_t count, float factor);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_WIDEN_H_
