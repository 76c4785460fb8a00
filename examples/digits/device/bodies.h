// The network's arithmetic for a device: the work of one thread.
//
//   Launch(body, n)   thread i calls body(i), 0 <= i < n: it computes one value
//                     of the output from the inputs that it needs
//
// A body adds its terms in the order of the host's blocks (product.h), each
// rounded separately: so host and device differ only by the differences of exp
// and log. No value is accumulated across threads.
//
// Layouts are those of tensor.h and correlation.h. Compiles with and without
// nvcc: the tests run these bodies on the host.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEVICE_BODIES_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEVICE_BODIES_H_

#include <cmath>
#include <cstdint>
#include <variant>

#include "kernels/host_device.h"
#include "lockstep/verdict_scalars.h"

namespace lockstep::digits {

// The shape of one sample.
struct Plane {
  int height = 1;
  int width = 1;
  int channels = 1;

  LOCKSTEP_HD int64_t At(int64_t n, int y, int x) const {
    return ((n * height + y) * width + x) * channels;
  }
  LOCKSTEP_HD bool Has(int y, int x) const {
    return y >= 0 && y < height && x >= 0 && x < width;
  }
};

// The position of value i in a batch of planes.
struct Spot {
  int64_t n;
  int y, x, c;

  LOCKSTEP_HD Spot(int64_t i, const Plane& plane)
      : n(i / plane.channels / plane.width / plane.height),
        y(static_cast<int>(i / plane.channels / plane.width % plane.height)),
        x(static_cast<int>(i / plane.channels % plane.width)),
        c(static_cast<int>(i % plane.channels)) {}
};

// output(y, x, o) = bias[o] + the 3x3 correlation; one thread per output.
template <typename T>
struct ConvolutionForward {
  const T* input;
  const T* weight;  // [3][3][in][out]
  const T* bias;
  T* output;
  Plane plane;  // of the input
  int out;

  LOCKSTEP_HD void operator()(int64_t i) const {
    const Spot at(i, {plane.height, plane.width, out});
    T sum = bias[at.c];
    for (int tap = 0; tap < 9; ++tap) {
      const int y = at.y + tap / 3 - 1;
      const int x = at.x + tap % 3 - 1;
      if (!plane.Has(y, x)) continue;
      const T* from = input + plane.At(at.n, y, x);
      const T* w = weight + static_cast<int64_t>(tap) * plane.channels * out;
      for (int c = 0; c < plane.channels; ++c)
        sum += from[c] * w[c * out + at.c];
    }
    output[i] = sum;
  }
};

// d_input: the correlation of d_output with the kernel rotated by 180 degrees;
// one thread per input.
template <typename T>
struct ConvolutionBackward {
  const T* d_output;
  const T* weight;
  T* d_input;
  Plane plane;  // of the input
  int out;

  LOCKSTEP_HD void operator()(int64_t i) const {
    const Spot at(i, plane);
    const Plane outputs{plane.height, plane.width, out};
    T sum = 0;
    for (int tap = 0; tap < 9; ++tap) {
      const int y = at.y + tap / 3 - 1;
      const int x = at.x + tap % 3 - 1;
      if (!plane.Has(y, x)) continue;
      const T* from = d_output + outputs.At(at.n, y, x);
      const T* w =
          weight +
          (static_cast<int64_t>(8 - tap) * plane.channels + at.c) * out;
      for (int o = 0; o < out; ++o) sum += from[o] * w[o];
    }
    d_input[i] = sum;
  }
};

// The kernel's gradient: each weight reads every image, shifted by its tap; one
// thread per weight.
template <typename T>
struct ConvolutionGradient {
  const T* input;
  const T* d_output;
  T* gradient;
  Plane plane;  // of the input
  int out;
  int64_t batch;

  LOCKSTEP_HD void operator()(int64_t i) const {
    const int o = static_cast<int>(i % out);
    const int c = static_cast<int>(i / out % plane.channels);
    const int tap = static_cast<int>(i / out / plane.channels);
    const Plane outputs{plane.height, plane.width, out};
    T sum = 0;
    for (int64_t n = 0; n < batch; ++n) {
      for (int y = 0; y < plane.height; ++y) {
        for (int x = 0; x < plane.width; ++x) {
          const int from_y = y + tap / 3 - 1;
          const int from_x = x + tap % 3 - 1;
          if (!plane.Has(from_y, from_x)) continue;
          sum += input[plane.At(n, from_y, from_x) + c] *
                 d_output[outputs.At(n, y, x) + o];
        }
      }
    }
    gradient[i] = sum;
  }
};

// gradient[c]: the sum of d_output over `rows` samples and pixels; one thread
// per channel.
template <typename T>
struct BiasGradient {
  const T* d_output;
  T* gradient;
  int channels;
  int64_t rows;

  LOCKSTEP_HD void operator()(int64_t i) const {
    T sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += d_output[r * channels + i];
    gradient[i] = sum;
  }
};

template <typename T>
struct ReluForward {
  const T* input;
  T* output;

