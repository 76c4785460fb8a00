// StridedBox: a block of up to 8 dimensions in one tensor, and its counterpart
// in another. Copying, filling and summing boxes is what packs, unpacks and
// pads the halos of N-D tensors, and accumulates their gradients.
//
//   in   . . . . .        counts      {2, 3}
//        . a b c .        in_strides  {5, 1} elements
//        . d e f .        out_strides {3, 1}
//   out  a b c d e f
//
//   replicate an edge     in_stride  0, copied
//   reflect at an edge    in_stride -1, copied
//   and their gradients   out_stride 0 (many elements are added to one), or
//                         in_stride -1, summed
//
// Boxes of one call may have different types and memory: `in_memory` and
// `out_memory` are indices of the call's pointers, so a list of boxes is made
// once and used for every exchange.
//
// Numerics: a sum is computed in the wide type of any_element.h, in row-major
//           order of the box, and rounded once. So f16, bf16 and f8 are summed
//           in f32, integers wrap, complex numbers are summed in parts, and a
//           sum of bools is their or: 0 or 1. The bits are the same on host
//           and device, but those of a NaN.
// Work:     the calling thread. Runs that are contiguous on both sides are
//           copied as a whole; without them, elements one by one, so dense
//           transposes are faster with PermuteBlocks.
// Bytes:    per element of a copy: reads 1, writes 1; of a fill: writes 1; of a
//           sum: reads 1, writes each element of `out` once, and reads it once
//           if it is added to. No copy of a box is made in between: at most two
//           tiles of 16 KiB.
// Shapes:   any number of dimensions up to kBoxDimsMax; any count may be 0,
//           which is no work. Strides of `in` may be 0 or negative, those of
//           `out` negative; 0 in a sum, or with a count of 1. Offsets may make
//           any address that is aligned to the element; complex numbers to one
//           of their parts. Boxes of `out` overlap neither each other nor boxes
//           of `in`, and a box writes no element twice.
// Threads:  any, concurrently on different outputs.
// Errors:   a memory that the call does not have, a number of dimensions or a
//           count out of range, a copy or fill with a stride of `out` of 0: the
//           process aborts.
// Run:      build/release/bin/kernels_test --gtest_filter='*Box*'
// Bench:    build/release/bin/kernels_bench --benchmark_filter=Box

#ifndef LOCKSTEP_KERNELS_STRIDED_BOX_H_
#define LOCKSTEP_KERNELS_STRIDED_BOX_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
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

// A box of `out` whose elements get one value.
struct BoxFill {
  DType dtype = DType::kF32;
  int out_memory = 0;
  int dims = 0;
  int64_t out_offset = 0;
  int64_t counts[kBoxDimsMax] = {};
  int64_t out_strides[kBoxDimsMax] = {};
  // The element; the bytes after it are ignored.
  alignas(16) std::byte value[16] = {};
};

// out element (i, j, ..) = in element (i, j, ..), for each box.
void CopyBoxes(std::span<const StridedBox> boxes,
               std::span<const void* const> in, std::span<void* const> out);

// out element (i, j, ..) = value, for each box.
void FillBoxes(std::span<const BoxFill> boxes, std::span<void* const> out);

// Each element of `out` = the sum of the elements of `in` whose indices differ
// in the dimensions with an out_stride of 0 only; with `add`, its old value is
// the first summand.
void SumBoxes(std::span<const StridedBox> boxes,
              std::span<const void* const> in, std::span<void* const> out,
              bool add);

// The box that copies, or sums in the same order, the same elements with as few
// dimensions as possible: none of count 1, neighbours that are contiguous on
// both sides merged, strides of `out` not negative. First come the dimensions
// with an out_stride, the largest first, then those with out_stride 0, in their
// order. An empty box gets one dimension of count 0. Aborts as the kernels do
// if the dimensions or a count are out of range.
StridedBox Simplified(const StridedBox& box);

// The fill as a copy: of one element to all, so every in_stride is 0.
StridedBox BoxOf(const BoxFill& fill);

// The dimensions of a simplified box with an out_stride; the others are summed.
int KeptDims(const StridedBox& simplified);

bool IsEmpty(const StridedBox& simplified);

// Aborts if a simplified box cannot be copied or filled, because a dimension
// has an out_stride of 0.
void CheckWritesOnce(const StridedBox& simplified);

// The call's pointer of a box; aborts if there is none.
template <class Pointer>
Pointer MemoryOf(std::span<const Pointer> memory, int index) {
  Check(index >= 0 && static_cast<size_t>(index) < memory.size(),
        "a box is in a memory that the call does not have");
  return memory[static_cast<size_t>(index)];
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_STRIDED_BOX_H_
