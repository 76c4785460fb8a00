// Reference for AddLeaf: the definition that tests compare with.

#ifndef LOCKSTEP_KERNELS_ADD_LEAF_REF_H_
#define LOCKSTEP_KERNELS_ADD_LEAF_REF_H_

#include <cstddef>
#include <span>

#include "kernels/element.h"

namespace lockstep::kernels {

// Element i of AddLeaf's output.
template <class Sum, class Leaf>
LOCKSTEP_HD Sum AddLeafRef(const Sum* const* left, size_t sums,
                           const Leaf* leaf, Compute<Leaf> weight, size_t i) {
  Sum sum = ConvertTo<Sum>(Scaled<Leaf>(leaf[i], weight));
  for (size_t k = 0; k < sums; ++k) sum = left[k][i] + sum;
  return sum;
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_ADD_LEAF_REF_H_
