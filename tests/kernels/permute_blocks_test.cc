#include "kernels/permute_blocks.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

using Bytes = std::vector<uint8_t>;

// The definition, byte by byte; the output begins after `skipped` bytes.
Bytes Permuted(const uint8_t* in, size_t rows, size_t columns, size_t bytes,
               size_t skipped) {
  Bytes out(rows * columns * bytes + skipped + 7, 0xee);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      for (size_t i = 0; i < bytes; ++i) {
        out[skipped + (column * rows + row) * bytes + i] =
            in[(row * columns + column) * bytes + i];
      }
    }
  }
  return out;
}

// Compares the bytes before and after the output too.
void ExpectPermutes(size_t rows, size_t columns, size_t bytes, size_t skipped) {
  Rng rng(rows * 1000003 + columns * 1009 + bytes);
  const Bytes in = RandomRow<uint8_t>(rng, rows * columns * bytes + skipped);
  const Bytes want =
      Permuted(in.data() + skipped, rows, columns, bytes, skipped);
  OnEveryCpu([&] {
    Bytes got(want.size(), 0xee);
    PermuteBlocks(in.data() + skipped, got.data() + skipped, rows, columns,
                  bytes);
    EXPECT_TRUE(SameBits(got, want))
        << rows << " x " << columns << " blocks of " << bytes << " bytes, "
        << skipped;
  });
}

TEST(PermuteBlocksTest, SwapsTheAxesForEveryShapeAndBlock) {
  const size_t sizes[] = {0, 1, 2, 3, 8, 15, 16, 17, 33, 70};
  for (size_t bytes : {0, 1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 64, 100}) {
    for (size_t rows : sizes) {
      for (size_t columns : sizes) ExpectPermutes(rows, columns, bytes, 0);
    }
  }
}

TEST(PermuteBlocksTest, TakesAnyAlignment) {
  for (size_t bytes : {1, 2, 4, 8, 16, 32, 64, 100}) {
    for (size_t skipped : {1, 3, 8}) ExpectPermutes(37, 41, bytes, skipped);
  }
}

TEST(PermuteBlocksTest, TakesMatricesOfManyTiles) {
  ExpectPermutes(517, 1031, 1, 0);
  ExpectPermutes(517, 263, 2, 0);
  ExpectPermutes(300, 517, 4, 0);
  ExpectPermutes(261, 130, 8, 0);
  ExpectPermutes(3, 20'001, 4, 0);
  ExpectPermutes(20'001, 3, 4, 0);
  ExpectPermutes(131, 67, 24, 0);
  ExpectPermutes(131, 67, 64, 0);
}

TEST(PermuteBlocksTest, TakesBlocksOfPages) {
  for (size_t bytes : {1000, 4096, 5000}) {
    ExpectPermutes(3, 5, bytes, 0);
    ExpectPermutes(1, 6, bytes, 1);
  }
}

TEST(PermuteBlocksTest, TakesMorePagesThanFitNearTheCore) {
  ExpectPermutes(17, 19, 4096, 0);
  ExpectPermutes(17, 19, 4100, 3);
}

TEST(PermuteBlocksTest, NothingIsNoWork) {
  PermuteBlocks(nullptr, nullptr, 0, 5, 4);
  PermuteBlocks(nullptr, nullptr, 5, 0, 4);
  PermuteBlocks(nullptr, nullptr, 5, 5, 0);
}

}  // namespace
}  // namespace lockstep::kernels
