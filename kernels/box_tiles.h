// TiledBox: a strided box as the threads of a device share it.
//
//   box      runs of bytes that are contiguous on both sides, by dimensions
//   items    words    short runs, such as columns: the widest words of 1 to 16
//                     bytes to which everything is aligned. A thread has a
//                     word; adjacent threads have adjacent words of `out`, so
//                     the words of a 32-byte sector are accessed at once, but
//                     for the first and last sector of a warp.
//            chunks   2 KiB of a run from 512 bytes: rows. A warp has a chunk;
//                     its accesses have 16 bytes, whatever the alignment.
//            outputs  of sums: an element, or the elements of 16 bytes
//   tile     the items of a block of threads
//
// A launch has the boxes of a list, whose tiles are numbered on:
//
//   tiles    [box 0: 0 1 2][box 1: 3][box 2: 4 5 ...]
//
// Numbers of items are below 2^31, so they are divided in 32 bits (divisor.h);
// a box of more than 1 GiB is split.
//
// Internal to kernels/: made on the host, read by box_threads.h.

#ifndef LOCKSTEP_KERNELS_BOX_TILES_H_
#define LOCKSTEP_KERNELS_BOX_TILES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/divisor.h"
#include "kernels/host_device.h"
#include "kernels/strided_box.h"

namespace lockstep::kernels {

inline constexpr uint32_t kBoxThreads = 256;  // of a block
inline constexpr uint32_t kBoxWarp = 32;
inline constexpr uint32_t kPerBoxThread = 4;  // words, vectors or outputs
inline constexpr uint32_t kBoxChunk = 16 * kBoxWarp * kPerBoxThread;
// Every lane of a warp has a vector of 16 bytes.
inline constexpr int64_t kBoxRowBytes = 16 * kBoxWarp;
inline constexpr int64_t kBoxPieceBytes = int64_t{1} << 30;

// Strides in bytes.
struct TileDim {
  uint32_t count;
  uint32_t multiplier;  // of the Divisor `count`
  int64_t in;
  int64_t out;
};

// Has no initialisers, so that a list of boxes on the stack costs nothing.
struct TiledBox {
  enum class Item : uint8_t { kWords, kChunks, kOutputs };

  const std::byte* in;
  std::byte* out;
  uint32_t first_tile;  // the number of the box's first tile in its launch
  uint32_t items;
  uint32_t run_bytes;  // kChunks: of the run that chunks are cut of
  uint32_t summands;   // kOutputs: of each
  Item item;
  uint8_t word_log2;  // of the bytes of a word; kChunks: of the run's
  bool vectors;       // kOutputs: an item has 16 bytes
  DType dtype;
  // Dimensions of items, then those of summands; the innermost of each first.
  uint8_t dims;
  uint8_t sum_dims;
  // The innermost dimension, the words or chunks of a run, and those of a box.
  static constexpr int kDimsMax = kBoxDimsMax + 1;
  uint8_t shifts[kDimsMax];
  TileDim dim[kDimsMax];

  uint32_t tiles() const {
    const uint32_t per_tile = item == Item::kChunks
                                  ? kBoxThreads / kBoxWarp
                                  : kBoxThreads * kPerBoxThread;
    return (items + per_tile - 1) / per_tile;
  }
};

struct TiledFill : TiledBox {
  // The element, repeated.
  alignas(16) std::byte value[16];
};

// Where an item or a summand is, in bytes from the box's first.
struct BoxPlace {
  int64_t in = 0;
  int64_t out = 0;
  uint32_t first = 0;  // index in the innermost dimension
};

// The place of an index in the dimensions [begin, end); without any, index 0.
LOCKSTEP_HD BoxPlace PlaceIn(const TiledBox& box, int begin, int end,
                             uint32_t index) {
  BoxPlace place;
  for (int d = begin; d < end; ++d) {
    const TileDim& dim = box.dim[d];
    const bool is_last = d + 1 == end;
    const uint32_t next =
        is_last ? 0 : Divisor{dim.multiplier, box.shifts[d]}.Quotient(index);
    const uint32_t here = index - next * dim.count;
    place.in += static_cast<int64_t>(here) * dim.in;
    place.out += static_cast<int64_t>(here) * dim.out;
    if (d == begin) place.first = here;
    index = next;
  }
  return place;
}

LOCKSTEP_HD BoxPlace PlaceOf(const TiledBox& box, uint32_t item) {
  return PlaceIn(box, 0, box.dims, item);
}

LOCKSTEP_HD int64_t SummandOf(const TiledBox& box, uint32_t summand) {
  return PlaceIn(box, box.dims, box.dims + box.sum_dims, summand).in;
}

// The tiles of boxes that are simplified, not empty and at most kBoxPieceBytes;
// `in` and `out` are the call's pointers that the box names.
TiledBox TileCopy(const StridedBox& box, const void* in, void* out);
TiledFill TileFill(const StridedBox& box, const std::byte* value, void* out);
// Aborts if 2^31 or more elements are added to one.
TiledBox TileSum(const StridedBox& box, const void* in, void* out);

// Calls f(piece) for simplified boxes of at most kBoxPieceBytes of `out` that
// cover `box`, which is simplified and not empty.
template <class F>
void ForBoxPieces(const StridedBox& box, const F& f) {
  const auto size = static_cast<int64_t>(SizeOf(box.dtype));
  int64_t inner = size;
  for (int d = 1; d < KeptDims(box); ++d) inner *= box.counts[d];
  if (KeptDims(box) == 0 || inner * box.counts[0] <= kBoxPieceBytes) {
    return f(box);
  }
  const int64_t step = std::max<int64_t>(1, kBoxPieceBytes / inner);
  for (int64_t at = 0; at < box.counts[0]; at += step) {
    StridedBox piece = box;
    piece.counts[0] = std::min(step, box.counts[0] - at);
    piece.in_offset += at * box.in_strides[0] * size;
    piece.out_offset += at * box.out_strides[0] * size;
    ForBoxPieces(Simplified(piece), f);
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_BOX_TILES_H_
