#include "kernels/reduce.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reduce_ref.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

constexpr ReduceOp kFolds[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                               ReduceOp::kProd};

template <class T>
struct Ranks {
  Ranks(uint64_t seed, size_t ranks, size_t count) {
    Rng rng(seed);
    for (size_t r = 0; r < ranks; ++r) {
      rows.push_back(RandomRow<T>(rng, count));
    }
  }
  std::vector<const void*> untyped() const {
    const std::vector<const T*> typed = pointers();
    return {typed.begin(), typed.end()};
  }
  std::vector<const T*> pointers() const {
    std::vector<const T*> pointers;
    for (const auto& row : rows) pointers.push_back(row.data());
    return pointers;
  }
  std::vector<std::vector<T>> rows;
};

template <class T>
class ReduceTest : public testing::Test {
 protected:
  static constexpr DType kDType = DTypeOf<T>();

  static std::vector<ReduceOp> Ops() {
    std::vector<ReduceOp> ops(std::begin(kFolds), std::end(kFolds));
    if (kIsFloat<T>) ops.push_back(ReduceOp::kMean);
    return ops;
  }

  static std::vector<T> Want(const Ranks<T>& ranks, ReduceOp op) {
    std::vector<T> want(ranks.rows[0].size());
    ReduceRanksRef<T>(ranks.pointers(), want.data(), want.size(), op);
    return want;
  }
};
TYPED_TEST_SUITE(ReduceTest, AllTypes);

TYPED_TEST(ReduceTest, GivesTheBitsOfTheReferenceForEveryOpAndRankCount) {
  OnEveryCpu([this] {
    for (size_t ranks : {1, 2, 3, 5}) {
      for (size_t count : {0, 1, 31, 1023, 1025, 3000}) {
        const Ranks<TypeParam> in(ranks * 10000 + count, ranks, count);
        for (ReduceOp op : this->Ops()) {
          std::vector<TypeParam> got(count);
          ReduceRanks(in.untyped(), got.data(), count, this->kDType, op);
          EXPECT_TRUE(SameBits(got, this->Want(in, op)))
              << Name(op) << " of " << ranks << " ranks, seed "
              << ranks * 10000 + count;
        }
      }
    }
  });
}

TYPED_TEST(ReduceTest, TheOutputMayBeAnyRanksInput) {
  for (size_t target = 0; target < 3; ++target) {
    for (ReduceOp op : this->Ops()) {
      Ranks<TypeParam> in(target, 3, 2500);
      const std::vector<TypeParam> want = this->Want(in, op);
      ReduceRanks(in.untyped(), in.rows[target].data(), 2500, this->kDType, op);
      EXPECT_TRUE(SameBits(in.rows[target], want))
          << Name(op) << " into rank " << target;
    }
  }
}

TYPED_TEST(ReduceTest, ARowMayBeCutAnywhere) {
  const size_t count = 4000;
  const size_t cut = 1237;
  const Ranks<TypeParam> in(5, 3, count);
  std::vector<const void*> tails;
  for (const TypeParam* row : in.pointers()) tails.push_back(row + cut);
  for (ReduceOp op : this->Ops()) {
    std::vector<TypeParam> got(count);
    ReduceRanks(in.untyped(), got.data(), cut, this->kDType, op);
    ReduceRanks(tails, got.data() + cut, count - cut, this->kDType, op);
    EXPECT_TRUE(SameBits(got, this->Want(in, op))) << Name(op);
  }
}

TYPED_TEST(ReduceTest, TheResultGoesToAllRowsInPlaceOrElsewhere) {
  for (size_t ranks : {1, 2, 3, 5}) {
    for (ReduceOp op : this->Ops()) {
      Ranks<TypeParam> in(6, ranks, 2501);
      const std::vector<TypeParam> want = this->Want(in, op);
      std::vector<TypeParam> elsewhere(2501);
      std::vector<void*> outs;
      for (auto& row : in.rows) outs.push_back(row.data());
      if (ranks != 2) outs.push_back(elsewhere.data());
      ReduceRanksToAll(in.untyped(), outs, 2501, this->kDType, op);
      for (const auto& row : in.rows) {
        EXPECT_TRUE(SameBits(row, want)) << Name(op) << " of " << ranks;
      }
      if (ranks != 2) {
        EXPECT_TRUE(SameBits(elsewhere, want)) << Name(op);
      }
    }
  }
}

TYPED_TEST(ReduceTest, TwoRowsReduceIntoTheFirst) {
  for (ReduceOp op : this->Ops()) {
    Ranks<TypeParam> in(3, 2, 1500);
    const std::vector<TypeParam> want = this->Want(in, op);
    Reduce(in.rows[0].data(), in.rows[1].data(), 1500, this->kDType, op);
    EXPECT_TRUE(SameBits(in.rows[0], want)) << Name(op);
  }
}

TYPED_TEST(ReduceTest, WholeNumbersReduceExactly) {
  Ranks<TypeParam> in(0, 3, 0);
  const int values[] = {5, 2, 8};
  for (size_t r = 0; r < 3; ++r) {
    in.rows[r].assign(100, Whole<TypeParam>(values[r]));
  }
  const std::pair<ReduceOp, int> cases[] = {{ReduceOp::kSum, 15},
                                            {ReduceOp::kMin, 2},
                                            {ReduceOp::kMax, 8},
                                            {ReduceOp::kProd, 80}};
  for (const auto& [op, value] : cases) {
    std::vector<TypeParam> got(100);
    ReduceRanks(in.untyped(), got.data(), 100, this->kDType, op);
    EXPECT_TRUE(
        SameBits(got, std::vector<TypeParam>(100, Whole<TypeParam>(value))))
        << Name(op);
  }
}

