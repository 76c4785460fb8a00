#include "examples/digits/average_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace lockstep::digits {
namespace {

// Calls body(big, small) for each value of a `big` image: its position, and the
// position of its square's mean in the halved image.
template <typename Body>
void ForEachInSquares(const Shape& big, Body body) {
  const int channels = big.channels;
  int at = 0;
  for (int y = 0; y < big.height; ++y) {
    for (int x = 0; x < big.width; ++x) {
      const int square = (y / 2 * (big.width / 2) + x / 2) * channels;
      for (int c = 0; c < channels; ++c) body(at++, square + c);
    }
  }
}

}  // namespace

template <typename T>
AveragePool<T>::AveragePool(std::string name, Shape input)
    : Block<T>(std::move(name), input,
               {input.height / 2, input.width / 2, input.channels}) {
  if (input.height % 2 != 0 || input.width % 2 != 0) {
    Fatal(absl::StrCat(this->name(), ": a side of ", ToString(input),
                       " is not even")
              .c_str());
  }
}

template <typename T>
Tensor<T> AveragePool<T>::Forward(Tensor<T> input, Tensor<T>* saved) const {
  this->CheckInput(input);
  Tensor<T> output(input.batch(), this->output_shape());
  for (int n = 0; n < input.batch(); ++n) {
    const T* from = input.sample(n);
    T* to = output.sample(n);
    ForEachInSquares(this->input_shape(), [from, to](int big, int small) {
      to[small] += from[big] / 4;
    });
  }
  if (saved != nullptr) *saved = {};
  return output;
}

template <typename T>
Tensor<T> AveragePool<T>::BackwardInput(const Tensor<T>& d_output,
                                        const Tensor<T>& /*saved*/) const {
  this->CheckOutput(d_output);
  Tensor<T> d_input(d_output.batch(), this->input_shape());
  for (int n = 0; n < d_output.batch(); ++n) {
    const T* from = d_output.sample(n);
    T* to = d_input.sample(n);
    ForEachInSquares(this->input_shape(), [from, to](int big, int small) {
      to[big] = from[small] / 4;
    });
  }
  return d_input;
}

template class AveragePool<float>;
template class AveragePool<double>;

}  // namespace lockstep::digits
