#include "examples/digits/relu.h"

#include <algorithm>
#include <utility>

namespace lockstep::digits {

template <typename T>
Relu<T>::Relu(std::string name, Shape shape)
    : Block<T>(std::move(name), shape, shape) {}

// Saves its output, which is positive exactly where the input was.
template <typename T>
Tensor<T> Relu<T>::Forward(Tensor<T> input, Tensor<T>* saved) const {
  this->CheckInput(input);
  for (T& value : input.values()) value = std::max(value, T{0});
  if (saved != nullptr) *saved = input;
  return input;
}

template <typename T>
Tensor<T> Relu<T>::BackwardInput(const Tensor<T>& d_output,
                                 const Tensor<T>& saved) const {
  this->CheckOutput(d_output);
  this->CheckSaved(d_output, saved);
  Tensor<T> d_input = d_output;
  const T* output = saved.values().data();
  for (T& value : d_input.values()) {
    value = *output++ > 0 ? value : T{0};
  }
  return d_input;
}

template class Relu<float>;
template class Relu<double>;

}  // namespace lockstep::digits
