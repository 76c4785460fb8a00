// Dispatch from a DType known at run time to its C++ element type.

#ifndef LOCKSTEP_KERNELS_DISPATCH_H_
#define LOCKSTEP_KERNELS_DISPATCH_H_

#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "kernels/half.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

// Calls f(std::type_identity<T>{}), where T is the float type of `dtype`.
template <class F>
void WithFloat(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF16: return f(std::type_identity<F16>{});
    case DType::kBF16: return f(std::type_identity<BF16>{});
    case DType::kF32: return f(std::type_identity<float>{});
    case DType::kF64: return f(std::type_identity<double>{});
    default: Fatal("this kernel takes f16, bf16, f32 and f64 only");
  }
}

// The same for f16 and bf16 only, and for f32 and f64 only.
template <class F>
void WithHalf(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF16: return f(std::type_identity<F16>{});
    case DType::kBF16: return f(std::type_identity<BF16>{});
    default: Fatal("this kernel takes f16 and bf16 only");
  }
}
template <class F>
void WithWide(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32: return f(std::type_identity<float>{});
    case DType::kF64: return f(std::type_identity<double>{});
    default: Fatal("this kernel takes f32 and f64 only");
  }
}

// The same for all ten types.
template <class F>
void WithType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kU8: return f(std::type_identity<uint8_t>{});
    case DType::kI8: return f(std::type_identity<int8_t>{});
    case DType::kI32: return f(std::type_identity<int32_t>{});
    case DType::kU32: return f(std::type_identity<uint32_t>{});
    case DType::kI64: return f(std::type_identity<int64_t>{});
    case DType::kU64: return f(std::type_identity<uint64_t>{});
    default: return WithFloat(dtype, f);
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_DISPATCH_H_
