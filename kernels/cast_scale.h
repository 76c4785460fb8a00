// Cast and scale: from any float type to any, times a factor.
//
//   src [f32 ...] ── × factor ── round ──▶ dst [bf16 ...]
//
// dst[i] = round(src[i] * factor). The product is computed in f32, or in f64 if
// either type is f64; it is then rounded to dst's type once, to nearest even.
// `factor` is rounded to f32 first where f32 is what is computed in. A factor
// of 1 changes no value: then this is a cast.
//
// Shapes:  `count` elements, 0 included; aligned to their element, no more.
//          src and dst may be the same address if the types are of the same
//          size, and may not overlap otherwise.
// NaN:     stays NaN (half.h); an overflow becomes infinity.
// Threads: any, at the same time on different destinations.
// Errors:  a dtype that is no float ends the process.

#ifndef LOCKSTEP_KERNELS_CAST_SCALE_H_
#define LOCKSTEP_KERNELS_CAST_SCALE_H_

#include <cstddef>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

void CastScale(const void* src, DType src_dtype, double factor, void* dst,
               DType dst_dtype, size_t count);

// data[i] = round(data[i] * factor): CastScale in place, as the mean of a sum
// needs it (factor 1 / size).
inline void Scale(void* data, DType dtype, double factor, size_t count) {
  CastScale(data, dtype, factor, data, dtype, count);
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_CAST_SCALE_H_
