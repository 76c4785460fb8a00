#include "kernels/half.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "gtest/gtest.h"
#include "kernels/rows.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

struct HalfFormat {
  int exponent_bits;
  int fraction_bits;
};
template <class H>
constexpr HalfFormat kHalfFormat = {5, 10};
template <>
constexpr HalfFormat kHalfFormat<BF16> = {8, 7};

// The value of a 16-bit float, by the definition of IEEE 754.
template <class H>
double ValueOfHalf(H half) {
  const auto [exponent_bits, fraction_bits] = kHalfFormat<H>;
  const int exponent_max = (1 << exponent_bits) - 1;
  const int bias = exponent_max / 2;
  const int exponent = (half.bits >> fraction_bits) & exponent_max;
  const int fraction = half.bits & ((1 << fraction_bits) - 1);
  const double sign = half.bits >> 15 ? -1.0 : 1.0;
  if (exponent == exponent_max) {
    return fraction ? std::nan("") : sign * HUGE_VAL;
  }
  const int leading = exponent == 0 ? 0 : 1 << fraction_bits;
  const int power = std::max(exponent, 1) - bias - fraction_bits;
  return sign * std::ldexp(leading + fraction, power);
}

template <class H>
class HalfTest : public testing::Test {
 protected:
  static constexpr uint32_t kInfinity =
      ((1u << kHalfFormat<H>.exponent_bits) - 1)
      << kHalfFormat<H>.fraction_bits;

  static H Of(uint32_t bits) { return {static_cast<uint16_t>(bits)}; }

  // The midpoint between the positive neighbours `bits` and `bits + 1`, above
  // which values round up; infinity counts as the next power of two.
  static double Midpoint(uint32_t bits) {
    const double low = ValueOfHalf(Of(bits));
    if (bits + 1 < kInfinity) return (low + ValueOfHalf(Of(bits + 1))) / 2;
    return low + (low - ValueOfHalf(Of(bits - 1))) / 2;
  }

  template <class F>
  static void ExpectRounds(F value, uint32_t positive_bits) {
    ASSERT_EQ(ConvertTo<H>(value).bits, positive_bits) << value;
    ASSERT_EQ(ConvertTo<H>(-value).bits, positive_bits | 0x8000u) << -value;
  }

  // Below, on and above every tie.
  template <class F>
  static void ExpectTiesGoToEven() {
    const F infinity = std::numeric_limits<F>::infinity();
    for (uint32_t bits = 0; bits < kInfinity; ++bits) {
      const F tie = static_cast<F>(Midpoint(bits));
      ASSERT_EQ(tie, Midpoint(bits)) << "the tie itself is not exact";
      ExpectRounds(tie, bits + (bits & 1));
      ExpectRounds(std::nextafter(tie, F{0}), bits);
      ExpectRounds(std::nextafter(tie, infinity), bits + 1);
    }
  }
};

using HalfTypes = testing::Types<F16, BF16>;
TYPED_TEST_SUITE(HalfTest, HalfTypes);

TYPED_TEST(HalfTest, EveryValueWidensToItsDefinitionAndComesBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const TypeParam half = this->Of(bits);
    const double value = ValueOfHalf(half);
    if (std::isnan(value)) continue;
    ASSERT_EQ(RawBits<double>(ToF32(half)), RawBits(value)) << bits;
    ASSERT_EQ(ConvertTo<TypeParam>(ToF32(half)).bits, bits);
    ASSERT_EQ(ConvertTo<TypeParam>(value).bits, bits);
  }
}

TYPED_TEST(HalfTest, EveryNaNBecomesQuietAndKeepsSignAndPayload) {
  const uint32_t quiet = 1u << (kHalfFormat<TypeParam>.fraction_bits - 1);
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const TypeParam half = this->Of(bits);
    if (!std::isnan(ValueOfHalf(half))) continue;
    ASSERT_TRUE(std::isnan(ToF32(half))) << bits;
    ASSERT_TRUE(BitsOf(ToF32(half)) & 0x00400000u) << "signalling: " << bits;
    ASSERT_EQ(ConvertTo<TypeParam>(ToF32(half)).bits, bits | quiet);
  }
}

TYPED_TEST(HalfTest, ANaNWhosePayloadIsLostStaysNaN) {
  for (uint32_t sign : {0u, 0x80000000u}) {
    const float signalling = FloatOf(sign | 0x7f800001u);
    const TypeParam half = ConvertTo<TypeParam>(signalling);
    EXPECT_TRUE(std::isnan(ValueOfHalf(half)));
    EXPECT_EQ(half.bits >> 15, sign >> 31);
  }
}

