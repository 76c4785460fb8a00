// The arithmetic on one element: one definition for the host loops and the CUDA
// kernels.
//
// Each sum and product is rounded separately: no fused multiply-add on any
// processor. This module is compiled with -ffp-contract=off, its CUDA sources
// with --fmad=false.

#ifndef LOCKSTEP_KERNELS_ELEMENT_H_
#define LOCKSTEP_KERNELS_ELEMENT_H_

#include <type_traits>

#include "kernels/half.h"
#include "kernels/host_device.h"

namespace lockstep::kernels {

// Integers wrap: they are computed in an unsigned type of at least 32 bits,
// which is not promoted.
template <class T>
using Wrapping = std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>;

template <class T>
LOCKSTEP_HD T Sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) +
                          static_cast<Wrapping<T>>(b));
  } else {
    return a + b;
  }
}

template <class T>
LOCKSTEP_HD T Product(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) *
                          static_cast<Wrapping<T>>(b));
  } else {
    return a * b;
  }
}

// If the values are equal (-0 and +0 are), the first; NaN if either is NaN.
template <class T>
LOCKSTEP_HD T Smaller(T a, T b) {
  return (b < a || b != b) ? b : a;
}

template <class T>
LOCKSTEP_HD T Larger(T a, T b) {
  return (b > a || b != b) ? b : a;
}

// round(src * factor), in f64 if a type or the factor is f64, else in f32.
template <class To, class From, class Factor>
LOCKSTEP_HD To Scaled(From from, Factor factor) {
  return ConvertTo<To>(ConvertTo<Factor>(from) * factor);
}

// round(sum + src * weight) in T's Compute type.
template <class T>
LOCKSTEP_HD T AddedScaled(T sum, T src, Compute<T> weight) {
  using C = Compute<T>;
  return ConvertTo<T>(ConvertTo<C>(sum) + ConvertTo<C>(src) * weight);
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_ELEMENT_H_
