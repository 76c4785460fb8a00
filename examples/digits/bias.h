// The gradient of a bias; the same for every block with a bias.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_BIAS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_BIAS_H_

#include "absl/types/span.h"
#include "examples/digits/tensor.h"

namespace lockstep::digits {

// bias_gradient[c] += the sum of d_output over samples and pixels of channel c.
template <typename T>
void AddBiasGradient(const Tensor<T>& d_output, absl::Span<T> bias_gradient) {
  const T* from = d_output.values().data();
  const T* const end = from + d_output.values().size();
  while (from != end) {
    for (T& gradient : bias_gradient) gradient += *from++;
  }
}

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_BIAS_H_
