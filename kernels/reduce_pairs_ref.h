// Reference for ReducePairs: the definition that tests compare with.

#ifndef LOCKSTEP_KERNELS_REDUCE_PAIRS_REF_H_
#define LOCKSTEP_KERNELS_REDUCE_PAIRS_REF_H_

#include <cstddef>

#include "kernels/element.h"

namespace lockstep::kernels {

template <class T>
T SumOfPairsRef(const T* inputs, int rows, size_t count, size_t i) {
  if (rows == 1) return inputs[i];
  const int half = rows / 2;
  return SumOfPairsRef(inputs, half, count, i) +
         SumOfPairsRef(inputs + half * count, half, count, i);
}

template <class T, class Out>
void ReducePairsRef(const T* inputs, int rows, double factor, Out* out,
                    size_t count) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = Scaled<Out>(SumOfPairsRef(inputs, rows, count, i),
                         static_cast<T>(factor));
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_REDUCE_PAIRS_REF_H_
