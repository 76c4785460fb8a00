#include "kernels/divide.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class T>
class DivideTest : public testing::Test {};
using DividedTypes = testing::Types<F16, BF16, float, double, F8E4M3, F8E5M2,
                                    Complex<float>, Complex<double>>;
TYPED_TEST_SUITE(DivideTest, DividedTypes);

template <class T>
T Divided(T value, int divisor) {
  if constexpr (kIsComplex<T>) {
    return {Divided(value.real, divisor), Divided(value.imaginary, divisor)};
  } else if constexpr (kIsHalf<T> || kIsF8<T>) {
    return FromWide<T>(ToF32(value) / static_cast<float>(divisor));
  } else {
    return value / static_cast<T>(divisor);
  }
}

TYPED_TEST(DivideTest, DividesOnceInTheWideTypeAndRoundsOnce) {
  for (const size_t count : {0, 1, 31, 4001}) {
    for (const int divisor : {1, 2, 3, 7, 1000}) {
      Rng rng(count + static_cast<size_t>(divisor));
      const auto in = RandomRow<TypeParam>(rng, count);
      std::vector<TypeParam> want;
      for (const TypeParam value : in) want.push_back(Divided(value, divisor));
      std::vector<TypeParam> got(count);
      Divide(in.data(), got.data(), count, DTypeOf<TypeParam>(), divisor);
      EXPECT_TRUE(SameBits(got, want)) << count << " by " << divisor;
      std::vector<TypeParam> in_place = in;
      Divide(in_place.data(), in_place.data(), count, DTypeOf<TypeParam>(),
             divisor);
      EXPECT_TRUE(SameBits(in_place, want)) << "in place";
    }
  }
}

// 41 times the nearest number to 1/41 is not 1.
TEST(DivideValuesTest, IsADivisionNotAProduct) {
  float value = 41;
  ASSERT_NE(value * (1.0f / 41.0f), 1);
  Divide(&value, &value, 1, DType::kF32, 41);
  EXPECT_EQ(value, 1);
}

TEST(DivideDeathTest, IntegersAndTheDivisor0AreErrorsOfTheProgram) {
  int32_t i = 1;
  float f = 1;
  EXPECT_DEATH(Divide(&i, &i, 1, DType::kI32, 2), "");
  EXPECT_DEATH(Divide(&f, &f, 1, DType::kF32, 0), "");
}

}  // namespace
}  // namespace lockstep::kernels
