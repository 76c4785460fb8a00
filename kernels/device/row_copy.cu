#include <algorithm>

#include "kernels/device/row_copy.h"
#include "kernels/device/slots.cuh"
#include "kernels/device/words.cuh"

namespace lockstep::kernels::device {
namespace {

// The words that a block copies before it goes on to its next turn.
template <class Word>
constexpr size_t kTurn = (64 << 10) / sizeof(Word);

// `per_range` blocks for each range.
template <class Word, class Element, size_t kCapacity>
__global__ void __launch_bounds__(kThreads)
    OnRows(const __grid_constant__ List<RowRange, kCapacity> ranges,
           unsigned per_range, Word* in, Word* out, size_t row_words) {
  const RowRange range = ranges.items[blockIdx.x / per_range];
  const size_t words = range.rows * row_words;
  Word* const to = out + range.out_row * row_words;
  Word* const from = Element::kReadsTensor ? in + range.in_row * row_words : to;
  for (size_t at = blockIdx.x % per_range * kTurn<Word>; at < words;
       at += per_range * kTurn<Word>) {
    const size_t rest = words - at;
    ForPiece(from + at, to + at, rest < kTurn<Word> ? rest : kTurn<Word>,
             OnPairs<Word, Element>{});
  }
}

template <class Word, class Element>
Launched LaunchOnRows(std::span<const RowRange> ranges, Word* in, Word* out,
                      size_t row_bytes, Stream stream) {
  constexpr size_t kBlocksEnough = 8192;
  const size_t row_words = row_bytes / sizeof(Word);
  return ForLists(ranges, [&](const auto& list) {
    size_t longest = 0;
    for (const RowRange& range : std::span(list.items, list.size)) {
      longest = std::max(longest, range.rows * row_words);
    }
    if (longest == 0) return kLaunched;
    const size_t turns = (longest + kTurn<Word> - 1) / kTurn<Word>;
    const size_t per_range = std::min(turns, kBlocksEnough / list.size);
    return LaunchKernel(OnRows<Word, Element, kItemsMaxOf<decltype(list)>>,
                        static_cast<unsigned>(per_range * list.size), kThreads,
                        stream, list, static_cast<unsigned>(per_range), in, out,
                        row_words);
  });
}

template <template <class> class Element>
Launched LaunchWords(std::span<const RowRange> ranges, const void* in,
                     void* out, size_t row_bytes, Stream stream) {
  const uintptr_t parts = AddressOf(in) | AddressOf(out) | row_bytes;
  return WithWord(parts, [&](auto word) {
    using Word = decltype(word);
    return LaunchOnRows<Word, Element<Word>>(
        ranges, static_cast<Word*>(const_cast<void*>(in)),
        static_cast<Word*>(out), row_bytes, stream);
  });
}

}  // namespace

Launched CopyRows(std::span<const RowRange> ranges, const void* in, void* out,
                  size_t row_bytes, Stream stream) {
  return LaunchWords<CopyIn>(ranges, in, out, row_bytes, stream);
}

Launched ZeroRows(std::span<const RowRange> ranges, void* out, size_t row_bytes,
                  Stream stream) {
  return LaunchWords<Clear>(ranges, nullptr, out, row_bytes, stream);
}

}  // namespace lockstep::kernels::device
