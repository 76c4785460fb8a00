// A box of elements of a tensor.

#ifndef LOCKSTEP_PROTOCOL_TENSOR_BOX_H_
#define LOCKSTEP_PROTOCOL_TENSOR_BOX_H_

#include <cstdint>
#include <vector>

namespace lockstep {

// The elements p with begin[d] <= p[d] < begin[d] + shape[d] in every
// dimension; without dimensions: the element of a scalar.
struct TensorBox {
  std::vector<int64_t> begin;
  std::vector<int64_t> shape;
  bool operator==(const TensorBox&) const = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_TENSOR_BOX_H_
