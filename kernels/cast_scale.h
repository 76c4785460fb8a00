// CastScale casts from any float type to any other and multiplies by a factor.
//
//   src [f32 ...] ── × factor ── round ──▶ dst [bf16 ...]
//
// dst[i] = round(src[i] * factor). The product is computed in f64 if either
// type is f64, else in f32 (`factor` is then rounded to f32 first). It is
// rounded to dst's type once, to nearest even. With factor 1 this is a cast.
//
// Work:    the calling thread, elements in order, tiles of 1024.
// Bytes:   per element: reads src once, writes dst once.
// Shapes:  `count` elements (0 is allowed), aligned to their element. src and
//          dst may be the same address if their types have the same size, and
//          may not overlap otherwise.
// NaN:     stays NaN (half.h); an overflow becomes infinity.
// Threads: any, concurrently on different destinations.
// Errors:  a dtype that is not a float aborts the process.
// Run:     build/release/bin/kernels_test --gtest_filter='CastScale*'
// Bench:   ./run bench kernels

#ifndef LOCKSTEP_KERNELS_CAST_SCALE_H_
#define LOCKSTEP_KERNELS_CAST_SCALE_H_

#include <cstddef>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

void CastScale(const void* src, DType src_dtype, double factor, void* dst,
               DType dst_dtype, size_t count);

// CastScale in place: data[i] = round(data[i] * factor). The mean of a sum uses
// it with factor 1 / size.
inline void Scale(void* data, DType dtype, double factor, size_t count) {
  CastScale(data, dtype, factor, data, dtype, count);
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_CAST_SCALE_H_
