// Divide on one element, and its dtypes: one definition for the host loop and
// the CUDA kernel.

#ifndef LOCKSTEP_KERNELS_DIVIDE_ELEMENT_H_
#define LOCKSTEP_KERNELS_DIVIDE_ELEMENT_H_

#include <type_traits>

#include "kernels/any_element.h"
#include "kernels/host_device.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

template <class T>
LOCKSTEP_HD T Quotient(T value, Wide<T> divisor) {
  return FromWide<T>(ToWide(value) / divisor);
}

// Calls f(std::type_identity<T>{}, length) for the real floats, where `length`
// is the number of them in an element of `dtype`.
template <class F>
void WithParts(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF8E4M3: return f(std::type_identity<F8E4M3>{}, 1);
    case DType::kF8E5M2: return f(std::type_identity<F8E5M2>{}, 1);
    case DType::kC64: return f(std::type_identity<float>{}, 2);
    case DType::kC128: return f(std::type_identity<double>{}, 2);
    default: return WithFloat(dtype, [&](auto tag) { f(tag, 1); });
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_DIVIDE_ELEMENT_H_
