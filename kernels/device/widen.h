// The conversions of kernels/widen.h on the device, with the same bits.
//
// Threads: a thread takes 16 bytes of the larger type per access; if source or
//          destination is not aligned to that, one element. 256 per block,
//          grid-stride, at most 8192 blocks.
// Bytes:   per element: reads 1 and writes 1 element.
// Run:     build/gpu-bundle/run device_kernels_test
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_WIDEN_H_
#define LOCKSTEP_KERNELS_DEVICE_WIDEN_H_

#include <cstddef>
#include <cstdint>

#include "kernels/device/cast_scale.h"
#include "kernels/device/launch.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

Launched WidenToI32(const void* in, int32_t* out, size_t count, DType from,
                    Stream stream);
Launched NarrowFromI32(const int32_t* in, void* out, size_t count, DType to,
                       Stream stream);
Launched ConvertToF32(const void* in, float* out, size_t count, DType from,
                      Stream stream);

inline Launched ScaleF32(float* data, size_t count, float factor,
                         Stream stream) {
  return Scale(data, DType::kF32, factor, count, stream);
}

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_WIDEN_H_
