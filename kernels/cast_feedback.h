// CastFeedback casts to a half with error feedback: the rounding error of one
// step is added to the next step's values.
//
//   src [f32 ...] ──(+)──▶ sum ── round ──▶ dst  [bf16 ...]   is sent
//   residual [f32 ...] ┘    └── sum - dst ─▶ next [f32 ...]   residual of the
//                                                             next step
//
// sum = src[i] + residual[i]; dst[i] = round(sum); next[i] = sum - dst[i]. Sum
// and difference are computed in src's type (f32 or f64). Each is rounded
// separately, dst to nearest even. Over many steps the sum of dst lacks only
// the last residual. If a sum overflows the half or is not finite, next is not
// finite: check that all sums are finite before keeping it.
//
// Work:    the calling thread, elements in order.
// Bytes:   per element, f32 to a half: reads 8, writes 6; from f64: 16, 10.
// Shapes:  `count` elements (0 is allowed), aligned to their element. src,
//          residual and next have one dtype, f32 or f64; dst is a half. `next`
//          may be `residual`; no other overlap.
// Threads: any, concurrently on different destinations.
// Errors:  another dtype aborts the process.
// Run:     build/release/bin/kernels_test --gtest_filter='CastFeedback*'

#ifndef LOCKSTEP_KERNELS_CAST_FEEDBACK_H_
#define LOCKSTEP_KERNELS_CAST_FEEDBACK_H_

#include <cstddef>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

void CastFeedback(const void* src, const void* residual, DType src_dtype,
                  void* dst, DType dst_dtype, void* next, size_t count);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_CAST_FEEDBACK_H_
