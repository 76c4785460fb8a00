// ReducePairs on the device, with the same bits as kernels/reduce_pairs.h.
//
// Threads: one thread per element, 256 per block, grid-stride, at most 8192
//          blocks; the accesses of a warp are contiguous.
// Bytes:   per element: reads it in every row, writes it once.
// Run:     build/gpu-bundle/run device_kernels_test
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_REDUCE_PAIRS_H_
#define LOCKSTEP_KERNELS_DEVICE_REDUCE_PAIRS_H_

#include <cstddef>

#include "kernels/device/launch.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

Launched ReducePairs(const void* inputs, int rows, DType dtype, double factor,
                     void* out, DType out_dtype, size_t count, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_REDUCE_PAIRS_H_
