// CastScale on the device, with the same bits as kernels/cast_scale.h.
//
// Threads: a thread takes 16 bytes of the larger type per access; if src or dst
//          is not aligned to that, one element. 256 per block, grid-stride, at
//          most 8192 blocks.
// Bytes:   per element: reads src once, writes dst once.
// Run:     build/gpu-bundle/run device_kernels_test
// Bench:   build/gpu-bundle/run gpu_kernels_bench
//
// launch.h has the rules of every launch.

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
