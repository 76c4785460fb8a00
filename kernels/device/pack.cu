#include "kernels/device/dispatch.cuh"
#include "kernels/device/pack.h"
#include "kernels/element.h"

namespace lockstep::kernels::device {
namespace {

// Applies `op` to each pair of a tensor's and the bucket's elements of a piece,
// the block's threads side by side.
template <class T, class Op>
__device__ void ForPiece(T* tensor, T* bucket, size_t count, Op op) {
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

// Block k does chunk first_chunk + k of the bucket.
template <class T, class Op>
__global__ void __launch_bounds__(kThreads)
    OnSlots(const Slot* slots, size_t slot_count, size_t first_chunk, T* bucket,
            Op op) {
  const size_t begin = ChunkBegin(first_chunk + blockIdx.x);
  const size_t end = begin + kChunkElements;
  for (size_t s = FirstSlot(slots, slot_count, begin);
       s < slot_count && slots[s].offset < end; ++s) {
    const Slot slot = slots[s];
    const Piece piece = PieceOf(slot, begin, end);
    ForPiece(static_cast<T*>(slot.tensor) + piece.in_tensor,
             bucket + piece.in_bucket, piece.count, op);
  }
}

template <class T, class Op>
Launched LaunchOnSlots(const SlotTable& table, T* bucket, Op op,
                       Stream stream) {
  const size_t chunks = table.chunks.end - table.chunks.first;
  if (chunks == 0) return kLaunched;
  Check(chunks <= kBlocksMax, "a bucket of more chunks than a grid has blocks");
  OnSlots<T, Op><<<static_cast<unsigned>(chunks), kThreads, 0, stream>>>(
      table.slots, table.count, table.chunks.first, bucket, op);
  return LastLaunch();
}

// --- What happens to a pair -------------------------------------------------

// An operation on elements, also on vectors of them: all that one access reads
// is read before anything is written.
template <class T, class Element>
struct OnPairs {
  Element element;
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

template <class T>
struct CopyIn {
  static constexpr bool kReadsTensor = true, kReadsBucket = false;
  static constexpr bool kWritesTensor = false, kWritesBucket = true;
  __device__ void operator()(T& t, T& b) const { b = t; }
};

template <class T>
struct CopyOut {
  static constexpr bool kReadsTensor = false, kReadsBucket = true;
  static constexpr bool kWritesTensor = true, kWritesBucket = false;
  __device__ void operator()(T& t, T& b) const { t = b; }
};

template <class T>
struct Clear {
  static constexpr bool kReadsTensor = false, kReadsBucket = false;
  static constexpr bool kWritesTensor = false, kWritesBucket = true;
  __device__ void operator()(T&, T& b) const { b = T{}; }
};

template <class T>
struct ScaleIn {
  static constexpr bool kReadsTensor = true, kReadsBucket = false;
  static constexpr bool kWritesTensor = false, kWritesBucket = true;
  Compute<T> weight;
  __device__ void operator()(T& t, T& b) const { b = Scaled<T>(t, weight); }
};

template <class T>
struct AddIn {
  static constexpr bool kReadsTensor = true, kReadsBucket = true;
  static constexpr bool kWritesTensor = false, kWritesBucket = true;
  Compute<T> weight;
  __device__ void operator()(T& t, T& b) const {
    b = AddedScaled(b, t, weight);
  }
};

template <class T>
struct ScaleOut {
  static constexpr bool kReadsTensor = false, kReadsBucket = true;
  static constexpr bool kWritesTensor = true, kWritesBucket = false;
  Compute<T> factor;
  __device__ void operator()(T& t, T& b) const { t = Scaled<T>(b, factor); }
};

template <class T>
struct ScaleThere {
  static constexpr bool kReadsTensor = false, kReadsBucket = true;
  static constexpr bool kWritesTensor = false, kWritesBucket = true;
  Compute<T> factor;
  __device__ void operator()(T&, T& b) const { b = Scaled<T>(b, factor); }
};

// Copies do not look at what they copy: a word of the dtype's size will do.
template <template <class> class Op>
Launched LaunchCopy(const SlotTable& table, DType dtype, void* bucket,
                    Stream stream) {
  const auto launch = [&](auto word) {
    using T = decltype(word);
    return LaunchOnSlots(table, static_cast<T*>(bucket), OnPairs<T, Op<T>>{},
                         stream);
  };
  switch (SizeOf(dtype)) {
    case 1: return launch(uint8_t{});
    case 2: return launch(uint16_t{});
    case 4: return launch(uint32_t{});
    case 8: return launch(uint64_t{});
    default: Fatal("no element has this size");
  }
}

template <template <class> class Op>
Launched LaunchScale(const SlotTable& table, DType dtype, double factor,
                     void* bucket, Stream stream) {
  Launched launched = kLaunched;
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launched = LaunchOnSlots(
        table, static_cast<T*>(bucket),
        OnPairs<T, Op<T>>{{static_cast<Compute<T>>(factor)}}, stream);
  });
  return launched;
}

}  // namespace

Launched Pack(const SlotTable& table, DType dtype, void* bucket,
              Stream stream) {
  return LaunchCopy<CopyIn>(table, dtype, bucket, stream);
}

Launched PackScaled(const SlotTable& table, DType dtype, double weight,
                    void* bucket, Stream stream) {
  return LaunchScale<ScaleIn>(table, dtype, weight, bucket, stream);
}

Launched PackAdded(const SlotTable& table, DType dtype, double weight,
                   void* bucket, Stream stream) {
  return LaunchScale<AddIn>(table, dtype, weight, bucket, stream);
}

Launched Unpack(const void* bucket, const SlotTable& table, DType dtype,
                Stream stream) {
  return LaunchCopy<CopyOut>(table, dtype, const_cast<void*>(bucket), stream);
}

Launched UnpackScaled(const void* bucket, const SlotTable& table, DType dtype,
                      double factor, Stream stream) {
  return LaunchScale<ScaleOut>(table, dtype, factor, const_cast<void*>(bucket),
                               stream);
}

Launched ScaleSlots(void* bucket, const SlotTable& table, DType dtype,
                    double factor, Stream stream) {
  return LaunchScale<ScaleThere>(table, dtype, factor, bucket, stream);
}

Launched ZeroSlots(void* bucket, const SlotTable& table, DType dtype,
                   Stream stream) {
  return LaunchCopy<Clear>(table, dtype, bucket, stream);
}

}  // namespace lockstep::kernels::device
