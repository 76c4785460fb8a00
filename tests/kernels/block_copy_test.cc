#include "kernels/block_copy.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/block_copies.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/support/sanitizers.h"

namespace lockstep::kernels {
namespace {

TEST(CopyBlocksTest, PutsEveryBlockInItsPlaceAndWritesNothingElse) {
  for (const PlacedCopy& placed : BlockCopies()) {
    // AddressSanitizer sees what is wrong in the small ones.
    if (kUnderSanitizer && placed.in_bytes > 200'000) continue;
    const BlockCopy& c = placed.copy;
    Rng rng(c.rows * 31 + c.bytes);
    const auto in = RandomRow<uint8_t>(rng, placed.in_bytes);
    std::vector<uint8_t> got(placed.out_bytes, 0xee);
    std::vector<uint8_t> want = got;
    for (size_t row = 0; row < c.rows; ++row) {
      for (size_t column = 0; column < c.columns; ++column) {
        for (size_t i = 0; i < c.bytes; ++i) {
          want[row * c.out_row + column * c.out_column + i] =
              in[row * c.in_row + column * c.in_column + i];
        }
      }
    }
    CopyBlocks(c, in.data(), got.data());
    EXPECT_TRUE(SameBits(got, want)) << Describe(c);
  }
}

TEST(CopyBlocksTest, ABlockMayBeCopiedToItself) {
  std::vector<uint8_t> block = {1, 2, 3};
  CopyBlocks({.bytes = 3}, block.data(), block.data());
  EXPECT_EQ(block, (std::vector<uint8_t>{1, 2, 3}));
}

}  // namespace
}  // namespace lockstep::kernels
