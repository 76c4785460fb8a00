// ReduceRows on the device: consecutive rows, with the same bits as
// kernels/reduce.h.
//
//   row 0  [a0 a1 a2 a3 | ...]
//   row 1  [b0 b1 b2 b3 | ...]     a thread reads 16 bytes of every row,
//   row 2  [c0 c1 c2 c3 | ...]     reduces them in order, and writes once
//            └─ one thread ─▶ out
//
// Threads: 16 bytes of a row per thread (one element if a row is not aligned),
//          256 per block, grid-stride, at most 8192 blocks.
// Bytes:   per element: reads it in every row, writes it once.
// Run:     build/gpu-bundle/run device_kernels_test
// Bench:   build/gpu-bundle/run gpu_kernels_bench
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_REDUCE_H_
#define LOCKSTEP_KERNELS_DEVICE_REDUCE_H_

#include <cstddef>

#include "kernels/device/launch.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

Launched ReduceRows(const void* inputs, int rows, void* out, size_t count,
                    DType dtype, ReduceOp op, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_REDUCE_H_
