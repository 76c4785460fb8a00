#include "kernels/reduce_any.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reduce_any_ref.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

constexpr ReduceOp kAnyOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin,
                                ReduceOp::kMax, ReduceOp::kProd};

template <class T>
class ReduceAnyTest : public testing::Test {
 protected:
  using Rows = std::vector<std::vector<T>>;

  static Rows RandomRows(uint64_t seed, size_t rows, size_t count) {
    Rng rng(seed);
    Rows all;
    for (size_t r = 0; r < rows; ++r) all.push_back(RandomRow<T>(rng, count));
    return all;
  }

  static std::vector<ReduceOp> Ops() {
    std::vector<ReduceOp> ops;
    for (ReduceOp op : kAnyOps) {
      if (CanReduceAny(DTypeOf<T>(), op)) ops.push_back(op);
    }
    return ops;
  }

  static std::vector<const void*> Pointers(const Rows& rows) {
    std::vector<const void*> pointers;
    for (const auto& row : rows) pointers.push_back(row.data());
    return pointers;
  }

  static std::vector<T> Want(const Rows& rows, ReduceOp op) {
    std::vector<T> want;
    std::vector<T> column(rows.size());
    for (size_t i = 0; i < rows[0].size(); ++i) {
      for (size_t r = 0; r < rows.size(); ++r) column[r] = rows[r][i];
      want.push_back(ReduceAnyRef<T>(op, column));
    }
    return want;
  }
};
TYPED_TEST_SUITE(ReduceAnyTest, OtherTypes);