TYPED_TEST(HalfTest, TiesFromF32GoToEven) {
  this->template ExpectTiesGoToEven<float>();
}

TYPED_TEST(HalfTest, TiesFromF64GoToEvenInOneRounding) {
  this->template ExpectTiesGoToEven<double>();
}

TYPED_TEST(HalfTest, WhatIsTooLargeOrTooSmallBecomesInfinityOrZero) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (double large : {infinity, 1e300, 3.5e38}) {
    EXPECT_EQ(ConvertTo<TypeParam>(large).bits, this->kInfinity) << large;
    EXPECT_EQ(ConvertTo<TypeParam>(-large).bits, this->kInfinity | 0x8000u);
  }
  for (double small : {0.0, 5e-324, 1e-300, 1e-46}) {
    EXPECT_EQ(ConvertTo<TypeParam>(small).bits, 0u) << small;
    EXPECT_EQ(ConvertTo<TypeParam>(-small).bits, 0x8000u) << small;
  }
}

TYPED_TEST(HalfTest, RowsWidenEveryValueToTheBitsOfTheScalarCode) {
  std::vector<TypeParam> halves(0x10000);
  for (uint32_t i = 0; i <= 0xffff; ++i) halves[i] = this->Of(i);
  OnEveryCpu([&] {
    std::vector<float> wide(halves.size());
    ConvertRow(halves.data(), wide.data(), halves.size());
    for (uint32_t i = 0; i <= 0xffff; ++i) {
      ASSERT_EQ(BitsOf(wide[i]), BitsOf(ToF32(halves[i]))) << i;
    }
  });
}

// One f32 in 4,093, so that each has another place between two 16-bit values.
TYPED_TEST(HalfTest, RowsNarrowToTheBitsOfTheScalarCode) {
  std::vector<float> floats;
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 4093) {
    floats.push_back(FloatOf(static_cast<uint32_t>(bits)));
  }
  OnEveryCpu([&] {
    std::vector<TypeParam> halves(floats.size());
    ConvertRow(floats.data(), halves.data(), floats.size());
    for (size_t i = 0; i < floats.size(); ++i) {
      ASSERT_EQ(halves[i].bits, ConvertTo<TypeParam>(floats[i]).bits)
          << std::hex << BitsOf(floats[i]);
    }
  });
}

#if defined(__SSE2__)
TYPED_TEST(HalfTest, AFlushToZeroModeOfTheCallerChangesNoHalf) {
  std::vector<TypeParam> halves(0x10000);
  for (uint32_t i = 0; i <= 0xffff; ++i) halves[i] = this->Of(i);
  OnEveryCpu([&] {
    std::vector<float> wide(halves.size());
    std::vector<TypeParam> back(halves.size());
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040);  // flush results, take subnormals as zero
    ConvertRow(halves.data(), wide.data(), halves.size());
    ConvertRow(wide.data(), back.data(), halves.size());
    _mm_setcsr(mode);
    for (uint32_t i = 0; i <= 0xffff; ++i) {
      if (IsNaN(halves[i])) continue;
      ASSERT_EQ(BitsOf(wide[i]), BitsOf(ToF32(halves[i]))) << i;
      ASSERT_EQ(back[i].bits, i);
    }
  });
}
#endif

TEST(F64RowsTest, GiveTheBitsOfTheScalarCode) {
  Rng rng(7);
  std::vector<double> row = RandomRow<double>(rng, 20000);
  // Doubles near the range of f32, subnormals included, beside any bits.
  for (size_t i = 0; i < row.size(); i += 2) {
    row[i] = std::ldexp(row[i], static_cast<int>(rng() % 600) - 300);
  }
  OnEveryCpu([&] {
    std::vector<float> nearest(row.size());
    std::vector<float> odd(row.size());
    ConvertRow(row.data(), nearest.data(), row.size());
    ConvertRowOdd(row.data(), odd.data(), row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      ASSERT_EQ(BitsOf(nearest[i]), BitsOf(static_cast<float>(row[i]))) << i;
      ASSERT_EQ(BitsOf(odd[i]), BitsOf(ToF32Odd(row[i]))) << i;
    }
  });
}

}  // namespace
}  // namespace lockstep::kernels
