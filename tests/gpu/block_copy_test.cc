// The device's copies of blocks have the bytes of their host twin, and write
// nothing else.

#include "kernels/device/block_copy.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/gpu/device.h"
#include "tests/kernels/block_copies.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

TEST(DeviceCopyBlocksTest, HasTheBytesOfItsHostTwin) {
  for (const PlacedCopy& placed : BlockCopies()) {
    for (const size_t skipped : {0, 1, 4, 16}) {
      Rng rng(placed.in_bytes);
      const auto in = RandomRow<uint8_t>(rng, placed.in_bytes);
      std::vector<uint8_t> want(placed.out_bytes, 0xee);
      const gpu::Row<uint8_t> from(in, skipped);
      const gpu::Row<uint8_t> to(want, skipped);
      CopyBlocks(placed.copy, in.data(), want.data());
      gpu::Require(
          device::CopyBlocks(placed.copy, from.data(), to.data(), nullptr),
          "CopyBlocks");
      gpu::Synchronize();
      EXPECT_TRUE(SameBits(to.Values(), want))
          << Describe(placed.copy) << ", " << skipped << " skipped";
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
