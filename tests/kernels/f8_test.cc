#include "kernels/f8.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "gtest/gtest.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/support/sanitizers.h"

namespace lockstep::kernels {
namespace {

struct Format {
  int fraction_bits;
  int bias;
  uint32_t largest;  // its bits; those above are infinity or NaN
};
template <class T>
constexpr Format kFormat = {3, 7, 0x7e};
template <>
constexpr Format kFormat<F8E5M2> = {2, 15, 0x7b};

// The value of the positive bits `bits`, by the definition, as if every
// exponent were finite.
template <class T>
double PositiveValue(uint32_t bits) {
  const auto [fraction_bits, bias, largest] = kFormat<T>;
  const int exponent = static_cast<int>(bits) >> fraction_bits;
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  const int leading = exponent == 0 ? 0 : 1 << fraction_bits;
  return std::ldexp(leading + fraction,
                    std::max(exponent, 1) - bias - fraction_bits);
}

template <class T>
class F8Test : public testing::Test {
 protected:
  static constexpr uint32_t kLargest = kFormat<T>.largest;
  static T Of(uint32_t bits) { return {static_cast<uint8_t>(bits)}; }

  // Above it, values round to `bits` + 1.
  static float Midpoint(uint32_t bits) {
    return static_cast<float>(
        (PositiveValue<T>(bits) + PositiveValue<T>(bits + 1)) / 2);
  }

  // The bits of a value that is not NaN, found among all midpoints.
  static uint32_t Nearest(float value) {
    const float magnitude = std::fabs(value);
    uint32_t bits = 0;
    while (bits <= kLargest && magnitude > Midpoint(bits)) ++bits;
    if (bits <= kLargest && magnitude == Midpoint(bits)) bits += bits & 1;
    return bits | (std::signbit(value) ? 0x80u : 0u);
  }

  static void ExpectRounds(float value, uint32_t positive_bits) {
    ASSERT_EQ(ToF8<T>(value).bits, positive_bits) << value;
    ASSERT_EQ(ToF8<T>(-value).bits, positive_bits | 0x80u) << -value;
  }
};

using F8Types = testing::Types<F8E4M3, F8E5M2>;
TYPED_TEST_SUITE(F8Test, F8Types);

TYPED_TEST(F8Test, EveryValueWidensToItsDefinitionAndComesBack) {
  for (uint32_t bits = 0; bits <= this->kLargest; ++bits) {
    const auto value = static_cast<float>(PositiveValue<TypeParam>(bits));
    ASSERT_EQ(RawBits(ToF32(this->Of(bits))), RawBits(value)) << bits;
    ASSERT_EQ(RawBits(ToF32(this->Of(bits | 0x80))), RawBits(-value)) << bits;
    this->ExpectRounds(value, bits);
  }
}

TYPED_TEST(F8Test, EveryNaNStaysNaNWithItsSign) {
  const bool has_infinity = std::is_same_v<TypeParam, F8E5M2>;
  for (uint32_t bits = this->kLargest + 1; bits <= 0x7f; ++bits) {
    for (uint32_t sign : {0u, 0x80u}) {
      const float wide = ToF32(this->Of(bits | sign));
      EXPECT_EQ(std::signbit(wide), sign != 0);
      if (has_infinity && bits == this->kLargest + 1) {
        EXPECT_TRUE(std::isinf(wide));
        EXPECT_EQ(ToF8<TypeParam>(wide).bits, bits | sign);
        continue;
      }
      EXPECT_TRUE(std::isnan(wide)) << bits;
      EXPECT_TRUE(BitsOf(wide) & 0x00400000u) << "signalling: " << bits;
      const uint32_t quiet = has_infinity ? bits | 0x02u : bits;
      EXPECT_EQ(ToF8<TypeParam>(wide).bits, quiet | sign);
    }
  }
}

TYPED_TEST(F8Test, ANaNWhosePayloadIsLostStaysNaN) {
  for (uint32_t sign : {0u, 0x80000000u}) {
    for (uint32_t payload : {1u, 0x00400000u, 0x007fffffu}) {
      const float nan = FloatOf(sign | 0x7f800000u | payload);
      const TypeParam narrow = ToF8<TypeParam>(nan);
      EXPECT_TRUE(IsNaN(narrow));
      EXPECT_EQ(narrow.bits >> 7, sign >> 31);
    }
  }
}

// Below, on and above every tie; the last one is with the overflow.
TYPED_TEST(F8Test, TiesGoToEven) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (uint32_t bits = 0; bits <= this->kLargest; ++bits) {
    const float tie = this->Midpoint(bits);
    this->ExpectRounds(tie, bits + (bits & 1));
    this->ExpectRounds(std::nextafter(tie, 0.0f), bits);
    this->ExpectRounds(std::nextafter(tie, infinity), bits + 1);
  }
}

// One f32 in so many, a prime, so that each has another place between two f8.
constexpr uint64_t kEachF32 = kUnderSanitizer ? 65521 : 4093;

TYPED_TEST(F8Test, EveryF32RoundsToTheNearest) {
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += kEachF32) {
    const float value = FloatOf(static_cast<uint32_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(ToF8<TypeParam>(value).bits, this->Nearest(value)) << value;
  }
}

TEST(F8OverflowTest, IsNaNInE4M3AndInfinityInE5M2) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ToF8E4M3(448).bits, 0x7e);
  EXPECT_EQ(ToF8E4M3(464).bits, 0x7e);
  EXPECT_EQ(ToF8E5M2(57344).bits, 0x7b);
  for (float large : {465.0f, 480.0f, 3e38f, infinity}) {
    EXPECT_EQ(ToF8E4M3(large).bits, 0x7f) << large;
    EXPECT_EQ(ToF8E4M3(-large).bits, 0xff) << -large;
  }
  for (float large : {61440.0f, 65536.0f, 3e38f, infinity}) {
    EXPECT_EQ(ToF8E5M2(large).bits, 0x7c) << large;
    EXPECT_EQ(ToF8E5M2(-large).bits, 0xfc) << -large;
  }
}

#if defined(__SSE2__)
TYPED_TEST(F8Test, AFlushToZeroModeOfTheCallerChangesNoValue) {
  std::vector<float> floats;
  for (uint32_t bits = 0; bits <= this->kLargest; ++bits) {
    floats.push_back(this->Midpoint(bits));
    floats.push_back(ToF32(this->Of(bits)));
  }
  floats.insert(floats.end(), {1e-40f, 1e-45f});
  std::vector<uint8_t> narrow(floats.size());
  uint32_t wide[0x80];
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040);  // flush results, take subnormals as zero
  for (size_t i = 0; i < floats.size(); ++i) {
    narrow[i] = ToF8<TypeParam>(floats[i]).bits;
  }
  for (uint32_t i = 0; i < 0x80; ++i) wide[i] = BitsOf(ToF32(this->Of(i)));
  _mm_setcsr(mode);
  for (size_t i = 0; i < floats.size(); ++i) {
    EXPECT_EQ(narrow[i], ToF8<TypeParam>(floats[i]).bits) << floats[i];
  }
  for (uint32_t i = 0; i < 0x80; ++i) {
    EXPECT_EQ(wide[i], BitsOf(ToF32(this->Of(i)))) << i;
  }
}
#endif

}  // namespace
}  // namespace lockstep::kernels
