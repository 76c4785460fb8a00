// Cast with error feedback: to a half, keeping what the half could not hold.
//
//   src [f32 ...] ──(+)──▶ sum ── round ──▶ dst  [bf16 ...]   travels
//   residual [f32 ...] ┘    └── sum - dst ─▶ next [f32 ...]   is added next
//   time
//
// sum = src[i] + residual[i]; dst[i] = round(sum); next[i] = sum - dst[i]. Sum
// and difference are in f32, or in f64 if `src` is; each is rounded by itself,
// and dst to nearest even. Summed over many steps dst loses nothing but the
// last residual. Where a sum is too large for the half or not finite, next is
// not finite: who keeps it must have seen that all was.
//
// Shapes:  `count` elements, 0 included; aligned to their element, no more.
//          src, residual and next are of one dtype, f32 or f64; dst is a half.
//          `next` may be `residual`; no other overlap.
// Threads: any, at the same time on different destinations.
// Errors:  another dtype ends the process.

#ifndef LOCKSTEP_KERNELS_CAST_FEEDBACK_H_
#define LOCKSTEP_KERNELS_CAST_FEEDBACK_H_

#include <cstddef>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

void CastFeedback(const void* src, const void* residual, DType src_dtype,
                  void* dst, DType dst_dtype, void* next, size_t count);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_CAST_FEEDBACK_H_
