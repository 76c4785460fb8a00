#include "kernels/finite_check.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/finite_check_ref.h"
#include "kernels/sum_tree.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class T>
class FiniteCheckTest : public testing::Test {
 protected:
  static constexpr DType kDType = DTypeOf<T>();

  static T Of(double value) { return ConvertTo<T>(value); }

  static void ExpectChecksTwins(const T* data, size_t count, double scale) {
    const FiniteCheck got = CheckFinite(data, kDType, count, scale);
    const FiniteCheck want = CheckFiniteRef(data, count, scale);
    EXPECT_EQ(RawBits(got.sum_of_squares), RawBits(want.sum_of_squares))
        << got.sum_of_squares << ", not " << want.sum_of_squares << ", for "
        << count << " elements times " << scale;
    EXPECT_EQ(got.non_finite, want.non_finite);
  }
};
TYPED_TEST_SUITE(FiniteCheckTest, FloatTypes);

TYPED_TEST(FiniteCheckTest, GivesTheBitsOfTheReferenceAtEveryKindOfLength) {
  OnEveryCpu([this] {
    Rng rng(1);
    const auto row = RandomRow<TypeParam>(rng, 3 * kSumRun + 100);
    for (size_t count :
         {size_t{0}, size_t{1}, size_t{31}, size_t{32}, size_t{33}, kSumRun - 1,
          kSumRun, kSumRun + 1, 3 * kSumRun + 77}) {
      this->ExpectChecksTwins(row.data(), count, 1.0);
      this->ExpectChecksTwins(row.data() + 1, count, 0x1p-16);
      this->ExpectChecksTwins(row.data() + 3, count, 1.0 / 3);
    }
  });
}

TYPED_TEST(FiniteCheckTest, WholeNumbersSumExactly) {
  std::vector<TypeParam> row;
  double sum = 0;
  for (int i = 0; i < 10001; ++i) {
    row.push_back(Whole<TypeParam>(i % 100));
    sum += (i % 100) * (i % 100);
  }
  const FiniteCheck check = CheckFinite(row.data(), this->kDType, row.size());
  EXPECT_EQ(check.sum_of_squares, sum);
  EXPECT_EQ(check.non_finite, 0u);
}

TYPED_TEST(FiniteCheckTest, NonFiniteElementsAreCountedAndLeftOutOfTheSum) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<TypeParam> row(9000, this->Of(2));
  for (size_t i : {0, 31, 4095, 4096, 8999}) row[i] = this->Of(-infinity);
  row[32] = this->Of(infinity);
  row[8998] = this->Of(std::numeric_limits<double>::quiet_NaN());
  OnEveryCpu([&] {
    const FiniteCheck check = CheckFinite(row.data(), this->kDType, 9000);
    EXPECT_EQ(check.non_finite, 7u);
    EXPECT_EQ(check.sum_of_squares, 4.0 * (9000 - 7));
  });
}

TYPED_TEST(FiniteCheckTest, TheInverseScaleIsAppliedBeforeTheSquare) {
  const std::vector<TypeParam> row(100, this->Of(1024));
  EXPECT_EQ(CheckFinite(row.data(), this->kDType, 100, 0x1p-10).sum_of_squares,
            100.0);
}

TEST(FiniteCheckRangeTest, TheSquareOfTheLargestF32IsFinite) {
  const float largest = std::numeric_limits<float>::max();
  const FiniteCheck check = CheckFinite(&largest, DType::kF32, 1);
  EXPECT_EQ(check.sum_of_squares, double{largest} * largest);
}

TEST(FiniteCheckRangeTest, FiniteF64ElementsMayHaveAnInfiniteSum) {
  const double large = 1e200;
  const FiniteCheck check = CheckFinite(&large, DType::kF64, 1);
  EXPECT_EQ(check.non_finite, 0u);
  EXPECT_TRUE(std::isinf(check.sum_of_squares));
}

// 2^53 + 1 is a tie that rounds to 2^53; 2^53 + 2 is exact. So two ones count
// only if they are added to each other before lane 0.
double FoldOfOnesAt(size_t a, size_t b) {
  double lanes[kSumLanes] = {0x1p53};
  lanes[a] = lanes[b] = 1;
  return SumLanes(lanes) - 0x1p53;
}

TEST(SumTreeTest, LanesMeetThoseHalfOfWhatIsLeftAway) {
  EXPECT_EQ(FoldOfOnesAt(8, 24), 2);
  EXPECT_EQ(FoldOfOnesAt(7, 15), 2);
  EXPECT_EQ(FoldOfOnesAt(1, 30), 0);
  EXPECT_EQ(FoldOfOnesAt(7, 24), 0);
  EXPECT_EQ(FoldOfOnesAt(8, 16), 0);
}

// Covers three levels of the tree.
TEST(SumTreeTest, GivesTheBitsOfTheRecursiveSentence) {
  for (size_t count : {size_t{0}, size_t{1}, size_t{40}, kSumRun, kSumRun + 1,
                       5 * kSumRun + 9, kSumRun * kSumRun + 3}) {
    std::vector<double> leaves(count);
    for (size_t i = 0; i < count; ++i) leaves[i] = 0.1 * (i * 40503 % 65536);
    SumTree tree;
    for (double leaf : leaves) tree.Add(leaf);
    EXPECT_EQ(RawBits(tree.Total()), RawBits(SumTreeRef(leaves))) << count;
  }
}

TYPED_TEST(FiniteCheckTest, RangesAreAddedOneAfterTheOther) {
  Rng rng(5);
  const auto row = RandomRow<TypeParam>(rng, 3 * kSumRun);
  const ElementRange ranges[] = {
      {0, 7}, {7, 0}, {9, kSumRun + 1}, {2 * kSumRun, kSumRun}};
  FiniteCheck want{.sum_of_squares = 3, .non_finite = 2};
  for (const ElementRange& range : ranges) {
    const FiniteCheck one =
        CheckFinite(row.data() + range.offset, this->kDType, range.count, 0.5);
    want.sum_of_squares += one.sum_of_squares;
    want.non_finite += one.non_finite;
  }
  FiniteCheck got{.sum_of_squares = 3, .non_finite = 2};
  AddFiniteCheck(row.data(), this->kDType, ranges, 0.5, &got);
  EXPECT_EQ(RawBits(got.sum_of_squares), RawBits(want.sum_of_squares));
  EXPECT_EQ(got.non_finite, want.non_finite);
  EXPECT_EQ(FiniteCheckScratchBytes(ranges), (1 + 2 + 1) * sizeof(double));
}

}  // namespace
}  // namespace lockstep::kernels
