// kernels/cast_scale.h on the device: the same bits.
//
// launch.h says what holds for every function here.

#ifndef LOCKSTEP_KERNELS_DEVICE_CAST_SCALE_H_
#define LOCKSTEP_KERNELS_DEVICE_CAST_SCALE_H_

#include <cstddef>

#include "kernels/device/launch.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

Launched CastScale(const void* src, DType src_dtype, double factor, void* dst,
                   DType dst_dtype, size_t count, Stream stream);

inline Launched Scale(void* data, DType dtype, double factor, size_t count,
                      Stream stream) {
  return CastScale(data, dtype, factor, data, dtype, count, stream);
}

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_CAST_SCALE_H_