TYPED_TEST(ReduceAnyTest, GivesTheBitsOfTheReference) {
  for (size_t rows : {1, 2, 3, 8}) {
    for (size_t count : {0, 1, 31, 1023, 1025, 10'007}) {
      const auto in = this->RandomRows(rows * 10000 + count, rows, count);
      for (ReduceOp op : this->Ops()) {
        const std::vector<TypeParam> want = this->Want(in, op);
        OnEveryCpu([&] {
          std::vector<TypeParam> got(count);
          ReduceAny(this->Pointers(in), got.data(), count, DTypeOf<TypeParam>(),
                    op);
          EXPECT_TRUE(SameBits(got, want))
              << Name(op) << " of " << rows << " rows of " << count;
        });
      }
    }
  }
}

TYPED_TEST(ReduceAnyTest, TheOutputMayBeAnyRow) {
  for (size_t target = 0; target < 3; ++target) {
    for (ReduceOp op : this->Ops()) {
      auto rows = this->RandomRows(target, 3, 2500);
      const auto want = this->Want(rows, op);
      ReduceAny(this->Pointers(rows), rows[target].data(), 2500,
                DTypeOf<TypeParam>(), op);
      EXPECT_TRUE(SameBits(rows[target], want)) << Name(op);
    }
  }
}

template <class T>
T Reduced(ReduceOp op, const std::vector<T>& column) {
  std::vector<const void*> rows;
  for (const T& value : column) rows.push_back(&value);
  T out;
  ReduceAny(rows, &out, 1, DTypeOf<T>(), op);
  return out;
}

TEST(ReduceAnyBoolTest, MinAndProductAreAndAndMaxIsOr) {
  for (int bits = 0; bits < 8; ++bits) {
    // Any byte but 0 is true.
    const std::vector<Bool> column = {{static_cast<uint8_t>(bits & 1)},
                                      {static_cast<uint8_t>((bits & 2) * 64)},
                                      {static_cast<uint8_t>((bits & 4) / 2)}};
    const int all = bits == 7 ? 1 : 0;
    EXPECT_EQ(Reduced(ReduceOp::kMin, column).byte, all) << bits;
    EXPECT_EQ(Reduced(ReduceOp::kProd, column).byte, all) << bits;
    EXPECT_EQ(Reduced(ReduceOp::kMax, column).byte, bits == 0 ? 0 : 1) << bits;
  }
}

TEST(ReduceAnyIntegerTest, SumsAndProductsWrap) {
  EXPECT_EQ(Reduced<int16_t>(ReduceOp::kSum, {32767, 1}), -32768);
  EXPECT_EQ(Reduced<uint16_t>(ReduceOp::kSum, {65535, 2}), 1);
  EXPECT_EQ(Reduced<int16_t>(ReduceOp::kProd, {-32768, -1}), -32768);
  EXPECT_EQ(Reduced<uint16_t>(ReduceOp::kProd, {65535, 65535}), 1);
  EXPECT_EQ(Reduced<int16_t>(ReduceOp::kMin, {5, -3}), -3);
  EXPECT_EQ(Reduced<uint16_t>(ReduceOp::kMax, {5, 65533}), 65533);
}

template <class T>
class ReduceAnyComplexTest : public testing::Test {};
using ComplexTypes = testing::Types<Complex<float>, Complex<double>>;
TYPED_TEST_SUITE(ReduceAnyComplexTest, ComplexTypes);

TYPED_TEST(ReduceAnyComplexTest, IsTheArithmeticOfComplexNumbers) {
  const std::vector<TypeParam> column = {{1, 2}, {3, -4}, {0, 1}};
  const auto parts = [&](ReduceOp op) {
    const TypeParam value = Reduced(op, column);
    return std::pair<double, double>(value.real, value.imaginary);
  };
  using Parts = std::pair<double, double>;
  EXPECT_EQ(parts(ReduceOp::kSum), Parts(4, -1));
  EXPECT_EQ(parts(ReduceOp::kProd), Parts(-2, 11));  // (11 + 2i) * i
  using R = Share<TypeParam>;
  EXPECT_EQ(parts(ReduceOp::kMean), Parts(4 * (R{1} / 3), -1 * (R{1} / 3)));
}

// (1 + 2^-12)^2 - (1 + 2^-11 + 2^-24): fused, the products would not cancel.
TEST(ReduceAnyComplexRoundingTest, EachProductIsRoundedByItself) {
  const float a = 1 + 0x1p-12f;
  OnEveryCpu([&] {
    const Complex<float> square =
        Reduced<Complex<float>>(ReduceOp::kProd, {{a, a}, {a, a}});
    EXPECT_EQ(square.real, 0.0f);
    EXPECT_EQ(square.imaginary, 2 * (1 + 0x1p-11f));
  });
}

template <class T>
class ReduceAnyF8Test : public testing::Test {};
using F8Types = testing::Types<F8E4M3, F8E5M2>;
TYPED_TEST_SUITE(ReduceAnyF8Test, F8Types);

TYPED_TEST(ReduceAnyF8Test, EveryPairIsComputedInF32AndRoundedOnce) {
  std::vector<TypeParam> first, second;
  for (uint32_t pair = 0; pair <= 0xffff; ++pair) {
    first.push_back({static_cast<uint8_t>(pair >> 8)});
    second.push_back({static_cast<uint8_t>(pair)});
  }
  const void* const rows[] = {first.data(), second.data()};
  const auto expect = [&](ReduceOp op, auto definition) {
    std::vector<TypeParam> want, got(first.size());
    for (size_t i = 0; i < first.size(); ++i) {
      const float a = ToF32(first[i]), b = ToF32(second[i]);
      const bool nan = std::isnan(a) || std::isnan(b);
      want.push_back(ToF8<TypeParam>(nan ? NAN : definition(a, b)));
    }
    ReduceAny(rows, got.data(), got.size(), DTypeOf<TypeParam>(), op);
    EXPECT_TRUE(SameBits(got, want)) << Name(op);
  };
  expect(ReduceOp::kSum, [](float a, float b) { return a + b; });
  expect(ReduceOp::kMean, [](float a, float b) { return (a + b) / 2; });
  expect(ReduceOp::kProd, [](float a, float b) { return a * b; });
  expect(ReduceOp::kMin, [](float a, float b) { return b < a ? b : a; });
  expect(ReduceOp::kMax, [](float a, float b) { return b > a ? b : a; });
}

TYPED_TEST(ReduceAnyF8Test, OneNaNAnywhereIsTheAnswer) {
  const TypeParam one = ToF8<TypeParam>(1);
  const TypeParam nan = ToF8<TypeParam>(std::nanf(""));
  for (ReduceOp op : kAnyOps) {
    for (size_t row = 0; row < 3; ++row) {
      std::vector<TypeParam> column(3, one);
      column[row] = nan;
      EXPECT_TRUE(IsNaN(Reduced(op, column))) << Name(op) << ", row " << row;
    }
  }
}

TEST(ReduceAnyF8OverflowTest, IsNaNInE4M3AndInfinityInE5M2) {
  const F8E4M3 small = ToF8E4M3(448);
  const F8E5M2 large = ToF8E5M2(57344);
  EXPECT_TRUE(IsNaN(Reduced<F8E4M3>(ReduceOp::kSum, {small, small})));
  EXPECT_EQ(Reduced<F8E5M2>(ReduceOp::kSum, {large, large}).bits, 0x7c);
  // Only the result is rounded: 448 + 448 - 448 is no overflow.
  const F8E4M3 minus = ToF8E4M3(-448);
  EXPECT_EQ(Reduced<F8E4M3>(ReduceOp::kSum, {small, small, minus}).bits,
            small.bits);
}

TEST(CanReduceAnyTest, IsTheTableOfTheHeader) {
  const auto row = [](DType dtype) {
    std::string row;
    for (ReduceOp op : kAnyOps) row += CanReduceAny(dtype, op) ? 'x' : '-';
    return row;
  };
  for (DType dtype : kTransportDTypes) EXPECT_EQ(row(dtype), "-----");
  EXPECT_EQ(row(DType::kBool), "--xxx");
  EXPECT_EQ(row(DType::kI16), "x-xxx");
  EXPECT_EQ(row(DType::kU16), "x-xxx");
  EXPECT_EQ(row(DType::kC64), "xx--x");
  EXPECT_EQ(row(DType::kC128), "xx--x");
  EXPECT_EQ(row(DType::kF8E4M3), "xxxxx");
  EXPECT_EQ(row(DType::kF8E5M2), "xxxxx");
}

TEST(ReduceAnyDeathTest, RefusesWhatItCannotReduceAndNoRows) {
  const double x[2] = {};
  double out[2];
  const void* const rows[] = {x};
  for (DType dtype : kAllDTypes) {
    for (ReduceOp op : kAnyOps) {
      if (CanReduceAny(dtype, op)) continue;
      if (IsTransportDType(dtype) && dtype != DType::kF32) continue;
      EXPECT_DEATH(ReduceAny(rows, out, 1, dtype, op), "ReduceAny");
    }
  }
  EXPECT_DEATH(ReduceAny({}, out, 1, DType::kI16, ReduceOp::kSum), "rows");
}

}  // namespace
}  // namespace lockstep::kernels
