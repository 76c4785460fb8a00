// The device's copies of rows have the bytes of their host twins, and write
// nothing else.

#include "kernels/device/row_copy.h"

#include <algorithm>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/row_copy.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

using Bytes = std::vector<uint8_t>;

// Ascending ranges with gaps, some empty, and the rows that they need.
struct Scene {
  Scene(int seed, size_t range_count) {
    Rng rng(seed);
    for (size_t i = 0; i < range_count; ++i) {
      const size_t rows = rng() % 4 == 0 ? 0 : rng() % 40;
      in_rows += rng() % 3;
      out_rows += rng() % 3;
      ranges.push_back({in_rows, out_rows, rows});
      in_rows += rows;
      out_rows += rows;
    }
    ranges[0].rows = ranges.size() == 1 ? 3000 : ranges[0].rows;
    in_rows = std::max(in_rows, ranges[0].in_row + ranges[0].rows);
    out_rows = std::max(out_rows, ranges[0].out_row + ranges[0].rows) + 1;
  }
  std::vector<RowRange> ranges;
  size_t in_rows = 0;
  size_t out_rows = 0;
};

TEST(DeviceRowsTest, CopyAndZeroHaveTheBytesOfTheirHostTwins) {
  for (size_t ranges : {1, 8, 9, 300, 1500}) {
    for (size_t row_bytes : {0, 1, 2, 3, 4, 8, 16, 28, 640}) {
      for (size_t skipped : {0, 1, 8}) {
        const Scene scene(static_cast<int>(ranges + row_bytes), ranges);
        Rng rng(row_bytes);
        const Bytes in = RandomRow<uint8_t>(rng, scene.in_rows * row_bytes);
        Bytes want(scene.out_rows * row_bytes + 1, 0xee);
        const gpu::Row<uint8_t> from(in, skipped);
        const gpu::Row<uint8_t> to(want, skipped);
        CopyRows(scene.ranges, in.data(), want.data(), row_bytes);
        gpu::Require(device::CopyRows(scene.ranges, from.data(), to.data(),
                                      row_bytes, nullptr),
                     "CopyRows");
        gpu::Synchronize();
        EXPECT_TRUE(SameBits(to.Values(), want))
            << ranges << " ranges, " << row_bytes << " bytes, " << skipped;

        const std::span<const RowRange> half =
            std::span(scene.ranges).first((ranges + 1) / 2);
        ZeroRows(half, want.data(), row_bytes);
        gpu::Require(device::ZeroRows(half, to.data(), row_bytes, nullptr),
                     "ZeroRows");
        gpu::Synchronize();
        EXPECT_TRUE(SameBits(to.Values(), want))
            << "zeros: " << ranges << " ranges, " << row_bytes << " bytes";
      }
    }
  }
}

TEST(DeviceRowsTest, NoRangesAreNoWork) {
  EXPECT_EQ(device::CopyRows({}, nullptr, nullptr, 8, nullptr),
            device::kLaunched);
  EXPECT_EQ(device::ZeroRows({}, nullptr, 8, nullptr), device::kLaunched);
}

}  // namespace
}  // namespace lockstep::kernels
