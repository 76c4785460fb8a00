// Reference for ReduceAny: the definition that tests compare with.

#ifndef LOCKSTEP_KERNELS_REDUCE_ANY_REF_H_
#define LOCKSTEP_KERNELS_REDUCE_ANY_REF_H_

#include <cstddef>
#include <span>

#include "kernels/any_element.h"
#include "kernels/reduce_ref.h"

namespace lockstep::kernels {

inline Bool ReduceBoolRef(ReduceOp op, std::span<const Bool> column) {
  bool all = true;
  bool any = false;
  for (Bool value : column) {
    all = all && value.byte != 0;
    any = any || value.byte != 0;
  }
  return {static_cast<uint8_t>(op == ReduceOp::kMax ? any : all)};
}

template <class R>
Complex<R> ReduceComplexRef(ReduceOp op, std::span<const Complex<R>> column) {
  R real = column[0].real;
  R imaginary = column[0].imaginary;
  for (const auto [c, d] : column.subspan(1)) {
    if (op == ReduceOp::kProd) {
      const R a = real, b = imaginary;
      real = a * c - b * d;
      imaginary = a * d + b * c;
    } else {
      real += c;
      imaginary += d;
    }
  }
  if (op != ReduceOp::kMean) return {real, imaginary};
  const R share = R{1} / static_cast<R>(column.size());
  return {real * share, imaginary * share};
}

template <class T>
T ReduceF8Ref(ReduceOp op, std::span<const T> column) {
  float value = ToF32(column[0]);
  for (T next : column.subspan(1)) value = FoldRef(op, value, ToF32(next));
  if (op == ReduceOp::kMean) value *= 1.0f / static_cast<float>(column.size());
  return ToF8<T>(value);
}

// One element: `column` has its value in each row.
template <class T>
T ReduceAnyRef(ReduceOp op, std::span<const T> column) {
  if constexpr (std::is_same_v<T, Bool>) {
    return ReduceBoolRef(op, column);
  } else if constexpr (kIsComplex<T>) {
    return ReduceComplexRef(op, column);
  } else if constexpr (kIsF8<T>) {
    return ReduceF8Ref(op, column);
  } else {
    T value = column[0];
    for (T next : column.subspan(1)) value = FoldRef(op, value, next);
    return value;
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_REDUCE_ANY_REF_H_
