#include "kernels/permute_blocks.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/copy.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/permute_blocks.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Blocks {
  const std::byte* in;
  std::byte* out;
  size_t rows;
  size_t columns;
  size_t bytes;  // of a block

  const std::byte* In(size_t row, size_t column) const {
    return in + (row * columns + column) * bytes;
  }
  std::byte* Out(size_t column, size_t row) const {
    return out + (column * rows + row) * bytes;
  }
};

// Rows [row, row_end) and columns [column, column_end) of the input.
struct Area {
  size_t row;
  size_t row_end;
  size_t column;
  size_t column_end;
};

// Writes in the order of the addresses.
template <class CopyBlock>
HWY_INLINE void CopyArea(const Blocks& blocks, const Area& area,
                         CopyBlock copy) {
  for (size_t column = area.column; column < area.column_end; ++column) {
    for (size_t row = area.row; row < area.row_end; ++row) {
      copy(blocks.Out(column, row), blocks.In(row, column));
    }
  }
}

// Calls f(area) for areas of at most side x side blocks that cover all.
template <class F>
void ForAreas(const Blocks& blocks, size_t side, F f) {
  for (size_t column = 0; column < blocks.columns; column += side) {
    const size_t column_end = std::min(column + side, blocks.columns);
    for (size_t row = 0; row < blocks.rows; row += side) {
      const size_t row_end = std::min(row + side, blocks.rows);
      f(Area{row, row_end, column, column_end});
    }
  }
}

// The blocks that fill a vector of 16 bytes: the side of a square.
template <class T>
constexpr size_t kInVector = 16 / sizeof(T);

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
template <class T>
HWY_INLINE void TransposeSquare(const Blocks& blocks, size_t row,
                                size_t column) {
  constexpr size_t kSide = kInVector<T>;
  CopyArea(blocks, {row, row + kSide, column, column + kSide},
           [](std::byte* to, const std::byte* from) {
             std::memcpy(to, from, sizeof(T));
           });
}
#else
// Transposes a square at (row, column). Each stage interleaves row i with row
// i + side / 2; after log2(side) stages the rows are the columns.
template <class T>
HWY_INLINE void TransposeSquare(const Blocks& blocks, size_t row,
                                size_t column) {
  constexpr size_t kSide = kInVector<T>;
  using Words = hn::FixedTag<T, kSide>;
  const hn::FixedTag<uint8_t, 16> bytes;
  const Words words;
  hn::Vec<Words> now[kSide];
  hn::Vec<Words> next[kSide];
  for (size_t i = 0; i < kSide; ++i) {
    const auto* from =
        reinterpret_cast<const uint8_t*>(blocks.In(row + i, column));
    now[i] = hn::BitCast(words, hn::LoadU(bytes, from));
  }
  for (size_t stage = 1; stage < kSide; stage *= 2) {
    for (size_t i = 0; i < kSide / 2; ++i) {
      next[2 * i] = hn::InterleaveLower(words, now[i], now[i + kSide / 2]);
      next[2 * i + 1] = hn::InterleaveUpper(words, now[i], now[i + kSide / 2]);
    }
    for (size_t i = 0; i < kSide; ++i) now[i] = next[i];
  }
  for (size_t i = 0; i < kSide; ++i) {
    auto* to = reinterpret_cast<uint8_t*>(blocks.Out(column + i, row));
    hn::StoreU(hn::BitCast(bytes, now[i]), bytes, to);
  }
}
#endif

// Squares, then the blocks beside them.
template <class T>
void TransposeArea(const Blocks& blocks, const Area& area) {
  constexpr size_t kSide = kInVector<T>;
  const auto copy = [](std::byte* to, const std::byte* from) {
    std::memcpy(to, from, sizeof(T));
  };
  const size_t squares_end =
      area.row + (area.row_end - area.row) / kSide * kSide;
  size_t column = area.column;
  for (; column + kSide <= area.column_end; column += kSide) {
    for (size_t row = area.row; row < squares_end; row += kSide) {
      TransposeSquare<T>(blocks, row, column);
    }
    CopyArea(blocks, {squares_end, area.row_end, column, column + kSide}, copy);
  }
  CopyArea(blocks, {area.row, area.row_end, column, area.column_end}, copy);
}

// Four lines of the cache on each side: of each matrix 16 KiB with blocks of 4
// bytes, 64 KiB with single bytes. Measured with 64 MiB, 128 and 512 bytes are
// a tenth to a quarter slower for some sizes of blocks.
template <class T>
void Transpose(const Blocks& blocks) {
  ForAreas(blocks, 256 / sizeof(T),
           [&](const Area& area) { TransposeArea<T>(blocks, area); });
}

template <class CopyBlock>
void CopyTiles(const Blocks& blocks, CopyBlock copy) {
  constexpr size_t kTileSideBytes = 1024;
  const size_t side = std::max<size_t>(1, kTileSideBytes / blocks.bytes);
  ForAreas(blocks, side,
           [&](const Area& area) { CopyArea(blocks, area, copy); });
}

template <size_t kBytes>
void CopyTilesOf(const Blocks& blocks) {
  CopyTiles(blocks, [](std::byte* to, const std::byte* from) {
    std::memcpy(to, from, kBytes);
  });
}

// A block of a page or more is copied past the caches if all blocks together
// are evicted from them anyway; shorter non-temporal stores are slower.
bool PastCaches(const Blocks& blocks) {
  constexpr size_t kPage = 4096;
  constexpr size_t kNearBytes = 1 << 20;
  return blocks.bytes >= kPage &&
         blocks.rows * blocks.columns * blocks.bytes > kNearBytes;
}

void CopyAnySize(const Blocks& blocks) {
  auto* const copy = PastCaches(blocks) ? CopyPastCaches : Copy;
  CopyTiles(blocks, [&](std::byte* to, const std::byte* from) {
    copy(to, from, blocks.bytes);
  });
}

void Permute(const std::byte* in, std::byte* out, size_t rows, size_t columns,
             size_t block_bytes) {
  const Blocks blocks = {in, out, rows, columns, block_bytes};
  switch (block_bytes) {
    case 1: return Transpose<uint8_t>(blocks);
    case 2: return Transpose<uint16_t>(blocks);
    case 4: return Transpose<uint32_t>(blocks);
    case 8: return Transpose<uint64_t>(blocks);
    case 16: return CopyTilesOf<16>(blocks);
    case 32: return CopyTilesOf<32>(blocks);
    case 64: return CopyTilesOf<64>(blocks);
    default: return CopyAnySize(blocks);
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(Permute);

void PermuteBlocks(const void* in, void* out, size_t rows, size_t columns,
                   size_t block_bytes) {
  if (rows == 0 || columns == 0 || block_bytes == 0) return;
  if (rows == 1 || columns == 1) {
    return Copy(out, in, rows * columns * block_bytes);
  }
  HWY_DYNAMIC_DISPATCH(Permute)
  (static_cast<const std::byte*>(in), static_cast<std::byte*>(out), rows,
   columns, block_bytes);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
