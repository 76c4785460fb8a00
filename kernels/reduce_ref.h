// Reference for ReduceRanks: the definition that tests compare with.

#ifndef LOCKSTEP_KERNELS_REDUCE_REF_H_
#define LOCKSTEP_KERNELS_REDUCE_REF_H_

#include <cstddef>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "kernels/element.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

template <class C>
C FoldRef(ReduceOp op, C a, C b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean: return Sum(a, b);
    case ReduceOp::kMin: return Smaller(a, b);
    case ReduceOp::kMax: return Larger(a, b);
    case ReduceOp::kProd: return Product(a, b);
  }
  Fatal("no such ReduceOp");
}

template <class T>
void ReduceRanksRef(std::span<const T* const> inputs, T* out, size_t count,
                    ReduceOp op, int divisor = 0) {
  using C = Compute<T>;
  const size_t by = divisor > 0 ? divisor : inputs.size();
  auto widen = [](T x) {
    if constexpr (kIsHalf<T>)
      return ToF32(x);
    else
      return x;
  };
  for (size_t i = 0; i < count; ++i) {
    C value = widen(inputs[0][i]);
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      value = FoldRef(op, value, C{widen(inputs[rank][i])});
    }
    if (op == ReduceOp::kMean) {
      const C share = static_cast<C>(1) / static_cast<C>(by);
      value = Product(value, share);
    }
    if constexpr (kIsHalf<T>)
      out[i] = ConvertTo<T>(value);
    else
      out[i] = value;
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_REDUCE_REF_H_
