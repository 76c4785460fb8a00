// AddLeaf on the device, with the same bits as kernels/add_leaf.h.
//
// Threads: one thread per element, 256 per block, grid-stride, at most 8192
//          blocks; the accesses of a warp are contiguous.
// Bytes:   per element: reads the leaf and each left sum, writes out.
// Run:     build/gpu-bundle/run device_kernels_test
//
// `left` is read during the call. launch.h has the rules of every launch.

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
