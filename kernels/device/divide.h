// Divide on the device, with the same bits as kernels/divide.h.
//
// Threads: a thread takes 16 bytes per access; if source or destination is not
//          aligned to that, one element. 256 per block, grid-stride, at most
//          8192 blocks.
// Bytes:   per element: reads 1 and writes 1 element.
// Run:     build/gpu-bundle/run device_kernels_test
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_DIVIDE_H_
#define LOCKSTEP_KERNELS_DEVICE_DIVIDE_H_

#include <cstddef>

#include "kernels/device/launch.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

Launched Divide(const void* in, void* out, size_t count, DType dtype,
                int divisor, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_DIVIDE_H_