  LOCKSTEP_HD void operator()(int64_t i) const {
    output[i] = input[i] < T{0} ? T{0} : input[i];
  }
};

template <typename T>
struct ReluBackward {
  const T* d_output;
  const T* output;
  T* d_input;

  LOCKSTEP_HD void operator()(int64_t i) const {
    d_input[i] = output[i] > T{0} ? d_output[i] : T{0};
  }
};

// The mean of each 2x2 square; one thread per output.
template <typename T>
struct PoolForward {
  const T* input;
  T* output;
  Plane plane;  // of the input

  LOCKSTEP_HD void operator()(int64_t i) const {
    const Spot at(i, {plane.height / 2, plane.width / 2, plane.channels});
    T sum = 0;
    for (int k = 0; k < 4; ++k) {
      sum +=
          input[plane.At(at.n, 2 * at.y + k / 2, 2 * at.x + k % 2) + at.c] / 4;
    }
    output[i] = sum;
  }
};

// The backward pass of the mean; one thread per input.
template <typename T>
struct PoolBackward {
  const T* d_output;
  T* d_input;
  Plane plane;  // of the input

  LOCKSTEP_HD void operator()(int64_t i) const {
    const Spot at(i, plane);
    const Plane outputs{plane.height / 2, plane.width / 2, plane.channels};
    d_input[i] = d_output[outputs.At(at.n, at.y / 2, at.x / 2) + at.c] / 4;
  }
};

// output = bias + input * weight[in][out]; one thread per output.
template <typename T>
struct DenseForward {
  const T* input;
  const T* weight;
  const T* bias;
  T* output;
  int in;
  int out;

  LOCKSTEP_HD void operator()(int64_t i) const {
    const int64_t n = i / out;
    const int64_t o = i % out;
    T sum = bias[o];
    for (int64_t k = 0; k < in; ++k) {
      sum += input[n * in + k] * weight[k * out + o];
    }
    output[i] = sum;
  }
};

// The input's gradient of a dense layer; one thread per input.
template <typename T>
struct DenseBackward {
  const T* d_output;
  const T* weight;
  T* d_input;
  int in;
  int out;

  LOCKSTEP_HD void operator()(int64_t i) const {
    const int64_t n = i / in;
    const int64_t k = i % in;
    T sum = 0;
    for (int64_t o = 0; o < out; ++o) {
      sum += d_output[n * out + o] * weight[k * out + o];
    }
    d_input[i] = sum;
  }
};

// The weight's gradient of a dense layer; one thread per weight.
template <typename T>
struct DenseGradient {
  const T* input;
  const T* d_output;
  T* gradient;
  int in;
  int out;
  int64_t batch;

  LOCKSTEP_HD void operator()(int64_t i) const {
    const int64_t k = i / out;
    const int64_t o = i % out;
    T sum = 0;
    for (int64_t n = 0; n < batch; ++n) {
      sum += input[n * in + k] * d_output[n * out + o];
    }
    gradient[i] = sum;
  }
};

// As loss.h, one thread per sample: its part of the loss, and d_logits.
template <typename T>
struct SoftmaxLoss {
  const T* logits;
  const int* labels;
  T* d_logits;
  double* losses;
  int classes;
  int64_t global_samples;

  LOCKSTEP_HD void operator()(int64_t n) const {
    const T share = T{1} / static_cast<T>(global_samples);
    const T* row = logits + n * classes;
    T highest = row[0];
    for (int c = 1; c < classes; ++c) {
      highest = highest < row[c] ? row[c] : highest;
    }
    T sum = 0;
    for (int c = 0; c < classes; ++c) sum += std::exp(row[c] - highest);
    const T log_sum = highest + std::log(sum);
    losses[n] = static_cast<double>((log_sum - row[labels[n]]) * share);
    for (int c = 0; c < classes; ++c) {
      const T probability = std::exp(row[c] - log_sum);
      d_logits[n * classes + c] =
          (probability - (c == labels[n] ? T{1} : T{0})) * share;
    }
  }
};

// As sgd.h, one thread per weight, only if the step may change the weights.
template <typename T>
struct SgdUpdate {
  const VerdictScalars* verdict;  // null: the update is unconditional
  const T* gradient;
  T* velocity;
  T* value;
  T learning_rate;
  T momentum;
  T weight_decay;

  LOCKSTEP_HD void operator()(int64_t i) const {
    if (verdict != nullptr && !MayUpdate(*verdict)) return;
    velocity[i] =
        momentum * velocity[i] + (gradient[i] + weight_decay * value[i]);
    value[i] -= learning_rate * velocity[i];
  }
};

template <typename T>
using Body = std::variant<ConvolutionForward<T>, ConvolutionBackward<T>,
                          ConvolutionGradient<T>, BiasGradient<T>,
                          ReluForward<T>, ReluBackward<T>, PoolForward<T>,
                          PoolBackward<T>, DenseForward<T>, DenseBackward<T>,
                          DenseGradient<T>, SoftmaxLoss<T>, SgdUpdate<T>>;

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEVICE_BODIES_H_
