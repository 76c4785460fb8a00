// kernels/cast_feedback.h on the device: the same bits.
//
// launch.h says what holds for every function here.

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
