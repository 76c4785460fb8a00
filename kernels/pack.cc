#include "kernels/pack.h"

#include <cstddef>
#include <cstring>

#include "kernels/copy.h"
#include "kernels/dispatch.h"
#include "kernels/tiles.h"

namespace lockstep::kernels {
namespace {

// Calls f(tensor, bucket element, count) for each piece, in order of the
// chunks.
template <class F>
void ForPieces(std::span<const TensorSlot> slots, size_t element_bytes, F&& f) {
  const size_t n = slots.size();
  Check(InOrder(slots.data(), n), "slots overlap or are out of order");
  const ChunkRange chunks = ChunksOf(slots.data(), n);
  for (size_t chunk = chunks.first; chunk < chunks.end; ++chunk) {
    const size_t begin = ChunkBegin(chunk);
    const size_t end = ChunkBegin(chunk + 1);
    for (size_t s = FirstSlot(slots.data(), n, begin);
         s < n && slots[s].offset < end; ++s) {
      const Piece piece = PieceOf(slots[s], begin, end);
      if (piece.count == 0) continue;
      f(static_cast<std::byte*>(slots[s].tensor) +
            piece.in_tensor * element_bytes,
        piece.in_bucket, piece.count);
    }
  }
}

// The same in tiles of T: f(tensor, bucket, n), both typed.
template <class F>
void ForFloatTiles(std::span<const TensorSlot> slots, DType dtype, void* bucket,
                   F&& f) {
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForPieces(slots, sizeof(T), [&](void* tensor, size_t at, size_t count) {
      T* t = static_cast<T*>(tensor);
      T* b = static_cast<T*>(bucket) + at;
      ForTiles(count, [&](size_t i, size_t n) { f(t + i, b + i, n); });
    });
  });
}

template <class T>
Compute<T> Factor(const T*, double factor) {
  return static_cast<Compute<T>>(factor);
}

}  // namespace

// A larger bucket is evicted from the caches near the core before it is
// reduced.
constexpr size_t kNearBytes = 1 << 20;

void Pack(std::span<const TensorSlot> slots, DType dtype, void* bucket) {
  const size_t bytes = SizeOf(dtype);
  size_t elements = 0;
  for (const TensorSlot& slot : slots) elements += slot.count;
  auto* const copy = elements * bytes > kNearBytes ? CopyPastCaches : Copy;
  std::byte* to = static_cast<std::byte*>(bucket);
  ForPieces(slots, bytes, [&](void* tensor, size_t at, size_t count) {
    copy(to + at * bytes, tensor, count * bytes);
  });
}

void PackScaled(std::span<const TensorSlot> slots, DType dtype, double weight,
                void* bucket) {
  ForFloatTiles(slots, dtype, bucket, [=](auto* t, auto* b, size_t n) {
    ScaleTile(t, Factor(t, weight), b, n);
  });
}

void PackAdded(std::span<const TensorSlot> slots, DType dtype, double weight,
               void* bucket) {
  ForFloatTiles(slots, dtype, bucket, [=](auto* t, auto* b, size_t n) {
    AddScaledTile(t, Factor(t, weight), b, n);
  });
}

void Unpack(const void* bucket, std::span<const TensorSlot> slots,
            DType dtype) {
  const size_t bytes = SizeOf(dtype);
  const std::byte* from = static_cast<const std::byte*>(bucket);
  ForPieces(slots, bytes, [&](void* tensor, size_t at, size_t count) {
    std::memcpy(tensor, from + at * bytes, count * bytes);
  });
}

void UnpackScaled(const void* bucket, std::span<const TensorSlot> slots,
                  DType dtype, double factor) {
  ForFloatTiles(slots, dtype, const_cast<void*>(bucket),
                [=](auto* t, const auto* b, size_t n) {
                  ScaleTile(b, Factor(b, factor), t, n);
                });
}

void ScaleSlots(void* bucket, std::span<const TensorSlot> slots, DType dtype,
                double factor) {
  ForFloatTiles(slots, dtype, bucket, [=](auto*, auto* b, size_t n) {
    ScaleTile(b, Factor(b, factor), b, n);
  });
}

void ZeroSlots(void* bucket, std::span<const TensorSlot> slots, DType dtype) {
  const size_t bytes = SizeOf(dtype);
  std::byte* to = static_cast<std::byte*>(bucket);
  ForPieces(slots, bytes, [&](void*, size_t at, size_t count) {
    std::memset(to + at * bytes, 0, count * bytes);
  });
}

}  // namespace lockstep::kernels
