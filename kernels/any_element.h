// The element types that only named-axis collectives have, and how a value of
// any type is widened, combined and rounded: one definition for the host loops
// and the CUDA kernels. The arithmetic on widened values is that of element.h.
//
//   element   f16 bf16 f8e4m3 f8e5m2   bool       others, complex too
//   wide      f32                      u8: 0, 1   the same type

#ifndef LOCKSTEP_KERNELS_ANY_ELEMENT_H_
#define LOCKSTEP_KERNELS_ANY_ELEMENT_H_

#include <cstdint>
#include <type_traits>

#include "kernels/dispatch.h"
#include "kernels/element.h"
#include "kernels/f8.h"
#include "kernels/half.h"
#include "kernels/host_device.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

// 0 is false, every other byte is true; the kernels write 0 and 1.
struct Bool {
  uint8_t byte;
};

template <class R>
struct Complex {
  R real;
  R imaginary;
};

template <class T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, Complex<float>> || std::is_same_v<T, Complex<double>>;

// More specialised than the functions of element.h. No part is fused, and a
// product of infinities is not corrected.
template <class R>
LOCKSTEP_HD Complex<R> Sum(Complex<R> a, Complex<R> b) {
  return {a.real + b.real, a.imaginary + b.imaginary};
}
template <class R>
LOCKSTEP_HD Complex<R> Product(Complex<R> a, Complex<R> b) {
  return {a.real * b.real - a.imaginary * b.imaginary,
          a.real * b.imaginary + a.imaginary * b.real};
}
template <class R>
LOCKSTEP_HD Complex<R> Product(Complex<R> a, R factor) {
  return {a.real * factor, a.imaginary * factor};
}

// The type in which values of T are reduced.
template <class T>
using Wide =
    std::conditional_t<kIsHalf<T> || kIsF8<T>, float,
                       std::conditional_t<std::is_same_v<T, Bool>, uint8_t, T>>;

template <class T>
LOCKSTEP_HD Wide<T> ToWide(T value) {
  if constexpr (kIsHalf<T> || kIsF8<T>) {
    return ToF32(value);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return value.byte != 0 ? 1 : 0;
  } else {
    return value;
  }
}

// Rounds once.
template <class T>
LOCKSTEP_HD T FromWide(Wide<T> value) {
  if constexpr (kIsHalf<T>) {
    return ConvertTo<T>(value);
  } else if constexpr (kIsF8<T>) {
    return ToF8<T>(value);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {value};
  } else {
    return value;
  }
}

// The factor of a mean: the real type of a complex number, else Wide<T>.
template <class T>
struct ShareOf {
  using type = Wide<T>;
};
template <class R>
struct ShareOf<Complex<R>> {
  using type = R;
};
template <class T>
using Share = typename ShareOf<T>::type;

// Calls f(std::type_identity<T>{}) for the dtypes that a Communicator does not
// have.
template <class F>
void WithOtherType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kI16: return f(std::type_identity<int16_t>{});
    case DType::kU16: return f(std::type_identity<uint16_t>{});
    case DType::kBool: return f(std::type_identity<Bool>{});
    case DType::kC64: return f(std::type_identity<Complex<float>>{});
    case DType::kC128: return f(std::type_identity<Complex<double>>{});
    case DType::kF8E4M3: return f(std::type_identity<F8E4M3>{});
    case DType::kF8E5M2: return f(std::type_identity<F8E5M2>{});
    default: Fatal("this kernel takes no dtype of a Communicator");
  }
}

// The same for all 17 dtypes.
template <class F>
void WithAnyType(DType dtype, F&& f) {
  if (IsTransportDType(dtype)) return WithType(dtype, f);
  WithOtherType(dtype, f);
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_ANY_ELEMENT_H_
