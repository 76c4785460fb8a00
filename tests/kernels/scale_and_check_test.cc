// One pass gives the bits of two: Scale, then AddFiniteCheck.

#include "kernels/scale_and_check.h"

#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cast_scale.h"
#include "kernels/finite_check.h"
#include "kernels/sum_tree.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

// The total is added to.
constexpr FiniteCheck kBefore = {.sum_of_squares = 3, .non_finite = 2};

template <class T>
class ScaleAndCheckTest : public testing::Test {
 protected:
  static constexpr DType kDType = DTypeOf<T>();

  static void ExpectBitsOfTwoPasses(const std::vector<T>& row, double factor,
                                    const ElementRange& scaled,
                                    std::span<const ElementRange> checked) {
    std::vector<T> want = row;
    FiniteCheck want_total = kBefore;
    Scale(want.data() + scaled.offset, kDType, factor, scaled.count);
    AddFiniteCheck(want.data(), kDType, checked, 1.0, &want_total);

    std::vector<T> got = row;
    FiniteCheck total = kBefore;
    ScaleAndCheck(got.data(), kDType, factor, scaled, checked, &total);

    EXPECT_TRUE(SameBits(got, want)) << row.size() << " elements";
    EXPECT_EQ(RawBits(total.sum_of_squares), RawBits(want_total.sum_of_squares))
        << total.sum_of_squares << ", not " << want_total.sum_of_squares
        << ", of " << checked.size() << " ranges of " << row.size();
    EXPECT_EQ(total.non_finite, want_total.non_finite);
  }

  static void ExpectBitsOfTwoPasses(const std::vector<T>& row, double factor) {
    const ElementRange whole = {0, row.size()};
    ExpectBitsOfTwoPasses(row, factor, whole, {&whole, 1});
  }

  static std::vector<T> Gradients(Rng& rng, size_t count) {
    std::vector<T> row(count);
    for (T& value : row) {
      value = ConvertTo<T>(static_cast<double>(static_cast<int64_t>(rng())) *
                           0x1p-63);
    }
    return row;
  }
};
TYPED_TEST_SUITE(ScaleAndCheckTest, FloatTypes);

TYPED_TEST(ScaleAndCheckTest, GivesTheBitsOfTwoPassesAtEveryKindOfLength) {
  OnEveryCpu([this] {
    Rng rng(1);
    for (const size_t count :
         {size_t{0}, size_t{1}, size_t{31}, size_t{33}, size_t{1025},
          kSumRun - 1, kSumRun, kSumRun + 1, 3 * kSumRun + 77}) {
      for (const double factor : {1.0, 0.25, 1.0 / 3, 1.0 / 7}) {
        this->ExpectBitsOfTwoPasses(this->Gradients(rng, count), factor);
        this->ExpectBitsOfTwoPasses(RandomRow<TypeParam>(rng, count), factor);
      }
    }
  });
}

TYPED_TEST(ScaleAndCheckTest, ChecksRangesAtAllAlignmentsAndScalesTheRest) {
  OnEveryCpu([this] {
    Rng rng(2);
    const std::vector<TypeParam> row = this->Gradients(rng, 2 * kSumRun + 3000);
    for (size_t begin = 0; begin < 17; ++begin) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{64}, kSumRun,
                                 kSumRun + 5, 2 * kSumRun + 1}) {
        const ElementRange range = {100 + begin, count};
        this->ExpectBitsOfTwoPasses(row, 1.0 / 3, {begin, row.size() - begin},
                                    {&range, 1});
        this->ExpectBitsOfTwoPasses(row, 1.0 / 3, range, {&range, 1});
        this->ExpectBitsOfTwoPasses(
            row, 1.0 / 3, {range.offset - 1, range.count + 2}, {&range, 1});
      }
    }
  });
}

TYPED_TEST(ScaleAndCheckTest, AddsManyRangesInTheirOrder) {
  Rng rng(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<ElementRange> ranges;
    size_t next = rng() % 3;
    const size_t first = next;
    for (int i = 0; i < 50; ++i) {
      const size_t counts[] = {0, 1, 33, 500, kSumRun, kSumRun + 1};
      ranges.push_back({next, counts[rng() % 6]});
      next += ranges.back().count + rng() % 3 * (rng() % 40);
    }
    const auto row = this->Gradients(rng, next + 9);
    this->ExpectBitsOfTwoPasses(row, 1.0 / 3, {first, next - first}, ranges);
  }
}

TYPED_TEST(ScaleAndCheckTest, WithoutRangesItOnlyScales) {
  Rng rng(4);
  const auto row = RandomRow<TypeParam>(rng, 5000);
  this->ExpectBitsOfTwoPasses(row, 1.0 / 3, {1, 4998}, {});
  this->ExpectBitsOfTwoPasses(row, 1.0 / 3, {7, 0}, {});
}

template <class T>
T Largest() {
  if constexpr (std::is_same_v<T, F16>) return ConvertTo<T>(65504.0);
  if constexpr (std::is_same_v<T, BF16>) return ConvertTo<T>(0x1.fep127);
  if constexpr (!kIsHalf<T>) return std::numeric_limits<T>::max();
}

TYPED_TEST(ScaleAndCheckTest, TheCheckIsOfTheValuesAfterTheProduct) {
  std::vector<TypeParam> row(9000, ConvertTo<TypeParam>(2.0));
  const double infinity = std::numeric_limits<double>::infinity();
  row[0] = row[4096] = ConvertTo<TypeParam>(infinity);
  row[8999] = ConvertTo<TypeParam>(std::numeric_limits<double>::quiet_NaN());
  row[5] = Largest<TypeParam>();
  this->ExpectBitsOfTwoPasses(row, 0.5);
  this->ExpectBitsOfTwoPasses(row, 4);  // the largest becomes infinite

  FiniteCheck total;
  const ElementRange whole = {0, row.size()};
  ScaleAndCheck(row.data(), this->kDType, 4, whole, {&whole, 1}, &total);
  EXPECT_EQ(total.non_finite, 4u);
  EXPECT_EQ(total.sum_of_squares, 64.0 * (9000 - 4));
}

TEST(ScaleAndCheckDeathTest, RefusesRangesOutOfOrderOrOfOtherElements) {
  float row[16] = {};
  FiniteCheck total;
  const auto run = [&](std::vector<ElementRange> checked) {
    ScaleAndCheck(row, DType::kF32, 0.5, {4, 8}, checked, &total);
  };
  EXPECT_DEATH(run({{3, 2}}), "not of the scaled elements");
  EXPECT_DEATH(run({{11, 2}}), "not of the scaled elements");
  EXPECT_DEATH(run({{6, 2}, {7, 1}}), "out of order");
}

}  // namespace
}  // namespace lockstep::kernels
