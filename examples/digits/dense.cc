#include "examples/digits/dense.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "examples/digits/bias.h"
#include "examples/digits/product.h"

namespace lockstep::digits {
namespace {

constexpr Walk kOnce{1, 0, 0};

// Transposes a matrix.
template <typename T>
std::vector<T> Transposed(absl::Span<const T> matrix, int rows, int columns) {
  std::vector<T> transposed(matrix.size());
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      transposed[c * rows + r] = matrix[r * columns + c];
    }
  }
  return transposed;
}

}  // namespace

template <typename T>
Dense<T>::Dense(std::string name, Shape input, int outputs, uint64_t seed)
    : Block<T>(name, input, {1, 1, outputs}),
      weight_(absl::StrCat(name, ".weight"), {input.size(), outputs}),
      bias_(absl::StrCat(name, ".bias"), {outputs}) {
  Initialise(seed, input.size(), &weight_);
}

template <typename T>
Tensor<T> Dense<T>::Forward(Tensor<T> input, Tensor<T>* saved) const {
  this->CheckInput(input);
  const int in = this->input_shape().size();
  const int out = this->output_shape().size();
  Tensor<T> output(input.batch(), this->output_shape());
  for (int n = 0; n < input.batch(); ++n) {
    std::copy_n(bias_.value().data(), out, output.sample(n));
    AddProduct<T>(kOnce, {in, 1, out}, input.sample(n), weight_.value().data(),
                  out, output.sample(n));
  }
  if (saved != nullptr) *saved = std::move(input);
  return output;
}

template <typename T>
Tensor<T> Dense<T>::BackwardInput(const Tensor<T>& d_output,
                                  const Tensor<T>& /*saved*/) const {
  this->CheckOutput(d_output);
  const int in = this->input_shape().size();
  const int out = this->output_shape().size();
  const std::vector<T> transposed = Transposed(weight_.value(), in, out);
  Tensor<T> d_input(d_output.batch(), this->input_shape());
  for (int n = 0; n < d_output.batch(); ++n) {
    AddProduct<T>(kOnce, {out, 1, in}, d_output.sample(n), transposed.data(),
                  in, d_input.sample(n));
  }
  return d_input;
}

template <typename T>
void Dense<T>::BackwardWeights(const Tensor<T>& d_output,
                               const Tensor<T>& saved) {
  this->CheckOutput(d_output);
  this->CheckSaved(d_output, saved);
  const int in = this->input_shape().size();
  const int out = this->output_shape().size();
  // A row of the gradient, one per input, reads the whole batch.
  const Walk batch{d_output.batch(), in, out};
  for (int i = 0; i < in; ++i) {
    AddProduct<T>(kOnce, batch, saved.values().data() + i,
                  d_output.values().data(), out,
                  weight_.gradient().data() + i * out);
  }
  AddBiasGradient(d_output, bias_.gradient());
}

template class Dense<float>;
template class Dense<double>;

}  // namespace lockstep::digits
