#include "kernels/arg_extremum.h"

#include <cstdint>
#include <limits>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "gtest/gtest.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

// The value itself: as f64 for floats, exactly.
template <class T>
auto ValueOf(T value) {
  if constexpr (kIsFloat<T>) {
    return ConvertTo<double>(value);
  } else if constexpr (kIsF8<T>) {
    return static_cast<double>(ToF32(value));
  } else if constexpr (std::is_same_v<T, Bool>) {
    return value.byte != 0;
  } else {
    return value;
  }
}

template <class T>
int32_t MarkOf(T value, T extremum, int32_t index) {
  int32_t mark = -1;
  MarkExtremum(&value, &extremum, &mark, 1, DTypeOf<T>(), index);
  return mark;
}

template <class T>
class MarkExtremumTest : public testing::Test {};
TYPED_TEST_SUITE(MarkExtremumTest, OrderedTypes);

TYPED_TEST(MarkExtremumTest, MarksWhatEqualsTheExtremum) {
  for (size_t count : {0, 1, 31, 4001, 100'003}) {
    Rng rng(count);
    const std::vector<TypeParam> values = RandomRow<TypeParam>(rng, count);
    std::vector<TypeParam> extrema = RandomRow<TypeParam>(rng, count);
    for (size_t i = 0; i < count; i += 1 + rng() % 3) extrema[i] = values[i];
    for (int32_t index : {0, 5, -1}) {
      std::vector<int32_t> want(count);
      for (size_t i = 0; i < count; ++i) {
        const bool same = ValueOf(values[i]) == ValueOf(extrema[i]);
        want[i] = same ? index : std::numeric_limits<int32_t>::max();
      }
      std::vector<int32_t> got(count, -2);
      MarkExtremum(values.data(), extrema.data(), got.data(), count,
                   DTypeOf<TypeParam>(), index);
      EXPECT_TRUE(SameBits(got, want)) << count << " elements";
    }
  }
}

template <class T>
class MarkSmallExtremumTest : public testing::Test {};
using SmallTypes = testing::Types<uint8_t, int8_t, Bool, F8E4M3, F8E5M2>;
TYPED_TEST_SUITE(MarkSmallExtremumTest, SmallTypes);

TYPED_TEST(MarkSmallExtremumTest, IsRightForEveryPair) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      TypeParam value, extremum;
      std::memcpy(&value, &a, 1);
      std::memcpy(&extremum, &b, 1);
      const bool same = ValueOf(value) == ValueOf(extremum);
      ASSERT_EQ(MarkOf(value, extremum, 3) == 3, same) << a << ", " << b;
    }
  }
}

template <class T>
class MarkHalfExtremumTest : public testing::Test {};
using HalfTypes = testing::Types<F16, BF16>;
TYPED_TEST_SUITE(MarkHalfExtremumTest, HalfTypes);

TYPED_TEST(MarkHalfExtremumTest, EveryValueButNaNEqualsItself) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const TypeParam value = {static_cast<uint16_t>(bits)};
    ASSERT_EQ(MarkOf(value, value, 3) == 3, !IsNaN(value)) << bits;
  }
}

TYPED_TEST(MarkHalfExtremumTest, ZerosAreEqual) {
  EXPECT_EQ(MarkOf<TypeParam>({0x8000}, {0}, 3), 3);
  EXPECT_EQ(MarkOf<TypeParam>({0x8000}, {1}, 3), INT32_MAX);
}

#if defined(__SSE2__)
TYPED_TEST(MarkHalfExtremumTest, SubnormalsDifferFromZeroInEveryMode) {
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040);  // flush results, take subnormals as zero
  const int32_t mark = MarkOf<TypeParam>({1}, {0}, 3);
  _mm_setcsr(mode);
  EXPECT_EQ(mark, INT32_MAX);
}
#endif

TEST(MarkExtremumDeathTest, ComplexNumbersHaveNoOrder) {
  const float x[4] = {};
  int32_t out;
  for (DType dtype : {DType::kC64, DType::kC128}) {
    EXPECT_DEATH(MarkExtremum(x, x, &out, 1, dtype, 0), "order");
  }
}

}  // namespace
}  // namespace lockstep::kernels
