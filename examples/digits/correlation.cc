#include "examples/digits/correlation.h"

#include <algorithm>

#include "examples/digits/product.h"

namespace lockstep::digits {

template <typename T>
Tensor<T> Frame(const Tensor<T>& images) {
  const auto [height, width, channels] = images.shape();
  Tensor<T> padded(images.batch(), {height + 2, width + 2, channels});
  const int row = width * channels;
  const int padded_row = (width + 2) * channels;
  for (int n = 0; n < images.batch(); ++n) {
    const T* from = images.sample(n);
    T* to = padded.sample(n) + padded_row + channels;
    for (int y = 0; y < height; ++y) {
      std::copy_n(from + y * row, row, to + y * padded_row);
    }
  }
  return padded;
}

template <typename T>
Tensor<T> Correlate(const Tensor<T>& padded, absl::Span<const T> kernel,
                    absl::Span<const T> bias) {
  const int in = padded.shape().channels;
  const int out = static_cast<int>(bias.size());
  const int padded_row = padded.shape().width * in;
  const int height = padded.shape().height - 2;
  const int width = padded.shape().width - 2;
  // Three neighbouring pixels of a row are 3 * in contiguous values.
  const Walk rows{kKernelSide, padded_row, kKernelSide * in * out};
  const Walk row{kKernelSide * in, 1, out};

  Tensor<T> output(padded.batch(), {height, width, out});
  T* to = output.values().data();
  for (int n = 0; n < padded.batch(); ++n) {
    for (int y = 0; y < height; ++y) {
      const T* from = padded.sample(n) + y * padded_row;
      for (int x = 0; x < width; ++x, from += in, to += out) {
        std::copy(bias.begin(), bias.end(), to);
        AddProduct(rows, row, from, kernel.data(), out, to);
      }
    }
  }
  return output;
}

template <typename T>
void AddKernelGradient(const Tensor<T>& padded, const Tensor<T>& d_output,
                       absl::Span<T> kernel_gradient) {
  const int in = padded.shape().channels;
  const auto [height, width, out] = d_output.shape();
  const int padded_row = padded.shape().width * in;
  // One tap of one input channel reads the whole image, shifted by the tap.
  const Walk rows{height, padded_row, width * out};
  const Walk row{width, in, out};

  for (int n = 0; n < padded.batch(); ++n) {
    T* gradient = kernel_gradient.data();
    for (int dy = 0; dy < kKernelSide; ++dy) {
      const T* from = padded.sample(n) + dy * padded_row;
      for (int tap = 0; tap < kKernelSide * in; ++tap, gradient += out) {
        AddProduct(rows, row, from + tap, d_output.sample(n), out, gradient);
      }
    }
  }
}

template <typename T>
std::vector<T> Adjoint(absl::Span<const T> kernel, int in, int out) {
  std::vector<T> adjoint(kernel.size());
  for (int tap = 0; tap < kTaps; ++tap) {
    for (int i = 0; i < in; ++i) {
      for (int o = 0; o < out; ++o) {
        adjoint[((kTaps - 1 - tap) * out + o) * in + i] =
            kernel[(tap * in + i) * out + o];
      }
    }
  }
  return adjoint;
}

#define LOCKSTEP_DIGITS_INSTANTIATE(T)                                \
  template Tensor<T> Frame(const Tensor<T>&);                         \
  template Tensor<T> Correlate(const Tensor<T>&, absl::Span<const T>, \
                               absl::Span<const T>);                  \
  template void AddKernelGradient(const Tensor<T>&, const Tensor<T>&, \
                                  absl::Span<T>);                     \
  template std::vector<T> Adjoint(absl::Span<const T>, int, int);
LOCKSTEP_DIGITS_INSTANTIATE(float)
LOCKSTEP_DIGITS_INSTANTIATE(double)
#undef LOCKSTEP_DIGITS_INSTANTIATE

}  // namespace lockstep::digits
