// Types of the tensors that pipeline stages exchange.

#ifndef LOCKSTEP_TENSOR_TYPE_H_
#define LOCKSTEP_TENSOR_TYPE_H_

#include <cstdint>
#include <vector>

#include "lockstep/dtype.h"

namespace lockstep {

// The type of a tensor with a fixed shape: f32[4,128].
struct TensorType {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  bool operator==(const TensorType&) const = default;
};

// The message from a stage to the next: one tensor or several parts. The
// gradient in the other direction has the floating-point parts only.
struct Activation {
  std::vector<TensorType> parts;
  bool operator==(const Activation&) const = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TENSOR_TYPE_H_
