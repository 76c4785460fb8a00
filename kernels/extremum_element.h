// MarkExtremum on one element: one definition for the host loop and the CUDA
// kernel.

#ifndef LOCKSTEP_KERNELS_EXTREMUM_ELEMENT_H_
#define LOCKSTEP_KERNELS_EXTREMUM_ELEMENT_H_

#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "kernels/any_element.h"
#include "kernels/host_device.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

// The bits of infinity, or of the largest value without one: above are NaNs.
template <class T>
inline constexpr uint32_t kAboveAreNaNs = 0;
template <>
inline constexpr uint32_t kAboveAreNaNs<F16> = 0x7c00;
template <>
inline constexpr uint32_t kAboveAreNaNs<BF16> = 0x7f80;
template <>
inline constexpr uint32_t kAboveAreNaNs<F8E4M3> = 0x7e;
template <>
inline constexpr uint32_t kAboveAreNaNs<F8E5M2> = 0x7c;

// Compares the bits of small floats: equal, or both zeros. So a mode of the
// caller that takes f32 subnormals as zero changes no bf16.
template <class T>
LOCKSTEP_HD bool SameValue(T a, T b) {
  if constexpr (kIsHalf<T> || kIsF8<T>) {
    constexpr uint32_t kMagnitude = sizeof(T) == 1 ? 0x7f : 0x7fff;
    const uint32_t magnitude = a.bits & kMagnitude;
    const uint32_t either = (uint32_t{a.bits} | b.bits) & kMagnitude;
    const bool same = (a.bits == b.bits) & (magnitude <= kAboveAreNaNs<T>);
    return same | (either == 0);
  } else {
    return ToWide(a) == ToWide(b);
  }
}

template <class T>
LOCKSTEP_HD int32_t Mark(T value, T extremum, int32_t index) {
  return SameValue(value, extremum) ? index : INT32_MAX;
}

// Calls f(std::type_identity<T>{}) for every dtype but the complex ones.
template <class F>
void WithOrderedType(DType dtype, F&& f) {
  WithAnyType(dtype, [&](auto tag) {
    if constexpr (kIsComplex<typename decltype(tag)::type>) {
      Fatal("complex numbers have no order");
    } else {
      f(tag);
    }
  });
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_EXTREMUM_ELEMENT_H_
