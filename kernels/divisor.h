// Divisor divides 32-bit numbers by a number that is known before the loop,
// with a multiplication and a shift: several times as fast as a division on a
// device.
//
// The multiplier is that of Granlund and Montgomery, "Division by Invariant
// Integers using Multiplication" (1994), figure 4.1: with l = ceil(log2
// divisor),
//
//   multiplier = floor(2^32 (2^l - divisor) / divisor) + 1
//   quotient   = (high32(multiplier * n) + n) >> l
//
// which is exact. For n < 2^31 the sum does not overflow.

#ifndef LOCKSTEP_KERNELS_DIVISOR_H_
#define LOCKSTEP_KERNELS_DIVISOR_H_

#include <bit>
#include <cstdint>

#include "kernels/host_device.h"

namespace lockstep::kernels {

struct Divisor {
  uint32_t multiplier;
  uint32_t shift;

  // `n` below 2^31.
  LOCKSTEP_HD uint32_t Quotient(uint32_t n) const {
    const auto high =
        static_cast<uint32_t>(static_cast<uint64_t>(multiplier) * n >> 32);
    return (high + n) >> shift;
  }
};

// `divisor` from 1 to 2^31.
constexpr Divisor DivisorOf(uint32_t divisor) {
  const auto shift = static_cast<uint32_t>(std::bit_width(divisor - 1));
  const uint64_t past = (uint64_t{1} << shift) - divisor;
  return {static_cast<uint32_t>((past << 32) / divisor + 1), shift};
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_DIVISOR_H_
