#include "kernels/row_copy.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kRows = 200;

// Ranges in ascending order with gaps, as slices of ragged tensors; some are
// empty.
std::vector<RowRange> RandomRanges(Rng& rng) {
  std::vector<RowRange> ranges;
  size_t in_row = 0;
  size_t out_row = 0;
  while (true) {
    const size_t rows = rng() % 4 == 0 ? 0 : rng() % 30;
    in_row += rng() % 3;
    out_row += rng() % 3;
    if (in_row + rows > kRows || out_row + rows > kRows) return ranges;
    ranges.push_back({in_row, out_row, rows});
    in_row += rows;
    out_row += rows;
  }
}

TEST(CopyRowsTest, CopiesEveryRangeAndNothingElse) {
  for (size_t row_bytes : {0, 1, 2, 3, 4, 7, 16, 28, 100, 4096}) {
    for (int seed = 0; seed < 8; ++seed) {
      Rng rng(seed);
      const std::vector<RowRange> ranges = RandomRanges(rng);
      const Bytes in = RandomRow<uint8_t>(rng, kRows * row_bytes);
      Bytes got(kRows * row_bytes, 0xee);
      Bytes want = got;
      for (const RowRange& range : ranges) {
        for (size_t i = 0; i < range.rows * row_bytes; ++i) {
          want[range.out_row * row_bytes + i] =
              in[range.in_row * row_bytes + i];
        }
      }
      CopyRows(ranges, in.data(), got.data(), row_bytes);
      EXPECT_TRUE(SameBits(got, want)) << row_bytes << " bytes, seed " << seed;
    }
  }
}

TEST(CopyRowsTest, RangesMayBeInAnyOrder) {
  const Bytes in = {1, 2, 3, 4, 5, 6};
  Bytes out(6, 0);
  const RowRange ranges[] = {{2, 0, 1}, {0, 2, 1}, {1, 1, 1}};
  CopyRows(ranges, in.data(), out.data(), 2);
  EXPECT_EQ(out, (Bytes{5, 6, 3, 4, 1, 2}));
}

TEST(ZeroRowsTest, ClearsEveryRangeAndNothingElse) {
  for (size_t row_bytes : {0, 1, 3, 16, 4096}) {
    for (int seed = 0; seed < 8; ++seed) {
      Rng rng(seed);
      const std::vector<RowRange> ranges = RandomRanges(rng);
      Bytes got(kRows * row_bytes, 0xee);
      Bytes want = got;
      for (const RowRange& range : ranges) {
        for (size_t i = 0; i < range.rows * row_bytes; ++i) {
          want[range.out_row * row_bytes + i] = 0;
        }
      }
      ZeroRows(ranges, got.data(), row_bytes);
      EXPECT_TRUE(SameBits(got, want)) << row_bytes << " bytes, seed " << seed;
    }
  }
}

TEST(CopyRowsTest, NoRangesAndEmptyRangesAreNoWork) {
  const RowRange empty[] = {{5, 7, 0}};
  CopyRows({}, nullptr, nullptr, 8);
  CopyRows(empty, nullptr, nullptr, 8);
  ZeroRows({}, nullptr, 8);
  ZeroRows(empty, nullptr, 8);
}

}  // namespace
}  // namespace lockstep::kernels
