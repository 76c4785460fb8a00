// A slot maps one tensor to its range of a contiguous bucket. Slots also define
// how the work over them is split. Shared by the host loops and the CUDA
// kernels.
//
//   tensors   [a        ]   [b ]     [c              ]     any addresses
//   bucket    [a         ][b ]...[c              ]         offsets ascend; gaps
//   chunks    |0      |1      |2      |3      |4   |       (...) are allowed
//
// A chunk is kChunkElements of the *bucket*: chunk k is elements [k, k + 1) *
// kChunkElements. So every access to the bucket is aligned, and a launch of one
// block per chunk covers any number of tensors evenly. A block with many small
// tensors loops over them:
//
//   for (size_t s = FirstSlot(slots, n, ChunkBegin(k));
//        s < n && slots[s].offset < ChunkBegin(k + 1); ++s) {
//     PieceOf(slots[s], ChunkBegin(k), ChunkBegin(k + 1));
//   }
//
// Order: offsets ascend and slots do not overlap in the bucket (InOrder).
//        Empty slots are allowed anywhere in that order.

#ifndef LOCKSTEP_KERNELS_SLOTS_H_
#define LOCKSTEP_KERNELS_SLOTS_H_

#include <cstddef>

#include "kernels/host_device.h"

namespace lockstep::kernels {

// The range of one tensor in the bucket; all counts are elements.
struct TensorSlot {
  void* tensor;   // `count` elements, aligned to their type; not owned
  size_t offset;  // of the tensor's first element in the bucket
  size_t count;
};

inline constexpr size_t kChunkElements = 16384;

// The chunks that a list of slots touches: [first, end).
struct ChunkRange {
  size_t first;
  size_t end;
};

// The part of one slot in one chunk; `count` is 0 if they do not overlap.
struct Piece {
  size_t in_tensor;  // first element in the tensor
  size_t in_bucket;  // the same element in the bucket
  size_t count;
};

LOCKSTEP_HD size_t ChunkBegin(size_t chunk) { return chunk * kChunkElements; }

LOCKSTEP_HD ChunkRange ChunksOf(const TensorSlot* slots, size_t slot_count) {
  if (slot_count == 0) return {0, 0};
  const TensorSlot& last = slots[slot_count - 1];
  return {slots[0].offset / kChunkElements,
          (last.offset + last.count + kChunkElements - 1) / kChunkElements};
}

// The first slot that ends after bucket element `begin`; slot_count if none.
LOCKSTEP_HD size_t FirstSlot(const TensorSlot* slots, size_t slot_count,
                             size_t begin) {
  size_t low = 0;
  size_t high = slot_count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (slots[middle].offset + slots[middle].count > begin) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The part of `slot` in bucket elements [begin, end).
LOCKSTEP_HD Piece PieceOf(const TensorSlot& slot, size_t begin, size_t end) {
  const size_t slot_end = slot.offset + slot.count;
  const size_t from = slot.offset > begin ? slot.offset : begin;
  const size_t to = slot_end < end ? slot_end : end;
  return {from - slot.offset, from, from < to ? to - from : 0};
}

// Whether the slots are in the order that all functions here require.
inline bool InOrder(const TensorSlot* slots, size_t slot_count) {
  for (size_t i = 1; i < slot_count; ++i) {
    if (slots[i - 1].offset + slots[i - 1].count > slots[i].offset) {
      return false;
    }
  }
  return true;
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_SLOTS_H_
