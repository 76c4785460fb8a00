// The device's ScaleAndCheck is bit-equal to its host twin, for any ranges.

#include "kernels/device/scale_and_check.h"

#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/finite_check.h"
#include "kernels/scale_and_check.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

// Both add to previous results.
constexpr FiniteCheck kBefore = {.sum_of_squares = 3, .non_finite = 2};

template <class T>
void ExpectTwins(const std::vector<T>& row, const ElementRange& scaled,
                 std::span<const ElementRange> checked, size_t skipped) {
  constexpr double kFactor = 1.0 / 3;
  std::vector<T> want = row;
  FiniteCheck want_total = kBefore;
  ScaleAndCheck(want.data(), DTypeOf<T>(), kFactor, scaled, checked,
                &want_total);
  const gpu::Row<T> data(row, skipped);
  const gpu::Memory scratch(FiniteCheckScratchBytes(checked) + 8);
  gpu::Memory total(sizeof(FiniteCheck));
  total.Write(&kBefore, sizeof kBefore);
  gpu::Require(
      device::ScaleAndCheck(
          data.data(), DTypeOf<T>(), kFactor, scaled, checked, scratch.data(),
          reinterpret_cast<FiniteCheck*>(total.data()), nullptr),
      "ScaleAndCheck");
  gpu::Synchronize();
  FiniteCheck got;
  total.Read(&got, sizeof got);
  EXPECT_EQ(got.non_finite, want_total.non_finite) << row.size() << " elements";
  EXPECT_EQ(RawBits(got.sum_of_squares), RawBits(want_total.sum_of_squares))
      << checked.size() << " ranges of " << row.size() << " elements, "
      << skipped << " skipped";
  EXPECT_TRUE(SameBits(data.Values(), want)) << row.size() << " elements";
}

template <class T>
class DeviceScaleAndCheckTest : public testing::Test {};
TYPED_TEST_SUITE(DeviceScaleAndCheckTest, FloatTypes);

TYPED_TEST(DeviceScaleAndCheckTest, GivesTheBitsOfItsHostTwin) {
  Rng rng(7);
  for (const size_t count : {0, 1, 31, 33, 4095, 4096, 4097, 50'000}) {
    for (const size_t skipped : {0, 1}) {
      const ElementRange whole = {0, count};
      ExpectTwins(RandomRow<TypeParam>(rng, count), whole, {&whole, 1},
                  skipped);
    }
  }
}

// A range as the ranks of a group have it, at all alignments.
TYPED_TEST(DeviceScaleAndCheckTest, ScalesWhatIsBesideTheRange) {
  Rng rng(8);
  const auto row = RandomRow<TypeParam>(rng, 60'000);
  for (size_t begin = 0; begin < 9; ++begin) {
    const ElementRange range = {20'000 + begin, 20'000};
    ExpectTwins(row, {begin, row.size() - begin}, {&range, 1}, 0);
    ExpectTwins<TypeParam>(row, {begin, row.size() - begin}, {}, 0);
  }
}

// Few, many, and more ranges than one launch takes; with empty ones.
TYPED_TEST(DeviceScaleAndCheckTest, AddsRangesInOrder) {
  Rng rng(9);
  for (const size_t ranges : {2, 8, 9, 1024, 2500}) {
    std::vector<ElementRange> list;
    size_t offset = 0;
    for (size_t i = 0; i < ranges; ++i) {
      const size_t counts[] = {0, 1, 33, 4096, 4097, 20'000};
      list.push_back({offset, counts[rng() % (ranges > 100 ? 3 : 6)]});
      offset += list.back().count + rng() % 3;
    }
    ExpectTwins(RandomRow<TypeParam>(rng, offset + 5), {0, offset + 5}, list,
                1);
  }
}

}  // namespace
}  // namespace lockstep::kernels
