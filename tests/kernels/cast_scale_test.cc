#include "kernels/cast_scale.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/cast_scale_ref.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

constexpr size_t kLengths[] = {0, 1, 7, 1023, 1024, 1025, 5001};

template <class From, class To>
void ExpectCastTwins(double factor) {
  for (size_t count : kLengths) {
    Rng rng(count);
    const std::vector<From> src = RandomRow<From>(rng, count + 1);
    std::vector<To> got = RandomRow<To>(rng, count + 1);
    std::vector<To> want = got;
    // From element 1, so that nothing is aligned to a vector.
    CastScale(src.data() + 1, DTypeOf<From>(), factor, got.data() + 1,
              DTypeOf<To>(), count);
    CastScaleRef(src.data() + 1, factor, want.data() + 1, count);
    EXPECT_TRUE(SameBits(got, want))
        << Name(DTypeOf<From>()) << " to " << Name(DTypeOf<To>()) << " times "
        << factor << ", " << count << " elements from seed " << count;
  }
}

template <class T>
class CastScaleTest : public testing::Test {};
TYPED_TEST_SUITE(CastScaleTest, FloatTypes);

TYPED_TEST(CastScaleTest, GivesTheBitsOfTheReferenceForEveryTargetType) {
  OnEveryCpu([] {
    for (double factor : {1.0, 1.0 / 3, 65536.0, -0x1p-20, 0.0}) {
      ExpectCastTwins<TypeParam, F16>(factor);
      ExpectCastTwins<TypeParam, BF16>(factor);
      ExpectCastTwins<TypeParam, float>(factor);
      ExpectCastTwins<TypeParam, double>(factor);
    }
  });
}

TYPED_TEST(CastScaleTest, ScaleInPlaceGivesTheBitsOfTheReference) {
  OnEveryCpu([] {
    Rng rng(11);
    std::vector<TypeParam> got = RandomRow<TypeParam>(rng, 3001);
    std::vector<TypeParam> want = got;
    Scale(got.data(), DTypeOf<TypeParam>(), 1.0 / 7, got.size());
    CastScaleRef(want.data(), 1.0 / 7, want.data(), want.size());
    EXPECT_TRUE(SameBits(got, want));
  });
}

TYPED_TEST(CastScaleTest, WholeNumbersComeThroughExactly) {
  for (int value : {-128, -3, 0, 1, 64, 100}) {
    const TypeParam src = Whole<TypeParam>(value);
    double wide = 0;
    CastScale(&src, DTypeOf<TypeParam>(), 0.5, &wide, DType::kF64, 1);
    EXPECT_EQ(wide, value / 2.0);
    TypeParam back = Whole<TypeParam>(1);
    CastScale(&wide, DType::kF64, 2.0, &back, DTypeOf<TypeParam>(), 1);
    EXPECT_EQ(RawBits(back), RawBits(src));
  }
}

TEST(CastScaleOnceTest, F64ToAHalfIsRoundedOnce) {
  // Just above the tie between 1 and the next bf16: f32 would land on the tie.
  const double above = 1 + 0x1p-8 + 0x1p-40;
  OnEveryCpu([&] {
    BF16 half = {};
    CastScale(&above, DType::kF64, 1.0, &half, DType::kBF16, 1);
    EXPECT_EQ(half.bits, 0x3f81u);
  });
}

TEST(CastScaleDeathTest, TakesNoIntegers) {
  int32_t integer = 0;
  float real = 0;
  EXPECT_DEATH(CastScale(&integer, DType::kI32, 1, &real, DType::kF32, 1),
               "f32");
}

}  // namespace
}  // namespace lockstep::kernels
