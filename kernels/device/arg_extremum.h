// MarkExtremum on the device, with the same bits as kernels/arg_extremum.h.
//
// Threads: a thread takes 16 bytes of the larger type per access; if an input
//          or the output is not aligned to that, one element. 256 per block,
//          grid-stride, at most 8192 blocks.
// Bytes:   per element: reads 2 elements, writes 4 bytes.
// Run:     build/gpu-bundle/run device_kernels_test
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_ARG_EXTREMUM_H_
#define LOCKSTEP_KERNELS_DEVICE_ARG_EXTREMUM_H_

#include <cstddef>
#include <cstdint>

#include "kernels/device/launch.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

Launched MarkExtremum(const void* values, const void* extrema, int32_t* out,
                      size_t count, DType dtype, int32_t index, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_ARG_EXTREMUM_H_
