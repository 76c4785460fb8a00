#include <algorithm>
#include <vector>

#include "kernels/device/dispatch.cuh"
#include "kernels/device/lists.cuh"
#include "kernels/device/slices.h"
#include "kernels/device/words.cuh"

namespace lockstep::kernels::device {
namespace {

// The words that a block copies before it goes on to its next turn.
constexpr size_t kTurn = 16384;

enum class Move : int { kPack, kUnpack, kZero };

struct PackedSlice {
  size_t packed_row;
  size_t rows;
};

// `per_slice` blocks for each slice. All threads of a block take the same
// branches.
template <class Word, size_t kCapacity>
__global__ void __launch_bounds__(kThreads)
    MoveSlices(const __grid_constant__ List<PackedSlice, kCapacity> slices,
               unsigned per_slice, Move move, const int64_t* offsets,
               int64_t tensor_rows, const Word* in, Word* out,
               size_t row_words) {
  const PackedSlice slice = slices.items[blockIdx.x / per_slice];
  const int64_t offset = offsets[blockIdx.x / per_slice];
  const bool within =
      IsSliceWithin(offset, static_cast<int64_t>(slice.rows), tensor_rows);
  if (!within && move != Move::kPack) return;
  const size_t tensor_row = within ? static_cast<size_t>(offset) : 0;
  const bool packs = move == Move::kPack;
  const Word* const from =
      in + (packs ? tensor_row : slice.packed_row) * row_words;
  Word* const to = out + (packs ? slice.packed_row : tensor_row) * row_words;
  const bool copies = within && move != Move::kZero;
  const size_t words = slice.rows * row_words;
  const size_t stride = size_t{per_slice} * kThreads;
  for (size_t i = size_t{blockIdx.x % per_slice} * kThreads + threadIdx.x;
       i < words; i += stride) {
    to[i] = copies ? from[i] : Word{};
  }
}

template <class Word>
Launched Launch(std::span<const PackedSlice> slices, Move move,
                const int64_t* offsets, size_t tensor_rows, const Word* in,
                Word* out, size_t row_words, Stream stream) {
  constexpr size_t kBlocksEnough = 8192;
  size_t first = 0;
  return ForLists(slices, [&](const auto& list) {
    size_t longest = 0;
    for (const PackedSlice& slice : std::span(list.items, list.size)) {
      longest = std::max(longest, slice.rows * row_words);
    }
    const int64_t* const at = offsets + first;
    first += list.size;
    if (longest == 0) return kLaunched;
    const size_t turns = (longest + kTurn - 1) / kTurn;
    const size_t per_slice = std::min(turns, kBlocksEnough / list.size);
    return LaunchKernel(MoveSlices<Word, kItemsMaxOf<decltype(list)>>,
                        static_cast<unsigned>(per_slice * list.size), kThreads,
                        stream, list, static_cast<unsigned>(per_slice), move,
                        at, static_cast<int64_t>(tensor_rows), in, out,
                        row_words);
  });
}

Launched LaunchMove(std::span<const int64_t> sizes, Move move,
                    const int64_t* offsets, size_t tensor_rows, const void* in,
                    void* out, size_t row_bytes, Stream stream) {
  std::vector<PackedSlice> slices;
  size_t packed = 0;
  for (const int64_t size : sizes) {
    const auto rows = static_cast<size_t>(size);
    slices.push_back({packed, rows});
    packed += rows;
  }
  const uintptr_t parts = AddressOf(in) | AddressOf(out) | row_bytes;
  return WithWord(parts, [&](auto word) {
    using Word = decltype(word);
    return Launch(std::span<const PackedSlice>(slices), move, offsets,
                  tensor_rows, static_cast<const Word*>(in),
                  static_cast<Word*>(out), row_bytes / sizeof(Word), stream);
  });
}

template <size_t kCapacity>
__global__ void __launch_bounds__(kThreads)
    Store(const __grid_constant__ List<int64_t, kCapacity> list, int64_t* out) {
  for (unsigned i = threadIdx.x; i < list.size; i += kThreads) {
    out[i] = list.items[i];
  }
}

}  // namespace

Launched PackSlices(std::span<const int64_t> sizes, const int64_t* offsets,
                    const void* tensor, size_t tensor_rows, void* packed,
                    size_t row_bytes, Stream stream) {
  return LaunchMove(sizes, Move::kPack, offsets, tensor_rows, tensor, packed,
                    row_bytes, stream);
}

Launched UnpackSlices(std::span<const int64_t> sizes, const int64_t* offsets,
                      const void* packed, void* tensor, size_t tensor_rows,
                      size_t row_bytes, Stream stream) {
  return LaunchMove(sizes, Move::kUnpack, offsets, tensor_rows, packed, tensor,
                    row_bytes, stream);
}

Launched ZeroSlices(std::span<const int64_t> sizes, const int64_t* offsets,
                    void* tensor, size_t tensor_rows, size_t row_bytes,
                    Stream stream) {
  return LaunchMove(sizes, Move::kZero, offsets, tensor_rows, nullptr, tensor,
                    row_bytes, stream);
}

Launched StoreList(std::span<const int64_t> list, int64_t* out, Stream stream) {
  return ForLists(list, [&](const auto& part) {
    int64_t* const to = out;
    out += part.size;
    return LaunchKernel(Store<kItemsMaxOf<decltype(part)>>, 1, kThreads, stream,
                        part, to);
  });
}

}  // namespace lockstep::kernels::device
