// The device's permutation of blocks has the bytes of its host twin, for every
// word, shape and alignment.

#include "kernels/device/permute_blocks.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/permute_blocks.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

using Bytes = std::vector<uint8_t>;

void ExpectTwins(size_t rows, size_t columns, size_t bytes, size_t skipped) {
  Rng rng(rows * 1000003 + columns * 1009 + bytes);
  const Bytes in = RandomRow<uint8_t>(rng, rows * columns * bytes);
  Bytes want(in.size() + 7, 0xee);  // the last 7 stay as they are
  const gpu::Row<uint8_t> from(in, skipped);
  const gpu::Row<uint8_t> to(want, skipped);
  PermuteBlocks(in.data(), want.data(), rows, columns, bytes);
  gpu::Require(device::PermuteBlocks(from.data(), to.data(), rows, columns,
                                     bytes, nullptr),
               "PermuteBlocks");
  gpu::Synchronize();
  EXPECT_TRUE(SameBits(to.Values(), want))
      << rows << " x " << columns << " blocks of " << bytes << " bytes, "
      << skipped << " skipped";
}

TEST(DevicePermuteBlocksTest, HasTheBytesOfItsHostTwin) {
  const size_t sizes[] = {0, 1, 2, 7, 8, 31, 32, 33, 130};
  for (size_t bytes : {0, 1, 2, 3, 4, 8, 12, 16, 48, 64, 4096}) {
    for (size_t rows : sizes) {
      for (size_t columns : sizes) ExpectTwins(rows, columns, bytes, 0);
    }
  }
}

TEST(DevicePermuteBlocksTest, TakesAnyAlignment) {
  for (size_t bytes : {1, 2, 4, 8, 16, 64, 100}) {
    for (size_t skipped : {1, 2, 4, 8}) ExpectTwins(37, 41, bytes, skipped);
  }
}

TEST(DevicePermuteBlocksTest, TakesMoreTilesThanBlocksOfAGrid) {
  ExpectTwins(4099, 2053, 1, 0);
  ExpectTwins(2, 5'000'001, 4, 0);
}

}  // namespace
}  // namespace lockstep::kernels
