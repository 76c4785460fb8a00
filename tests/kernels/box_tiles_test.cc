// The threads of a device, run one after the other on the host, do what the
// host does with strided boxes.

#include "kernels/box_tiles.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/box_threads.h"
#include "kernels/divisor.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/strided_boxes.h"

namespace lockstep::kernels {
namespace {

constexpr BoxShape kTiled;
constexpr BoxShape kTiledSums = {.with_sums = true};
// Runs of several chunks, and boxes of several tiles.
constexpr BoxShape kTiledRows = {
    .dims_max = 3, .count_max = 300, .elements_max = 9000, .with_empty = false};

// Calls f(piece) for the simplified pieces of the boxes.
template <class F>
void ForPieces(const std::vector<StridedBox>& boxes, F f) {
  for (const StridedBox& box : boxes) {
    if (!IsNothing(box)) ForBoxPieces(Simplified(box), f);
  }
}

// Calls f(tile, thread) for every thread of the box's launch.
template <class F>
void ForThreads(const TiledBox& box, F f) {
  for (uint32_t tile = 0; tile < box.tiles(); ++tile) {
    for (uint32_t thread = 0; thread < kBoxThreads; ++thread) f(tile, thread);
  }
}

// Once, not in the code of every type: each contains all words or all sums.
template <class Box>
void MoveAll(const Box& box) {
  ForThreads(box, [&](uint32_t tile, uint32_t thread) {
    MoveTile(box, tile, thread);
  });
}

void SumAll(const TiledBox& box, bool add) {
  ForThreads(box, [&](uint32_t tile, uint32_t thread) {
    SumTile(box, tile, thread, add);
  });
}

template <class T>
class BoxTilesTest : public testing::Test {
 protected:
  using Case = BoxCase<T>;

  static Case Draw(int seed, const BoxShape& shape) {
    Rng rng(seed);
    return DrawBoxes<T>(rng, 1 + rng() % 3, shape);
  }

  static void ExpectCopies(int seed, const BoxShape& shape) {
    Case got = Draw(seed, shape), want = got;
    CopyBoxesRef(&want);
    ForPieces(got.boxes, [&](const StridedBox& box) {
      const TiledBox tiled =
          TileCopy(box, got.in.data(), got.out[box.out_memory].data());
      MoveAll(tiled);
    });
    ExpectSame(got, want, seed);
  }

  static void ExpectFills(int seed, const BoxShape& shape) {
    Case got = Draw(seed, shape), want = got;
    Rng rng(seed);
    const std::vector<BoxFill> fills = FillsOf(want, rng);
    FillBoxesRef(fills, &want);
    for (const BoxFill& fill : fills) {
      ForPieces({BoxOf(fill)}, [&](const StridedBox& box) {
        const TiledFill tiled =
            TileFill(box, fill.value, got.out[box.out_memory].data());
        MoveAll(tiled);
      });
    }
    ExpectSame(got, want, seed);
  }

  static void ExpectSums(int seed, const BoxShape& shape, bool add) {
    Case got = Draw(seed, shape), want = got;
    SumBoxesRef(&want, add);
    ForPieces(got.boxes, [&](const StridedBox& box) {
      const TiledBox tiled =
          TileSum(box, got.in.data(), got.out[box.out_memory].data());
      SumAll(tiled, add);
    });
    ExpectSame(got, want, seed);
  }

