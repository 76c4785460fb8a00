// StridedBox: a block of up to 8 dimensions in one tensor, and its counterpart
// in another. Copying, filling and summing boxes is what packs, unpacks and pads
// the halos of N-D tensors, and accumulates their gradients.
//
//   in   . . . . .        counts      {2, 3}
//        . a b c .        in_strides  {5, 1} elements
//        . d e f .        out_strides {3, 1}
//   out  a b c d e f
//
// A stride of `in` may be 0 (one element is copied to many) or negative (the
// dimension is reversed); a stride of `out` of a sum may be 0 (many elements
// are added to one).
//
// Boxes of one call may have different types and memory: `in_memory` and
// `out_memory` are indices of the call's pointers, so a list of boxes is made
// once and used for every exchange.

#ifndef LOCKSTEP_KERNELS_STRIDED_BOX_H_
#define LOCKSTEP_KERNELS_STRIDED_BOX_H_

#include <cstdint>
#include <span>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

inline constexpr int kBoxDimsMax = 8;

struct StridedBox {
  DType dtype = DType::kF32;
  int in_memory = 0;   // index of the call's inputs
  int out_memory = 0;  // index of the call's outputs
  int dims = 0;        // 0: one element
  // Bytes from the pointers to the first element.
  int64_t in_offset = 0;
  int64_t out_offset = 0;
  int64_t counts[kBoxDimsMax] = {};
  // Elements.
  int64_t in_strides[kBoxDimsMax] = {};
  int64_t out_strides[kBoxDimsMax] = {};
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_STRIDED_BOX_H_
