// kernels/reduce_pairs.h on the device: the same bits.
//
// launch.h says what holds for every function here.

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
