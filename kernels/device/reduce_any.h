// ReduceAnyRows on the device: consecutive rows, with the same bits as
// kernels/reduce_any.h, whose table says which dtypes and operations it takes.
// The kernel is the one of reduce.h.
//
// Threads: 16 bytes of a row per thread (one element if a row is not aligned),
//          256 per block, grid-stride, at most 8192 blocks.
// Bytes:   per element: reads it in every row, writes it once.
// Run:     build/gpu-bundle/run device_kernels_test
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_REDUCE_ANY_H_
#define LOCKSTEP_KERNELS_DEVICE_REDUCE_ANY_H_

#include <cstddef>

#include "kernels/device/launch.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

// ReduceAny of the rows inputs[r * count], r < rows. `out` may be one of them.
Launched ReduceAnyRows(const void* inputs, int rows, void* out, size_t count,
                       DType dtype, ReduceOp op, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_REDUCE_ANY_H_
