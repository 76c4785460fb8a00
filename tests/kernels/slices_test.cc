#include "kernels/slices.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::kernels {
namespace {

using testing::ElementsAre;

constexpr int64_t kSliceRows[] = {2, 1, 0, 1};
// The last slice is outside of the tensor, the empty one at its end.
constexpr int64_t kSliceOffsets[] = {1, 0, 4, 4};

TEST(SlicesTest, ArePackedOneAfterTheOtherAndZerosIfOutside) {
  const std::vector<uint16_t> tensor = {10, 11, 12, 13};
  std::vector<uint16_t> packed(4, 9);
  PackSlices(kSliceRows, kSliceOffsets, tensor.data(), 4, packed.data(), 2);
  EXPECT_THAT(packed, ElementsAre(11, 12, 10, 0));
}

TEST(SlicesTest, AreUnpackedToTheirOffsetsAndIgnoredIfOutside) {
  const std::vector<uint16_t> packed = {1, 2, 3, 4};
  std::vector<uint16_t> tensor(4, 9);
  UnpackSlices(kSliceRows, kSliceOffsets, packed.data(), tensor.data(), 4, 2);
  EXPECT_THAT(tensor, ElementsAre(3, 1, 2, 9));
}

TEST(SlicesTest, AreZeroedAndNothingElse) {
  std::vector<uint16_t> tensor(4, 9);
  ZeroSlices(kSliceRows, kSliceOffsets, tensor.data(), 4, 2);
  EXPECT_THAT(tensor, ElementsAre(0, 0, 0, 9));
}

TEST(SlicesTest, ASliceIsWithinItsTensorOrNot) {
  EXPECT_TRUE(IsSliceWithin(0, 0, 0));
  EXPECT_TRUE(IsSliceWithin(3, 1, 4));
  EXPECT_FALSE(IsSliceWithin(3, 2, 4));
  EXPECT_FALSE(IsSliceWithin(-1, 1, 4));
  EXPECT_FALSE(IsSliceWithin(5, 0, 4));
  EXPECT_FALSE(IsSliceWithin(INT64_MAX, INT64_MAX, 4));
  EXPECT_FALSE(IsSliceWithin(INT64_MIN, 1, 4));
}

}  // namespace
}  // namespace lockstep::kernels
