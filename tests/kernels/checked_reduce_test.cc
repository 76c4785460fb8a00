#include "kernels/checked_reduce.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reduce.h"
#include "kernels/reduce_pairs.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin,
                             ReduceOp::kMax, ReduceOp::kProd};

template <class T>
std::vector<void*> Each(std::vector<std::vector<T>>& rows, size_t at = 0) {
  std::vector<void*> each;
  for (auto& row : rows) each.push_back(row.data() + at);
  return each;
}

template <class T>
class CheckedReduceTest : public testing::Test {
 protected:
  static constexpr DType kDType = DTypeOf<T>();

  static std::vector<std::vector<T>> Rows(uint64_t seed, size_t ranks,
                                          size_t count) {
    Rng rng(seed);
    std::vector<std::vector<T>> rows;
    for (size_t r = 0; r < ranks; ++r) {
      rows.push_back(RandomRow<T>(rng, count));
    }
    return rows;
  }

  // Reduces in place into all rows, in two parts if `cut` is not 0, and
  // compares it with a reduction followed by a check.
  static void ExpectTwoPassesIn(const std::vector<std::vector<T>>& rows,
                                ReduceOp op, size_t cut = 0) {
    std::vector<std::vector<T>> want = rows;
    const auto wanted = Each(want);
    ReduceRanksToAll({wanted.begin(), wanted.end()}, wanted, rows[0].size(),
                     kDType, op);
    SCOPED_TRACE(Name(op));
    ExpectSame(CheckedReduce(kDType, op), rows, want, cut);
  }

  // The same for a sum in pairs.
  static void ExpectTwoPassesInPairs(const std::vector<std::vector<T>>& rows,
                                     double factor, size_t cut = 0) {
    std::vector<std::vector<T>> want = rows;
    const auto wanted = Each(want);
    ReducePairsToAll({wanted.begin(), wanted.end()}, wanted, rows[0].size(),
                     kDType, factor);
    SCOPED_TRACE(factor);
    ExpectSame(CheckedReduce::InPairs(kDType, factor), rows, want, cut);
  }

 private:
  static void ExpectSame(CheckedReduce reduce, std::vector<std::vector<T>> rows,
                         const std::vector<std::vector<T>>& want, size_t cut) {
    const size_t count = rows[0].size();
    const FiniteCheck check = CheckFinite(want[0].data(), kDType, count);
    for (auto [from, n] : {std::pair(size_t{0}, cut), {cut, count - cut}}) {
      const auto piece = Each(rows, from);
      reduce.Reduce({piece.begin(), piece.end()}, piece, n);
    }
    const FiniteCheck got = reduce.Total();
    EXPECT_EQ(RawBits(got.sum_of_squares), RawBits(check.sum_of_squares))
        << rows.size() << " x " << count;
    EXPECT_EQ(got.non_finite, check.non_finite);
    for (size_t r = 0; r < rows.size(); ++r) {
      EXPECT_TRUE(SameBits(rows[r], want[r])) << "row " << r;
    }
  }
};
TYPED_TEST_SUITE(CheckedReduceTest, FloatTypes);

TYPED_TEST(CheckedReduceTest, GivesTheBitsOfTwoPassesAtEveryKindOfLength) {
  OnEveryCpu([this] {
    for (size_t ranks : {1, 2, 3, 5}) {
      for (size_t count : {size_t{0}, size_t{1}, size_t{31}, size_t{65},
                           kSumRun - 1, kSumRun, 2 * kSumRun + 77}) {
        const auto rows = this->Rows(ranks * 10000 + count, ranks, count);
        for (ReduceOp op : kOps) this->ExpectTwoPassesIn(rows, op);
      }
    }
  });
}

TYPED_TEST(CheckedReduceTest, SumsInPairsGiveTheBitsOfTwoPasses) {
  if constexpr (sizeof(TypeParam) >= sizeof(float)) {
    OnEveryCpu([this] {
      for (size_t ranks : {1, 2, 4, 8, 16}) {
        for (size_t count : {size_t{0}, size_t{1}, size_t{65}, kSumRun - 1,
                             2 * kSumRun + 77}) {
          const auto rows = this->Rows(ranks * 10000 + count, ranks, count);
          for (double factor : {1.0, 0.125}) {
            this->ExpectTwoPassesInPairs(rows, factor);
          }
          if (count < kSumRun) continue;
          this->ExpectTwoPassesInPairs(rows, 0.5, kSumRun);
        }
      }
    });
  }
}

TYPED_TEST(CheckedReduceTest, PiecesOfWholeRunsAreOneBuffer) {
  for (size_t cut : {kSumRun, 2 * kSumRun}) {
    this->ExpectTwoPassesIn(this->Rows(7, 2, 2 * kSumRun + 1234),
                            ReduceOp::kMean, cut);
  }
}

TYPED_TEST(CheckedReduceTest, NonFiniteResultsAreCountedAndLeftOutOfTheSum) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector rows(2, std::vector(2 * kSumRun, Whole<TypeParam>(1)));
  rows[0][3] = ConvertTo<TypeParam>(infinity);
  rows[1][kSumRun + 5] =
      ConvertTo<TypeParam>(std::numeric_limits<double>::quiet_NaN());
  this->ExpectTwoPassesIn(rows, ReduceOp::kSum);
  CheckedReduce reduce(this->kDType, ReduceOp::kSum);
  const auto each = Each(rows);
  reduce.Reduce({each.begin(), each.end()}, each, rows[0].size());
  const FiniteCheck check = reduce.Total();
  EXPECT_EQ(check.non_finite, 2u);
  EXPECT_EQ(check.sum_of_squares, 4.0 * (2 * kSumRun - 2));
}

}  // namespace
}  // namespace lockstep::kernels
