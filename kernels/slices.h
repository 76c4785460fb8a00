// Slices of rows at offsets that the memory has, not the call: the two ends of
// a ragged exchange, whose receiver learns from the sender where rows belong.
//
//   packed   [a0 a1 | b0 | c0 c1 c2]     slices one after the other
//   offsets  [4       0    7]            the first row of each in the tensor
//   tensor   [b0 .. .. .. a0 a1 .. c0 c1 c2]
//
// A slice that is not within the tensor is not read or written: PackSlices
// gives zeros for it, the others ignore it. Whether there is one is for the
// caller to check.
//
// Work:    the calling thread, slices in order.
// Bytes:   per byte of the slices: reads 1, writes 1; ZeroSlices reads none.
// Shapes:  any alignment; any size may be 0, none is negative. The memory does
//          not overlap. Slices of a tensor that is written may overlap: then
//          their rows have the values of any of them.
// Threads: any, concurrently on different outputs.
// Errors:  none.
// Run:     build/release/bin/kernels_test --gtest_filter='*Slices*'

#ifndef LOCKSTEP_KERNELS_SLICES_H_
#define LOCKSTEP_KERNELS_SLICES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/host_device.h"

namespace lockstep::kernels {

// The rows `offset`, ... of a tensor of `tensor_rows`.
LOCKSTEP_HD bool IsSliceWithin(int64_t offset, int64_t rows,
                               int64_t tensor_rows) {
  return offset >= 0 && offset <= tensor_rows && rows <= tensor_rows - offset;
}

// `sizes`: the rows of each slice; `offsets`: as many.
void PackSlices(std::span<const int64_t> sizes, const int64_t* offsets,
                const void* tensor, size_t tensor_rows, void* packed,
                size_t row_bytes);
void UnpackSlices(std::span<const int64_t> sizes, const int64_t* offsets,
                  const void* packed, void* tensor, size_t tensor_rows,
                  size_t row_bytes);
void ZeroSlices(std::span<const int64_t> sizes, const int64_t* offsets,
                void* tensor, size_t tensor_rows, size_t row_bytes);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_SLICES_H_
