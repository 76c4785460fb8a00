// CastFeedback on the device, with the same bits as kernels/cast_feedback.h.
//
// Threads: one thread per element, 256 per block, grid-stride, at most 8192
//          blocks; the accesses of a warp are contiguous.
// Bytes:   per element, f32 to a half: reads 8, writes 6; from f64: 16, 10.
// Run:     build/gpu-bundle/run device_kernels_test
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_CAST_FEEDBACK_H_
#define LOCKSTEP_KERNELS_DEVICE_CAST_FEEDBACK_H_

#include <cstddef>

#include "kernels/device/launch.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

Launched CastFeedback(const void* src, const void* residual, DType src_dtype,
                      void* dst, DType dst_dtype, void* next, size_t count,
                      Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_CAST_FEEDBACK_H_