  static void ExpectSame(const Case& got, const Case& want, int seed) {
    for (int m = 0; m < 2; ++m) {
      EXPECT_TRUE(SameBits(got.out[m], want.out[m]))
          << "seed " << seed << ", memory " << m << Describe(got.boxes);
    }
  }
};
TYPED_TEST_SUITE(BoxTilesTest, EveryType);

TYPED_TEST(BoxTilesTest, TheThreadsCopyWhatTheReferenceCopies) {
  for (int seed = 0; seed < 60; ++seed) this->ExpectCopies(seed, kTiled);
  for (int seed = 0; seed < 30; ++seed) this->ExpectCopies(seed, kTiledRows);
}

TYPED_TEST(BoxTilesTest, TheThreadsFillWhatTheReferenceFills) {
  for (int seed = 0; seed < 60; ++seed) this->ExpectFills(seed, kTiled);
  for (int seed = 0; seed < 30; ++seed) this->ExpectFills(seed, kTiledRows);
}

TYPED_TEST(BoxTilesTest, TheThreadsSumToTheBitsOfTheReference) {
  for (int seed = 0; seed < 60; ++seed) {
    this->ExpectSums(seed, kTiledSums, seed % 2 == 0);
  }
  for (int seed = 0; seed < 10; ++seed) {
    this->ExpectSums(seed, kTiledRows, true);
  }
}

// Every pair of alignments, with runs around a chunk.
TEST(BoxTilesRowsTest, ARowHasAnyAlignmentOnBothSides) {
  for (int64_t bytes : {512, 527, 2047, 2048, 2049, 4100}) {
    Rng rng(bytes);
    for (int64_t from = 0; from < 16; ++from) {
      // The run ends where its memory does.
      const auto in =
          RandomRow<uint8_t>(rng, static_cast<size_t>(bytes + from));
      for (int64_t to = 0; to < 16; ++to) {
        std::vector<uint8_t> got(in.size() + 16, 0xee);
        std::vector<uint8_t> want = got;
        std::copy_n(in.begin() + from, bytes, want.begin() + to);
        const TiledBox tiled = TileCopy({.dtype = DType::kU8,
                                         .dims = 1,
                                         .in_offset = from,
                                         .out_offset = to,
                                         .counts = {bytes},
                                         .in_strides = {1},
                                         .out_strides = {1}},
                                        in.data(), got.data());
        ASSERT_EQ(tiled.item, TiledBox::Item::kChunks);
        MoveAll(tiled);
        EXPECT_TRUE(SameBits(got, want))
            << bytes << " bytes from " << from << " to " << to;
      }
    }
  }
}

// Words of 8 bytes where 16 are not aligned.
TEST(BoxTilesRowsTest, ComplexNumbersAreAlignedToTheirParts) {
  std::vector<double> in(101), got(104, 9);
  std::iota(in.begin(), in.end(), 0);
  std::vector<double> want = got;
  StridedBox box = {.dtype = DType::kC128,
                    .dims = 1,
                    .in_offset = 8,
                    .counts = {50},
                    .in_strides = {1},
                    .out_strides = {1}};
  std::copy_n(in.begin() + 1, 100, want.begin());
  const TiledBox copy = TileCopy(box, in.data(), got.data());
  MoveAll(copy);
  EXPECT_EQ(got, want);
  for (size_t i = 0; i < 100; ++i) want[i] += in[i + 1];
  const TiledBox sum = TileSum(box, in.data(), got.data());
  SumAll(sum, true);
  EXPECT_EQ(got, want);
  box.counts[0] = 3;
  got.assign(got.size(), 9);
  const double value[] = {4, 5};
  const TiledFill fill =
      TileFill(box, reinterpret_cast<const std::byte*>(value), got.data() + 1);
  MoveAll(fill);
  EXPECT_EQ(std::vector<double>(got.begin(), got.begin() + 8),
            (std::vector<double>{9, 4, 5, 4, 5, 4, 5, 9}));
}

// --- the choice of items ----------------------------------------------------

constexpr uintptr_t kAligned = 1 << 20;
const void* const kFrom = reinterpret_cast<const void*>(kAligned);
void* const kTo = reinterpret_cast<void*>(kAligned);

TEST(TileCopyTest, ColumnsOfTwoFloatsAreWordsOfEightBytes) {
  const TiledBox tiled = TileCopy({.dims = 2,
                                   .counts = {1024, 2},
                                   .in_strides = {1024, 1},
                                   .out_strides = {2, 1}},
                                  kFrom, kTo);
  EXPECT_EQ(tiled.item, TiledBox::Item::kWords);
  EXPECT_EQ(tiled.word_log2, 3);
  EXPECT_EQ(tiled.items, 1024);
  EXPECT_EQ(tiled.tiles(), 1);
}

TEST(TileCopyTest, RowsAreChunksWhateverTheirAlignment) {
  const TiledBox tiled = TileCopy({.dims = 2,
                                   .in_offset = 4,
                                   .counts = {3, 1000},
                                   .in_strides = {1002, 1},
                                   .out_strides = {1000, 1}},
                                  kFrom, kTo);
  EXPECT_EQ(tiled.item, TiledBox::Item::kChunks);
  EXPECT_EQ(tiled.word_log2, 2);
  EXPECT_EQ(tiled.items, 6);
}

TEST(TileSumTest, AlignedRowsAreSummedByVectors) {
  StridedBox box = {.dtype = DType::kBF16,
                    .dims = 2,
                    .counts = {64, 3},
                    .in_strides = {1, 64},
                    .out_strides = {1, 0}};
  EXPECT_TRUE(TileSum(box, kFrom, kTo).vectors);
  EXPECT_EQ(TileSum(box, kFrom, kTo).items, 8);
  EXPECT_EQ(TileSum(box, kFrom, kTo).summands, 3);
  box.in_strides[1] = 63;
  EXPECT_FALSE(TileSum(box, kFrom, kTo).vectors);
  EXPECT_EQ(TileSum(box, kFrom, kTo).items, 64);
}

TEST(ForBoxPiecesTest, ALargeBoxIsSplitWithoutGapOrOverlap) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  struct Case {
    StridedBox box;
    size_t pieces;
  };
  const Case cases[] = {
      {{.dtype = DType::kU8,
        .dims = 1,
        .counts = {5 * kGiB + 3},
        .in_strides = {1},
        .out_strides = {1}},
       6},
      {{.dims = 2,
        .counts = {3, kGiB},
        .in_strides = {kGiB, 2},
        .out_strides = {kGiB, 1}},
       12},
      {{.dims = 2,
        .counts = {kGiB, 3},
        .in_strides = {6, 1},
        .out_strides = {4, 1}},
       13},
  };
  for (const Case& c : cases) {
    int64_t bytes = 0, end = 0;
    size_t pieces = 0;
    ForBoxPieces(Simplified(c.box), [&](const StridedBox& piece) {
      int64_t elements = 1, last = 0;
      for (int d = 0; d < piece.dims; ++d) {
        elements *= piece.counts[d];
        last += (piece.counts[d] - 1) * piece.out_strides[d];
      }
      const auto size = static_cast<int64_t>(SizeOf(piece.dtype));
      EXPECT_LE(elements * size, kBoxPieceBytes);
      EXPECT_GE(piece.out_offset, end);
      end = piece.out_offset + (last + 1) * size;
      bytes += elements * size;
      ++pieces;
    });
    int64_t all = static_cast<int64_t>(SizeOf(c.box.dtype));
    for (int d = 0; d < c.box.dims; ++d) all *= c.box.counts[d];
    EXPECT_EQ(bytes, all);
    EXPECT_EQ(pieces, c.pieces);
  }
}

TEST(DivisorTest, IsExactBelowTwoToThe31) {
  constexpr uint32_t kMax = 0x7fffffff;
  Rng rng(1);
  std::vector<uint32_t> divisors = {
      1, 2, 3, 5, 7, 641, 65535, 65536, 65537, kMax - 1, kMax, kMax + 1};
  for (int i = 0; i < 1000; ++i) {
    const auto below = static_cast<uint32_t>(rng() % kMax);
    divisors.push_back(1 + (below >> rng() % 31));
  }
  for (const uint32_t d : divisors) {
    const Divisor divisor = DivisorOf(d);
    std::vector<uint32_t> numbers = {0, 1, d - 1, d, d + 1, kMax - 1, kMax};
    for (int i = 0; i < 20; ++i) {
      const auto multiple = static_cast<uint32_t>(rng() % kMax) / d * d;
      numbers.insert(numbers.end(), {multiple, multiple - 1});
    }
    for (const uint32_t n : numbers) {
      if (n > kMax) continue;
      ASSERT_EQ(divisor.Quotient(n), n / d) << n << " / " << d;
    }
  }
}

TEST(BoxTilesDeathTest, RefusesSumsOfMoreThan31Bits) {
  const StridedBox box = {
      .dims = 1, .counts = {int64_t{1} << 31}, .in_strides = {1}};
  EXPECT_DEATH(TileSum(box, kFrom, kTo), "2\\^31");
}

}  // namespace
}  // namespace lockstep::kernels
