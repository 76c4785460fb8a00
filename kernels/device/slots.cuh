// A launch over slots, shared by the kernels of pack.cu and verdict_gate.cu,
// which differ only in the operation on each pair of a tensor's and the
// bucket's elements. One block of 256 threads per chunk. row_copy.cu uses the
// loop over one piece.

#ifndef LOCKSTEP_KERNELS_DEVICE_SLOTS_CUH_
#define LOCKSTEP_KERNELS_DEVICE_SLOTS_CUH_

#include "kernels/device/dispatch.cuh"
#include "kernels/device/lists.cuh"
#include "kernels/element.h"
#include "kernels/slots.h"

namespace lockstep::kernels::device {

// An operation on elements or on vectors of them. A vector access reads all its
// elements before it writes any. Every thread calls Begins first: it loads the
// values that the operation needs, and may return false to skip the launch.
template <class T, class Element>
struct OnPairs {
  Element element;
  __device__ bool Begins() { return element.Begins(); }
  __device__ void operator()(T& t, T& b) const { element(t, b); }
  __device__ void operator()(Vector<T>& t, Vector<T>& b) const {
    Vector<T> tensor = Element::kReadsTensor ? t : Vector<T>{};
    Vector<T> bucket = Element::kReadsBucket ? b : Vector<T>{};
#pragma unroll
    for (size_t i = 0; i < Vector<T>::kLength; ++i) {
      element(tensor.element[i], bucket.element[i]);
    }
    if (Element::kWritesTensor) t = tensor;
    if (Element::kWritesBucket) b = bucket;
  }
};

// For operations that are never skipped.
struct Always {
  __device__ bool Begins() const { return true; }
};

template <class T>
struct CopyIn : Always {
  static constexpr bool kReadsTensor = true, kReadsBucket = false;
  static constexpr bool kWritesTensor = false, kWritesBucket = true;
  __device__ void operator()(T& t, T& b) const { b = t; }
};

template <class T>
struct Clear : Always {
  static constexpr bool kReadsTensor = false, kReadsBucket = false;
  static constexpr bool kWritesTensor = false, kWritesBucket = true;
  __device__ void operator()(T&, T& b) const { b = T{}; }
};

// Applies `op` to each pair of a piece; adjacent threads take adjacent
// elements.
template <class T, class Op>
__device__ void ForPiece(T* tensor, T* bucket, size_t count, const Op& op) {
  size_t head = count;
  if (AlignedAlike(tensor, bucket)) {
    using V = Vector<T>;
    head = Head(bucket, count);
    const size_t vectors = (count - head) / V::kLength;
    V* t = reinterpret_cast<V*>(tensor + head);
    V* b = reinterpret_cast<V*>(bucket + head);
    for (size_t i = threadIdx.x; i < vectors; i += kThreads) op(t[i], b[i]);
    const size_t done = head + vectors * V::kLength;
    for (size_t i = done + threadIdx.x; i < count; i += kThreads) {
      op(tensor[i], bucket[i]);
    }
  }
  for (size_t i = threadIdx.x; i < head; i += kThreads) {
    op(tensor[i], bucket[i]);
  }
}

// Block k handles chunk first_chunk + k of the bucket.
template <class T, class Op, size_t kCapacity>
__global__ void __launch_bounds__(kThreads)
    OnSlots(const __grid_constant__ List<TensorSlot, kCapacity> slots,
            size_t first_chunk, T* bucket, Op op) {
  if (!op.Begins()) return;
  const size_t begin = ChunkBegin(first_chunk + blockIdx.x);
  const size_t end = begin + kChunkElements;
  for (size_t s = FirstSlot(slots.items, slots.size, begin);
       s < slots.size && slots.items[s].offset < end; ++s) {
    const TensorSlot slot = slots.items[s];
    const Piece piece = PieceOf(slot, begin, end);
    ForPiece(static_cast<T*>(slot.tensor) + piece.in_tensor,
             bucket + piece.in_bucket, piece.count, op);
  }
}

template <class T, class Op>
Launched LaunchOnSlots(std::span<const TensorSlot> slots, T* bucket, Op op,
                       Stream stream) {
  Check(InOrder(slots.data(), slots.size()),
        "slots overlap or are out of order");
  return ForLists(slots, [&](const auto& list) {
    const ChunkRange chunks = ChunksOf(list.items, list.size);
    const size_t blocks = chunks.end - chunks.first;
    if (blocks == 0) return kLaunched;
    Check(blocks <= kBlocksMax, "a bucket of more chunks than a grid's blocks");
    return LaunchKernel(OnSlots<T, Op, kItemsMaxOf<decltype(list)>>,
                        static_cast<unsigned>(blocks), kThreads, stream, list,
                        chunks.first, bucket, op);
  });
}

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_SLOTS_CUH_
