#include <algorithm>

#include "kernels/device/dispatch.cuh"
#include "kernels/device/permute_blocks.h"
#include "kernels/device/words.cuh"

namespace lockstep::kernels::device {
namespace {

constexpr unsigned kSide = kWarp;  // of a tile

// One column more: a warp that reads a column of the tile then accesses 32
// banks of the shared memory instead of one.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    TransposeTiles(const Word* in, Word* out, size_t rows, size_t columns,
                   size_t tiles) {
  constexpr unsigned kLines = kThreads / kSide;
  __shared__ Word tile[kSide][kSide + 1];
  const size_t tiles_across = (columns + kSide - 1) / kSide;
  const unsigned lane = threadIdx.x % kSide;
  for (size_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const size_t row = t / tiles_across * kSide;
    const size_t column = t % tiles_across * kSide;
    for (unsigned i = threadIdx.x / kSide; i < kSide; i += kLines) {
      if (row + i < rows && column + lane < columns) {
        tile[i][lane] = in[(row + i) * columns + column + lane];
      }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x / kSide; i < kSide; i += kLines) {
      if (column + i < columns && row + lane < rows) {
        out[(column + i) * rows + row + lane] = tile[lane][i];
      }
    }
    __syncthreads();
  }
}

// `Index`: 32 bits where they suffice, because they are divided several times
// as fast.
template <class Word, class Index>
__global__ void __launch_bounds__(kThreads)
    CopyWords(const Word* in, Word* out, Index rows, Index columns,
              Index block_words) {
  const Index words = rows * columns * block_words;
  const Index stride = Index{gridDim.x} * kThreads;
  for (Index i = Index{blockIdx.x} * kThreads + threadIdx.x; i < words;
       i += stride) {
    const Index block = i / block_words;
    const Index column = block / rows;
    const Index row = block - column * rows;
    const Index in_block = row * columns + column;
    out[i] = in[in_block * block_words + (i - block * block_words)];
  }
}

template <class Word>
Launched LaunchTranspose(const Word* in, Word* out, size_t rows, size_t columns,
                         Stream stream) {
  const size_t tiles =
      ((rows + kSide - 1) / kSide) * ((columns + kSide - 1) / kSide);
  const unsigned blocks = BlocksFor(std::min(tiles, kBlocksMax) * kThreads);
  return LaunchKernel(TransposeTiles<Word>, blocks, kThreads, stream, in, out,
                      rows, columns, tiles);
}

template <class Word, class Index>
Launched LaunchCopy(const Word* in, Word* out, size_t rows, size_t columns,
                    size_t block_words, Stream stream) {
  return LaunchKernel(
      CopyWords<Word, Index>, BlocksFor(rows * columns * block_words), kThreads,
      stream, in, out, static_cast<Index>(rows), static_cast<Index>(columns),
      static_cast<Index>(block_words));
}

template <class Word>
Launched Launch(const Word* in, Word* out, size_t rows, size_t columns,
                size_t block_bytes, Stream stream) {
  constexpr size_t kThin = 8;
  constexpr size_t kWordsOf32Bits = size_t{1}
                                    << 31;  // leaves room for a stride
  const size_t block_words = block_bytes / sizeof(Word);
  if (block_words == 1 && std::min(rows, columns) >= kThin) {
    return LaunchTranspose(in, out, rows, columns, stream);
  }
  if (rows * columns * block_words < kWordsOf32Bits) {
    return LaunchCopy<Word, uint32_t>(in, out, rows, columns, block_words,
                                      stream);
  }
  return LaunchCopy<Word, uint64_t>(in, out, rows, columns, block_words,
                                    stream);
}

}  // namespace

Launched PermuteBlocks(const void* in, void* out, size_t rows, size_t columns,
                       size_t block_bytes, Stream stream) {
  if (rows == 0 || columns == 0 || block_bytes == 0) return kLaunched;
  if (rows == 1 || columns == 1) {  // one block: wider words
    block_bytes *= rows * columns;
    rows = columns = 1;
  }
  const uintptr_t parts = AddressOf(in) | AddressOf(out) | block_bytes;
  return WithWord(parts, [&](auto word) {
    using Word = decltype(word);
    return Launch(static_cast<const Word*>(in), static_cast<Word*>(out), rows,
                  columns, block_bytes, stream);
  });
}

}  // namespace lockstep::kernels::device
