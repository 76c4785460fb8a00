#include "kernels/indexed_rows.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

using testing::ElementsAre;

TEST(IndexedRowsTest, AreReadAtTheirIndices) {
  for (const size_t row_bytes : {0, 1, 3, 4, 16, 1000}) {
    Rng rng(row_bytes);
    const auto in = RandomRow<uint8_t>(rng, 5 * row_bytes);
    const std::vector<int32_t> indices = {4, 0, 4, 2};
    std::vector<uint8_t> got(4 * row_bytes), want;
    for (const int32_t index : indices) {
      const auto row = in.begin() + index * static_cast<ptrdiff_t>(row_bytes);
      want.insert(want.end(), row, row + static_cast<ptrdiff_t>(row_bytes));
    }
    IndexFault fault;
    GatherRows(in.data(), 5, indices.data(), 4, got.data(), row_bytes, &fault);
    EXPECT_TRUE(SameBits(got, want)) << row_bytes << " bytes";
    EXPECT_EQ(fault.found, 0);
  }
}

TEST(IndexedRowsTest, AnIndexThatIsNoRowGivesZerosAndAFault) {
  const std::vector<uint16_t> in = {1, 2, 3};
  for (const int32_t bad : {3, -1, INT32_MIN, INT32_MAX}) {
    const std::vector<int32_t> indices = {1, bad, 0};
    std::vector<uint16_t> out(3, 9);
    IndexFault fault;
    GatherRows(in.data(), 3, indices.data(), 3, out.data(), 2, &fault);
    EXPECT_THAT(out, ElementsAre(2, 0, 1));
    EXPECT_EQ(fault.found, 1);
    EXPECT_EQ(fault.index, bad);
  }
}

// Rows without bytes have indices too.
TEST(IndexedRowsTest, EmptyRowsAreCheckedToo) {
  const std::vector<int32_t> indices = {0, 2};
  IndexFault gathered, added;
  GatherRows(nullptr, 2, indices.data(), 2, nullptr, 0, &gathered);
  AddRows(nullptr, indices.data(), 2, nullptr, 2, 0, DType::kF32, &added);
  EXPECT_EQ(gathered.index, 2);
  EXPECT_EQ(added.index, 2);
}

TEST(IndexedRowsTest, AreAddedAtTheirIndicesAndOthersIgnored) {
  const std::vector<float> in = {1, 2, 10, 20, 100, 200, 1000, 2000};
  const std::vector<int32_t> indices = {2, 0, 7, 2};
  std::vector<float> out = {0.5, 0.5, 3, 3, 0, 0};
  IndexFault fault;
  AddRows(in.data(), indices.data(), 4, out.data(), 3, 2, DType::kF32, &fault);
  EXPECT_THAT(out, ElementsAre(10.5, 20.5, 3, 3, 1001, 2002));
  EXPECT_EQ(fault.index, 7);
}

// 1 is lost in each sum with 2048, whose neighbours are 2 apart, unless the
// ones are added first.
TEST(IndexedRowsTest, AreAddedInTheOrderOfTheIndices) {
  std::vector<F16> in;
  for (const int value : {2048, 1, 1}) in.push_back(Whole<F16>(value));
  const std::vector<int32_t> indices = {0, 0, 0};
  IndexFault fault;
  std::vector<F16> large_first(1), large_last(1);
  AddRows(in.data(), indices.data(), 3, large_first.data(), 1, 1, DType::kF16,
          &fault);
  std::swap(in[0], in[2]);
  AddRows(in.data(), indices.data(), 3, large_last.data(), 1, 1, DType::kF16,
          &fault);
  EXPECT_EQ(ToF32(large_first[0]), 2048);
  EXPECT_EQ(ToF32(large_last[0]), 2050);
}

TEST(IndexedRowsDeathTest, ABoolHasNoSum) {
  IndexFault fault;
  EXPECT_DEATH(
      AddRows(nullptr, nullptr, 0, nullptr, 1, 1, DType::kBool, &fault), "");
}

}  // namespace
}  // namespace lockstep::kernels
