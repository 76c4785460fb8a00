#include <algorithm>

#include "kernels/device/block_copy.h"
#include "kernels/device/lanes.cuh"
#include "kernels/device/permute_blocks.h"
#include "kernels/device/words.cuh"

namespace lockstep::kernels::device {
namespace {

// Divided in 32 bits where they suffice, which is several times as fast. All
// threads take the same branch.
__device__ __forceinline__ size_t Quotient(size_t a, size_t b) {
  if (((a | b) >> 32) != 0) return a / b;
  return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
}

// All numbers of `copy` are words.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    CopyBlockWords(const Word* in, Word* out,
                   const __grid_constant__ BlockCopy copy,
                   unsigned lanes_log2) {
  ForRanges(
      copy.rows * copy.columns, lanes_log2, [&](size_t block, unsigned lane) {
        const size_t column = Quotient(block, copy.rows);
        const size_t row = block - column * copy.rows;
        const Word* const from =
            in + row * copy.in_row + column * copy.in_column;
        Word* const to = out + row * copy.out_row + column * copy.out_column;
        for (size_t i = lane; i < copy.bytes; i += 1u << lanes_log2) {
          to[i] = from[i];
        }
      });
}

template <class Word>
Launched Launch(BlockCopy c, const Word* in, Word* out, Stream stream) {
  for (size_t* bytes :
       {&c.bytes, &c.in_row, &c.in_column, &c.out_row, &c.out_column}) {
    *bytes /= sizeof(Word);
  }
  const unsigned lanes_log2 = LanesLog2(c.bytes);
  return LaunchKernel(CopyBlockWords<Word>,
                      BlocksForRanges(c.rows * c.columns, lanes_log2), kThreads,
                      stream, in, out, c, lanes_log2);
}

// One word for each block, and tiles large enough for PermuteBlocks to use
// them.
bool IsTransposeOfWords(const AxisSwap& swap, const void* in, const void* out,
                        size_t bytes) {
  constexpr size_t kTilesFrom = 8;
  const bool word = bytes <= 16 && (bytes & (bytes - 1)) == 0;
  const bool aligned = ((AddressOf(in) | AddressOf(out)) & (bytes - 1)) == 0;
  return word && aligned && std::min(swap.rows, swap.columns) >= kTilesFrom;
}

// One block of `bytes` as many, which all threads of the device copy.
BlockCopy Divided(size_t bytes) {
  constexpr size_t kPart = 16 * kThreads;
  if (bytes % kPart != 0) return {.bytes = bytes};
  return {
      .rows = bytes / kPart, .bytes = kPart, .in_row = kPart, .out_row = kPart};
}

}  // namespace

Launched CopyBlocks(const BlockCopy& copy, const void* in, void* out,
                    Stream stream) {
  if (copy.is_empty() || (copy.is_one() && in == out)) return kLaunched;
  const AxisSwap swap = SwapOf(copy);
  if (IsTransposeOfWords(swap, in, out, copy.bytes)) {
    return PermuteBlocks(in, out, swap.rows, swap.columns, copy.bytes, stream);
  }
  const BlockCopy c = copy.is_one() ? Divided(copy.bytes) : copy;
  uintptr_t parts = AddressOf(in) | AddressOf(out) | c.bytes;
  if (c.rows > 1) parts |= c.in_row | c.out_row;
  if (c.columns > 1) parts |= c.in_column | c.out_column;
  return WithWord(parts, [&](auto word) {
    using Word = decltype(word);
    return Launch(c, static_cast<const Word*>(in), static_cast<Word*>(out),
                  stream);
  });
}

}  // namespace lockstep::kernels::device
