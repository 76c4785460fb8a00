// The two 16-bit floats, and every conversion between the four float types.
//
//           sign  exponent  fraction
//   f16      1       5        10       finite to 65504, smallest 2^-24
//   bf16     1       8         7       the upper half of an f32
//
// One definition for host and device: the host loops and the CUDA kernels
// inline these functions. They use integers, and floats that are never
// subnormal. So a flush-to-zero mode set by the caller changes only f32 and f64
// values themselves.
//
// Rounding: once, to nearest even, also from f64 to a half. An overflow
//           becomes infinity; subnormals are kept.
// NaN:      becomes a quiet NaN with the sign and the upper payload bits, as
//           the conversion instructions of x86 and ARM do.

#ifndef LOCKSTEP_KERNELS_HALF_H_
#define LOCKSTEP_KERNELS_HALF_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/host_device.h"

namespace lockstep::kernels {

struct F16 {
  uint16_t bits;
};

struct BF16 {
  uint16_t bits;
};

template <class T>
inline constexpr bool kIsHalf =
    std::is_same_v<T, F16> || std::is_same_v<T, BF16>;

LOCKSTEP_HD uint32_t BitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

LOCKSTEP_HD float FloatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

LOCKSTEP_HD uint64_t BitsOf(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// `yes` if a > b, else `no`, for values below 2^31, without a branch: GCC then
// vectorises the loops over the conversions below for every CPU.
LOCKSTEP_HD uint32_t IfGreater(uint32_t a, uint32_t b, uint32_t yes,
                               uint32_t no) {
  const bool greater = static_cast<int32_t>(a) > static_cast<int32_t>(b);
  const uint32_t mask = 0u - static_cast<uint32_t>(greater);
  return no ^ ((yes ^ no) & mask);
}

// Exact: every f16 is an f32.
LOCKSTEP_HD float ToF32(F16 half) {
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  constexpr uint32_t kOneExponent = 1u << 23;
  constexpr uint32_t kMinNormal = kRebias + kOneExponent;  // 2^-14
  constexpr uint32_t kInfinity = 31u << 23;  // of f16, before the new bias
  const uint32_t magnitude = (half.bits & 0x7fffu) << 13;
  const uint32_t normal = magnitude + kRebias;
  const uint32_t subnormal =
      BitsOf(FloatOf(magnitude + kMinNormal) - FloatOf(kMinNormal));
  const uint32_t quiet = IfGreater(magnitude, kInfinity, 0x00400000u, 0u);
  const uint32_t special = (normal + kRebias) | quiet;
  uint32_t bits = IfGreater(kOneExponent, magnitude, subnormal, normal);
  bits = IfGreater(magnitude, kInfinity - 1u, special, bits);
  return FloatOf(bits | (half.bits & 0x8000u) << 16);
}

LOCKSTEP_HD float ToF32(BF16 half) {
  const uint32_t bits = static_cast<uint32_t>(half.bits) << 16;
  const uint32_t quiet =
      IfGreater(bits & 0x7fffffffu, 0x7f800000u, 0x00400000u, 0u);
  return FloatOf(bits | quiet);
}

LOCKSTEP_HD F16 ToF16(float value) {
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  constexpr uint32_t kMinNormal = kRebias + (1u << 23);  // 2^-14
  constexpr uint32_t kTooLarge = 0x47800000u;            // 65536
  constexpr uint32_t kHalf = 0x3f000000u;  // ulp(0.5f) is f16's smallest, 2^-24
  const uint32_t bits = BitsOf(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t to_even = 0xfffu + ((magnitude >> 13) & 1u);
  const uint32_t normal = (magnitude - kRebias + to_even) >> 13;
  // The addition rounds to a multiple of 2^-24.
  const uint32_t subnormal =
      BitsOf(FloatOf(magnitude) + FloatOf(kHalf)) - kHalf;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  uint32_t half = IfGreater(kMinNormal, magnitude, subnormal, normal);
  half = IfGreater(magnitude, kTooLarge - 1u, 0x7c00u, half);
  half = IfGreater(magnitude, 0x7f800000u, nan, half);
  return {static_cast<uint16_t>(half | ((bits >> 16) & 0x8000u))};
}

LOCKSTEP_HD BF16 ToBF16(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x0040u;
  return {static_cast<uint16_t>(
      IfGreater(bits & 0x7fffffffu, 0x7f800000u, quiet, rounded))};
}

// Converts f64 to f32, the first step to a half, rounding to *odd*: towards
// zero, then the last bit is set if the value was inexact. So the second
// rounding knows on which side of a tie the f64 was.
LOCKSTEP_HD float ToF32Odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  const uint32_t bits = BitsOf(nearest);
  const bool away = value < 0 ? back < value : back > value;
  const bool inexact = back < value || back > value;  // false for NaN
  return FloatOf(inexact ? (bits - (away ? 1u : 0u)) | 1u : bits);
}

// Converts between any two of F16, BF16, float and double; rounds once.
template <class To, class From>
LOCKSTEP_HD To ConvertTo(From from) {
  if constexpr (std::is_same_v<To, From> && !kIsHalf<To>) {
    return from;
  } else if constexpr (kIsHalf<From>) {
    return ConvertTo<To>(ToF32(from));
  } else if constexpr (kIsHalf<To> && std::is_same_v<From, double>) {
    return ConvertTo<To>(ToF32Odd(from));
  } else if constexpr (std::is_same_v<To, F16>) {
    return ToF16(from);
  } else if constexpr (std::is_same_v<To, BF16>) {
    return ToBF16(from);
  } else {
    return static_cast<To>(from);
  }
}

LOCKSTEP_HD bool IsFinite(float value) {
  return (BitsOf(value) & 0x7f800000u) != 0x7f800000u;
}

LOCKSTEP_HD bool IsFinite(double value) {
  constexpr uint64_t kExponent = 0x7ff0000000000000u;
  return (BitsOf(value) & kExponent) != kExponent;
}

// The type in which values of T are added and multiplied.
template <class T>
using Compute = std::conditional_t<kIsHalf<T>, float, T>;

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_HALF_H_
