// kernels/add_leaf.h on the device: the same bits.
//
// launch.h says what holds for every function here; `left` is read in the call.

#ifndef LOCKSTEP_KERNELS_DEVICE_ADD_LEAF_H_
#define LOCKSTEP_KERNELS_DEVICE_ADD_LEAF_H_

#include <cstddef>
#include <span>

#include "kernels/device/launch.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

Launched AddLeaf(std::span<const void* const> left, const void* leaf,
                 DType dtype, double weight, void* out, DType out_dtype,
                 size_t count, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_ADD_LEAF_H_
