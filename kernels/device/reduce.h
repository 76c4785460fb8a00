// kernels/reduce.h on the device, over rows that lie behind each other: the
// same bits.
//
//   row 0  [a0 a1 a2 a3 | ...]
//   row 1  [b0 b1 b2 b3 | ...]     a thread owns 16 bytes of every row, folds
//   row 2  [c0 c1 c2 c3 | ...]     them in order, and writes once
//            └─ one thread ─▶ out
//
// launch.h says what holds for every function here.

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
