// Reference for CastScale: the definition that tests compare with.

#ifndef LOCKSTEP_KERNELS_CAST_SCALE_REF_H_
#define LOCKSTEP_KERNELS_CAST_SCALE_REF_H_

#include <cstddef>
#include <type_traits>

#include "kernels/element.h"

namespace lockstep::kernels {

template <class From, class To>
void CastScaleRef(const From* src, double factor, To* dst, size_t count) {
  constexpr bool kWide =
      std::is_same_v<From, double> || std::is_same_v<To, double>;
  using C = std::conditional_t<kWide, double, float>;
  for (size_t i = 0; i < count; ++i) {
    dst[i] = Scaled<To>(src[i], static_cast<C>(factor));
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_CAST_SCALE_REF_H_
