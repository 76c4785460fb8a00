// The arithmetic of a 3x3 convolution with zero padding, independent of blocks.
//
//   padded      (height + 2) x (width + 2) x in     the image in a frame
//   kernel[3][3][in][out]                           a matrix per offset
//   output      height x width x out
//
//   output(y, x, o) = bias[o] + sum over dy, dx, i of
//                     padded(y + dy, x + dx, i) * kernel[dy][dx][i][o]
//
// A frame of zeros is "same" padding. If the image is divided among several
// ranks, the rows of the frame are the neighbours' rows, and the rest is
// unchanged.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_CORRELATION_H_
#define LOCKSTEP_EXAMPLES_DIGITS_CORRELATION_H_

#include <vector>

#include "absl/types/span.h"
#include "examples/digits/tensor.h"

namespace lockstep::digits {

inline constexpr int kKernelSide = 3;
inline constexpr int kTaps = kKernelSide * kKernelSide;

// Returns the images, each in a frame of zeros one pixel wide.
template <typename T>
Tensor<T> Frame(const Tensor<T>& images);

// The correlation above. The number of output channels is bias.size().
template <typename T>
Tensor<T> Correlate(const Tensor<T>& padded, absl::Span<const T> kernel,
                    absl::Span<const T> bias);

// kernel_gradient += dLoss/dkernel, where d_output is dLoss/doutput. Adds
// sample after sample.
template <typename T>
void AddKernelGradient(const Tensor<T>& padded, const Tensor<T>& d_output,
                       absl::Span<T> kernel_gradient);

// The kernel whose correlation with Frame(d_output) is dLoss/dimages: rotated
// by 180 degrees, with input and output channels exchanged.
template <typename T>
std::vector<T> Adjoint(absl::Span<const T> kernel, int in, int out);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_CORRELATION_H_
