#include "kernels/constant.h"

#include <cstring>
#include <type_traits>

#include "kernels/any_element.h"

namespace lockstep::kernels {
namespace {

template <class T>
T ConstantOf(double value) {
  if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<uint8_t>(value != 0)};
  } else if constexpr (kIsComplex<T>) {
    return {static_cast<decltype(T::real)>(value), 0};
  } else if constexpr (kIsF8<T>) {
    return ToF8<T>(static_cast<float>(value));
  } else if constexpr (kIsHalf<T>) {
    return ConvertTo<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace

void WriteConstant(double value, DType dtype, std::byte* element) {
  WithAnyType(dtype, [&]<class T>(std::type_identity<T>) {
    const T constant = ConstantOf<T>(value);
    std::memcpy(element, &constant, sizeof(constant));
  });
}

}  // namespace lockstep::kernels
