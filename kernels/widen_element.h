// The conversions of widen.h on one element, and their dtypes: one definition
// for the host loops and the CUDA kernels.

#ifndef LOCKSTEP_KERNELS_WIDEN_ELEMENT_H_
#define LOCKSTEP_KERNELS_WIDEN_ELEMENT_H_

#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "kernels/any_element.h"
#include "kernels/host_device.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

template <class From>
LOCKSTEP_HD int32_t ToI32(From value) {
  return ToWide(value);
}

template <class To>
LOCKSTEP_HD To FromI32(int32_t value) {
  if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(value != 0)};
  } else {
    return static_cast<To>(value);
  }
}

template <class From>
LOCKSTEP_HD float RoundedToF32(From value) {
  return static_cast<float>(ToWide(value));
}

// Calls f(std::type_identity<T>{}) for bool and the integers below 32 bits.
template <class F>
void WithNarrowInteger(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kU8: return f(std::type_identity<uint8_t>{});
    case DType::kI8: return f(std::type_identity<int8_t>{});
    case DType::kI16: return f(std::type_identity<int16_t>{});
    case DType::kU16: return f(std::type_identity<uint16_t>{});
    case DType::kBool: return f(std::type_identity<Bool>{});
    default: Fatal("this kernel takes bool, i8, u8, i16 and u16 only");
  }
}

// The same for bool, all integers and f32.
template <class F>
void WithIntegerOrF32(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kI32: return f(std::type_identity<int32_t>{});
    case DType::kU32: return f(std::type_identity<uint32_t>{});
    case DType::kI64: return f(std::type_identity<int64_t>{});
    case DType::kU64: return f(std::type_identity<uint64_t>{});
    case DType::kF32: return f(std::type_identity<float>{});
    case DType::kF16:
    case DType::kBF16:
    case DType::kF64:
    case DType::kC64:
    case DType::kC128:
    case DType::kF8E4M3:
    case DType::kF8E5M2: Fatal("this kernel takes bool, integers and f32 only");
    default: return WithNarrowInteger(dtype, f);
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_WIDEN_ELEMENT_H_
