#include "examples/digits/convolution.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "examples/digits/bias.h"
#include "examples/digits/correlation.h"

namespace lockstep::digits {

template <typename T>
Convolution<T>::Convolution(std::string name, Shape input, int out_channels,
                            uint64_t seed, RowDomain<T>* domain)
    : Block<T>(name, input, {input.height, input.width, out_channels}),
      domain_(domain),
      weight_(absl::StrCat(name, ".weight"),
              {kKernelSide, kKernelSide, input.channels, out_channels}),
      bias_(absl::StrCat(name, ".bias"), {out_channels}) {
  Initialise(seed, kTaps * input.channels, &weight_);
}

template <typename T>
Tensor<T> Convolution<T>::Forward(Tensor<T> input, Tensor<T>* saved) const {
  this->CheckInput(input);
  Tensor<T> padded =
      domain_ == nullptr ? Frame(input) : domain_->Frame(this->name(), input);
  Tensor<T> output = Correlate(padded, weight_.value(), bias_.value());
  if (saved != nullptr) *saved = std::move(padded);
  return output;
}

template <typename T>
Tensor<T> Convolution<T>::BackwardInput(const Tensor<T>& d_output,
                                        const Tensor<T>& /*saved*/) const {
  this->CheckOutput(d_output);
  const int in = this->input_shape().channels;
  const int out = this->output_shape().channels;
  const std::vector<T> adjoint = Adjoint(weight_.value(), in, out);
  const std::vector<T> no_bias(in);
  if (domain_ == nullptr) {
    return Correlate<T>(Frame(d_output), adjoint, no_bias);
  }
  // The gradient of the frame, too: rows of it are the neighbours'.
  return domain_->FrameAdjoint(
      this->name(), Correlate<T>(Frame(Frame(d_output)), adjoint, no_bias));
}

template <typename T>
void Convolution<T>::BackwardWeights(const Tensor<T>& d_output,
                                     const Tensor<T>& saved) {
  this->CheckOutput(d_output);
  this->CheckSaved(d_output, saved);
  AddKernelGradient(saved, d_output, weight_.gradient());
  AddBiasGradient(d_output, bias_.gradient());
}

template class Convolution<float>;
template class Convolution<double>;

}  // namespace lockstep::digits
