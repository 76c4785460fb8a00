// Random tensors for tests.

#ifndef LOCKSTEP_TESTS_EXAMPLES_DIGITS_RANDOM_TENSOR_H_
#define LOCKSTEP_TESTS_EXAMPLES_DIGITS_RANDOM_TENSOR_H_

#include <cmath>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "examples/digits/random.h"
#include "examples/digits/tensor.h"

namespace lockstep::digits {

// Values in -1..1, none closer to 0 than 1/16: farther from the kink of a ReLU
// than the step of a difference quotient.
inline void Fill(absl::string_view name, absl::Span<double> values) {
  const Dice dice(1, name);
  uint64_t index = 0;
  for (double& value : values) {
    const double fair = 2 * dice.Uniform(index++) - 1;
    value = fair * 15 / 16 + std::copysign(1.0 / 16, fair);
  }
}

inline Tensor<double> RandomTensor(absl::string_view name, int batch,
                                   Shape shape) {
  Tensor<double> tensor(batch, shape);
  Fill(name, tensor.values());
  return tensor;
}

// Samples first .. last-1.
inline Tensor<double> Slice(const Tensor<double>& tensor, int first, int last) {
  Tensor<double> slice(last - first, tensor.shape());
  std::copy(tensor.sample(first), tensor.sample(last), slice.sample(0));
  return slice;
}

}  // namespace lockstep::digits

#endif  // LOCKSTEP_TESTS_EXAMPLES_DIGITS_RANDOM_TENSOR_H_
