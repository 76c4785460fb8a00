#include "kernels/box_tiles.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kVector = 16;

int64_t ElementBytes(const StridedBox& box) {
  return static_cast<int64_t>(SizeOf(box.dtype));
}

uint64_t AddressBits(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// The bits of all strides of the dimensions [begin, end), in bytes.
uint64_t StrideBits(const StridedBox& box, int begin, int end) {
  uint64_t bits = 0;
  for (int d = begin; d < end; ++d) {
    bits |= static_cast<uint64_t>(box.in_strides[d] * ElementBytes(box));
    bits |= static_cast<uint64_t>(box.out_strides[d] * ElementBytes(box));
  }
  return bits;
}

// Dimensions are added from the innermost one.
void AddDim(int64_t count, int64_t in, int64_t out, int at, TiledBox* tiled) {
  const auto number = static_cast<uint32_t>(count);
  const Divisor divisor = DivisorOf(number);
  tiled->dim[at] = {number, divisor.multiplier, in, out};
  tiled->shifts[at] = static_cast<uint8_t>(divisor.shift);
}

void AddItemDim(int64_t count, int64_t in, int64_t out, TiledBox* tiled) {
  AddDim(count, in, out, tiled->dims++, tiled);
  tiled->items *= static_cast<uint32_t>(count);
}

void AddItemDims(const StridedBox& box, int end, TiledBox* tiled) {
  const int64_t size = ElementBytes(box);
  for (int d = end - 1; d >= 0; --d) {
    AddItemDim(box.counts[d], box.in_strides[d] * size,
               box.out_strides[d] * size, tiled);
  }
}

void AddSummandDims(const StridedBox& box, int kept, TiledBox* tiled) {
  int64_t summands = 1;
  for (int d = box.dims - 1; d >= kept; --d) {
    Check(box.counts[d] <= std::numeric_limits<int32_t>::max() / summands,
          "a sum adds 2^31 or more elements to one");
    summands *= box.counts[d];
    AddDim(box.counts[d], box.in_strides[d] * ElementBytes(box), 0,
           tiled->dims + tiled->sum_dims++, tiled);
  }
  tiled->summands = static_cast<uint32_t>(summands);
}

TiledBox Begin(const StridedBox& box, const void* in, void* out) {
  TiledBox tiled = {};
  tiled.in = static_cast<const std::byte*>(in) + box.in_offset;
  tiled.out = static_cast<std::byte*>(out) + box.out_offset;
  tiled.items = tiled.summands = 1;
  tiled.dtype = box.dtype;
  return tiled;
}

bool IsRun(const StridedBox& box, int d) {
  return d >= 0 && box.in_strides[d] == 1 && box.out_strides[d] == 1;
}

}  // namespace

TiledBox TileCopy(const StridedBox& box, const void* in, void* out) {
  TiledBox tiled = Begin(box, in, out);
  int64_t run = ElementBytes(box);
  int outer = box.dims;
  if (IsRun(box, outer - 1)) run *= box.counts[--outer];

  const uint64_t bits = AddressBits(tiled.in) | AddressBits(tiled.out) |
                        static_cast<uint64_t>(run) | StrideBits(box, 0, outer) |
                        uint64_t{kVector};
  tiled.word_log2 = static_cast<uint8_t>(std::countr_zero(bits));
  tiled.run_bytes = static_cast<uint32_t>(run);
  if (run >= kBoxRowBytes) {
    tiled.item = TiledBox::Item::kChunks;
    AddItemDim((run + kBoxChunk - 1) / kBoxChunk, kBoxChunk, kBoxChunk, &tiled);
  } else {
    const int64_t word = int64_t{1} << tiled.word_log2;
    AddItemDim(run / word, word, word, &tiled);
  }
  AddItemDims(box, outer, &tiled);
  return tiled;
}

TiledFill TileFill(const StridedBox& box, const std::byte* value, void* out) {
  // As if it were copied to itself, so that only `out` decides.
  StridedBox self = box;
  self.in_offset = box.out_offset;
  std::copy_n(box.out_strides, kBoxDimsMax, self.in_strides);
  TiledFill fill = {TileCopy(self, out, out), {}};
  const auto size = static_cast<size_t>(ElementBytes(box));
  for (size_t at = 0; at < kVector; at += size) {
    std::memcpy(fill.value + at, value, size);
  }
  return fill;
}

TiledBox TileSum(const StridedBox& box, const void* in, void* out) {
  TiledBox tiled = Begin(box, in, out);
  tiled.item = TiledBox::Item::kOutputs;
  const int64_t size = ElementBytes(box);
  const int kept = KeptDims(box);
  int outer = kept;
  if (IsRun(box, kept - 1)) {
    const uint64_t bits = AddressBits(tiled.in) | AddressBits(tiled.out) |
                          static_cast<uint64_t>(box.counts[--outer] * size) |
                          StrideBits(box, 0, kept - 1) |
                          StrideBits(box, kept, box.dims);
    tiled.vectors = bits % kVector == 0;
    const int64_t item = tiled.vectors ? kVector : size;
    AddItemDim(box.counts[outer] * size / item, item, item, &tiled);
  }
  AddItemDims(box, outer, &tiled);
  AddSummandDims(box, kept, &tiled);
  return tiled;
}

}  // namespace lockstep::kernels