template <class T>
class FloatReduceTest : public testing::Test {
 protected:
  static T Reduced(const std::vector<T>& ranks, ReduceOp op) {
    std::vector<const void*> inputs;
    for (const T& value : ranks) inputs.push_back(&value);
    T out;
    ReduceRanks(inputs, &out, 1, DTypeOf<T>(), op);
    return out;
  }
};
TYPED_TEST_SUITE(FloatReduceTest, FloatTypes);

TYPED_TEST(FloatReduceTest, OneNaNAnywhereIsTheAnswer) {
  const TypeParam one = Whole<TypeParam>(1);
  const TypeParam nan =
      ConvertTo<TypeParam>(std::numeric_limits<double>::quiet_NaN());
  OnEveryCpu([&] {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin,
                        ReduceOp::kMax, ReduceOp::kProd}) {
      for (size_t who = 0; who < 3; ++who) {
        std::vector<TypeParam> ranks(3, one);
        ranks[who] = nan;
        EXPECT_TRUE(IsNaN(this->Reduced(ranks, op)))
            << Name(op) << " lost the NaN of rank " << who;
      }
    }
  });
}

TYPED_TEST(FloatReduceTest, TheMeanIsTheSumTimesOneReciprocal) {
  const std::vector<TypeParam> ranks = {
      Whole<TypeParam>(1), Whole<TypeParam>(2), Whole<TypeParam>(4)};
  using C = Compute<TypeParam>;
  EXPECT_EQ(RawBits(this->Reduced(ranks, ReduceOp::kMean)),
            RawBits(ConvertTo<TypeParam>(C{7} * (C{1} / C{3}))));
}

TEST(ReduceRanksTest, HalvesAreRoundedOnceAfterAllRanks) {
  // In bf16, 256 + 1 is a tie that rounds to 256; 256 + 1 + 1 is exact.
  BF16 large = ToBF16(256);
  const BF16 one = ToBF16(1);
  const void* ranks[] = {&large, &one, &one};
  BF16 once = {};
  ReduceRanks(ranks, &once, 1, DType::kBF16, ReduceOp::kSum);
  EXPECT_EQ(ToF32(once), 258.0f);

  Reduce(&large, &one, 1, DType::kBF16, ReduceOp::kSum);
  Reduce(&large, &one, 1, DType::kBF16, ReduceOp::kSum);
  EXPECT_EQ(ToF32(large), 256.0f);
}

template <class T>
void ExpectWraps(ReduceOp op, T a, T b, T want) {
  Reduce(&a, &b, 1, DTypeOf<T>(), op);
  EXPECT_EQ(a, want) << Name(op) << " of " << Name(DTypeOf<T>());
}

TEST(ReduceRanksTest, IntegersWrap) {
  using i32 = std::numeric_limits<int32_t>;
  using i64 = std::numeric_limits<int64_t>;
  ExpectWraps<uint8_t>(ReduceOp::kSum, 255, 2, 1);
  ExpectWraps<uint8_t>(ReduceOp::kProd, 16, 17, 16);
  ExpectWraps<int8_t>(ReduceOp::kSum, 127, 1, -128);
  ExpectWraps<int8_t>(ReduceOp::kProd, -128, -1, -128);
  ExpectWraps<int32_t>(ReduceOp::kSum, i32::max(), 1, i32::min());
  ExpectWraps<int32_t>(ReduceOp::kProd, i32::min(), -1, i32::min());
  ExpectWraps<uint32_t>(ReduceOp::kProd, 1u << 31, 3, 1u << 31);
  ExpectWraps<int64_t>(ReduceOp::kSum, i64::max(), 1, i64::min());
  ExpectWraps<int64_t>(ReduceOp::kProd, i64::min(), -1, i64::min());
  ExpectWraps<uint64_t>(ReduceOp::kSum, ~uint64_t{0}, 2, 1);
}

TEST(ReduceRanksDeathTest, RefusesTheMeanOfIntegersAndNoRanks) {
  int32_t x = 0;
  EXPECT_DEATH(Reduce(&x, &x, 1, DType::kI32, ReduceOp::kMean), "mean");
  EXPECT_DEATH(ReduceRanks({}, &x, 1, DType::kI32, ReduceOp::kSum), "ranks");
}

TYPED_TEST(ReduceTest, RowsThatLieBehindEachOtherAreRanks) {
  constexpr size_t kCount = 1001;
  const Ranks<TypeParam> in(11, 3, kCount);
  std::vector<TypeParam> behind;
  for (const auto& row : in.rows) {
    behind.insert(behind.end(), row.begin(), row.end());
  }
  for (ReduceOp op : this->Ops()) {
    std::vector<TypeParam> got(kCount);
    ReduceRows(behind.data(), 3, got.data(), kCount, this->kDType, op);
    EXPECT_TRUE(SameBits(got, this->Want(in, op))) << Name(op);
  }
}

}  // namespace
}  // namespace lockstep::kernels
