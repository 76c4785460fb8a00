// The two 8-bit floats, F8E4M3 and F8E5M2, and their conversions to and from
// f32, with the same bits on every host and device. As in half.h, a
// flush-to-zero mode set by the caller does not change them.
//
//            sign exponent fraction   bias   largest   smallest   infinity
//   F8E4M3     1     4        3         7      448      2^-9      none
//   F8E5M2     1     5        2        15     57344     2^-16     0x7c
//
// Rounding: once, to nearest even; subnormals are kept. An overflow, and an
//           infinity, become NaN in F8E4M3 and infinity in F8E5M2.
// NaN:      keeps its sign. F8E4M3 has one, 0x7f; F8E5M2 keeps the upper
//           payload bits, and becomes quiet.

#ifndef LOCKSTEP_KERNELS_F8_H_
#define LOCKSTEP_KERNELS_F8_H_

#include <cstdint>
#include <type_traits>

#include "kernels/half.h"
#include "kernels/host_device.h"

namespace lockstep::kernels {

struct F8E4M3 {
  uint8_t bits;
};

struct F8E5M2 {
  uint8_t bits;
};

template <class T>
inline constexpr bool kIsF8 =
    std::is_same_v<T, F8E4M3> || std::is_same_v<T, F8E5M2>;

// Exact: every 8-bit float is an f32.
LOCKSTEP_HD float ToF32(F8E4M3 value) {
  constexpr uint32_t kRebias = (127u - 7u) << 23;
  constexpr uint32_t kOneExponent = 1u << 23;
  constexpr uint32_t kMinNormal = kRebias + kOneExponent;  // 2^-6
  constexpr uint32_t kLargest = 0x7eu << 20;
  const uint32_t magnitude = (value.bits & 0x7fu) << 20;
  const uint32_t normal = magnitude + kRebias;
  const uint32_t subnormal =
      BitsOf(FloatOf(magnitude + kMinNormal) - FloatOf(kMinNormal));
  uint32_t bits = IfGreater(kOneExponent, magnitude, subnormal, normal);
  bits = IfGreater(magnitude, kLargest, 0x7fc00000u, bits);
  return FloatOf(bits | (value.bits & 0x80u) << 24);
}

LOCKSTEP_HD float ToF32(F8E5M2 value) {
  return ToF32(F16{static_cast<uint16_t>(value.bits << 8)});
}

LOCKSTEP_HD F8E4M3 ToF8E4M3(float value) {
  constexpr uint32_t kRebias = (127u - 7u) << 23;
  constexpr uint32_t kMinNormal = kRebias + (1u << 23);  // 2^-6
  constexpr uint32_t kAligned = 0x46800000u;  // 2^14, whose ulp is 2^-9
  const uint32_t bits = BitsOf(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t to_even = 0x7ffffu + ((magnitude >> 20) & 1u);
  const uint32_t normal = (magnitude - kRebias + to_even) >> 20;
  // The addition rounds to a multiple of 2^-9.
  const uint32_t subnormal =
      BitsOf(FloatOf(magnitude) + FloatOf(kAligned)) - kAligned;
  uint32_t f8 = IfGreater(kMinNormal, magnitude, subnormal, normal);
  f8 = IfGreater(f8, 0x7eu, 0x7fu, f8);  // infinity and NaN too
  return {static_cast<uint8_t>(f8 | ((bits >> 24) & 0x80u))};
}

LOCKSTEP_HD F8E5M2 ToF8E5M2(float value) {
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  constexpr uint32_t kMinNormal = kRebias + (1u << 23);  // 2^-14
  constexpr uint32_t kAligned = 0x43000000u;  // 2^7, whose ulp is 2^-16
  const uint32_t bits = BitsOf(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t to_even = 0xfffffu + ((magnitude >> 21) & 1u);
  const uint32_t normal = (magnitude - kRebias + to_even) >> 21;
  // The addition rounds to a multiple of 2^-16.
  const uint32_t subnormal =
      BitsOf(FloatOf(magnitude) + FloatOf(kAligned)) - kAligned;
  const uint32_t nan = 0x7eu | ((magnitude >> 21) & 0x3u);
  uint32_t f8 = IfGreater(kMinNormal, magnitude, subnormal, normal);
  f8 = IfGreater(f8, 0x7bu, 0x7cu, f8);
  f8 = IfGreater(magnitude, 0x7f800000u, nan, f8);
  return {static_cast<uint8_t>(f8 | ((bits >> 24) & 0x80u))};
}

template <class T>
LOCKSTEP_HD T ToF8(float value) {
  if constexpr (std::is_same_v<T, F8E4M3>) {
    return ToF8E4M3(value);
  } else {
    return ToF8E5M2(value);
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_F8_H_
