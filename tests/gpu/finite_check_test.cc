// The device's finite check is bit-equal to its host reference, for any length.

#include "kernels/device/finite_check.h"

#include <limits>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/finite_check.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

// Both add to previous results.
constexpr FiniteCheck kBefore = {.sum_of_squares = 3, .non_finite = 2};

template <class T>
void ExpectTwins(const std::vector<T>& row,
                 std::span<const ElementRange> ranges, size_t skipped,
                 double scale) {
  FiniteCheck want = kBefore;
  AddFiniteCheck(row.data(), DTypeOf<T>(), ranges, scale, &want);
  const gpu::Row<T> data(row, skipped);
  const gpu::Memory scratch(FiniteCheckScratchBytes(ranges) + 8);
  gpu::Memory total(sizeof(FiniteCheck));
  total.Write(&kBefore, sizeof kBefore);
  gpu::Require(device::AddFiniteCheck(
                   data.data(), DTypeOf<T>(), ranges, scale, scratch.data(),
                   reinterpret_cast<FiniteCheck*>(total.data()), nullptr),
               "AddFiniteCheck");
  gpu::Synchronize();
  FiniteCheck got;
  total.Read(&got, sizeof got);
  EXPECT_EQ(got.non_finite, want.non_finite) << row.size() << " elements";
  EXPECT_EQ(RawBits(got.sum_of_squares), RawBits(want.sum_of_squares))
      << ranges.size() << " ranges of " << row.size() << " elements, "
      << skipped << " skipped";
}

template <class T>
void ExpectTwins(const std::vector<T>& row, size_t skipped, double scale) {
  const ElementRange whole[] = {{0, row.size()}};
  ExpectTwins<T>(row, whole, skipped, scale);
}

template <class T>
class DeviceFiniteCheckTest : public testing::Test {};
TYPED_TEST_SUITE(DeviceFiniteCheckTest, FloatTypes);

TYPED_TEST(DeviceFiniteCheckTest, GivesTheBitsOfItsHostTwin) {
  Rng rng(7);
  for (const size_t count :
       {0, 1, 31, 33, 4095, 4096, 4097, 50'000, 4096 * 4096 + 5}) {
    for (const size_t skipped : {0, 1}) {
      std::vector<TypeParam> row(count);
      for (TypeParam& value : row) {
        value = ConvertTo<TypeParam>(
            static_cast<double>(static_cast<int64_t>(rng())) * 0x1p-63);
      }
      ExpectTwins(row, skipped, 1.0 / 3);
    }
  }
}

TYPED_TEST(DeviceFiniteCheckTest, CountsWhatIsNotFiniteAndLeavesItOut) {
  Rng rng(8);
  ExpectTwins(RandomRow<TypeParam>(rng, 70'000), 0, 1.0);
  std::vector<TypeParam> row(9000, Whole<TypeParam>(2));
  row[0] = ConvertTo<TypeParam>(std::numeric_limits<double>::infinity());
  row[4096] = ConvertTo<TypeParam>(std::numeric_limits<double>::quiet_NaN());
  row[8999] = ConvertTo<TypeParam>(-std::numeric_limits<double>::infinity());
  ExpectTwins(row, 0, 0.5);
}

// Few, many, and more ranges than one launch takes; with empty ones.
TYPED_TEST(DeviceFiniteCheckTest, AddsRangesInOrder) {
  Rng rng(9);
  for (const size_t ranges : {2, 8, 9, 1024, 2500}) {
    std::vector<ElementRange> list;
    size_t offset = 0;
    for (size_t i = 0; i < ranges; ++i) {
      const size_t counts[] = {0, 1, 33, 4096, 4097, 20'000};
      list.push_back({offset, counts[rng() % (ranges > 100 ? 3 : 6)]});
      offset += list.back().count + rng() % 3;
    }
    ExpectTwins<TypeParam>(RandomRow<TypeParam>(rng, offset), list, 1, 0.5);
  }
  const ElementRange none[] = {{0, 0}, {5, 0}};
  ExpectTwins<TypeParam>(RandomRow<TypeParam>(rng, 5), none, 0, 1);
}

}  // namespace
}  // namespace lockstep::kernels
