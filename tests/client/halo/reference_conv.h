// A convolution or transposed convolution over at most two spatial dimensions,
// with all gradients, on one process: the obvious loops over the definition,
// which torch_layers_test.cc compares with PyTorch.

#ifndef LOCKSTEP_TESTS_CLIENT_HALO_REFERENCE_CONV_H_
#define LOCKSTEP_TESTS_CLIENT_HALO_REFERENCE_CONV_H_

#include <array>
#include <cstdint>
#include <vector>

#include "lockstep/halo_layers.h"

namespace lockstep::halo_test {

// [samples or outputs, channels, rows, columns], row by row.
struct Tensor4 {
  std::array<int64_t, 4> shape{};
  std::vector<double> data;

  static Tensor4 Zeros(std::array<int64_t, 4> shape);
  double& at(int64_t a, int64_t b, int64_t i, int64_t j) {
    return data[static_cast<size_t>(
        ((a * shape[1] + b) * shape[2] + i) * shape[3] + j)];
  }
  double at(int64_t a, int64_t b, int64_t i, int64_t j) const {
    return const_cast<Tensor4*>(this)->at(a, b, i, j);
  }
  bool operator==(const Tensor4&) const = default;
};

// Both dimensions are transposed, or none.
using ConvPlane = std::array<ConvDim, 2>;

// Where a padded field takes the cell at `position` from, by the edge rule:
// a cell of the field, or kBeyond for a constant.
inline constexpr int64_t kBeyond = -1;
int64_t SourceOf(const ConvDim& dim, int64_t cells, int64_t position);

// 0 if the layer has no output.
int64_t CountOutputs(const ConvDim& dim, int64_t cells);

// weight: [outputs, inputs, k0, k1], transposed [inputs, outputs, k0, k1], as
// in PyTorch. bias: one for each output channel.
struct ConvWeights {
  Tensor4 weight;
  std::vector<double> bias;
  bool operator==(const ConvWeights&) const = default;
};

Tensor4 ReferenceConv(const ConvPlane& layer, const Tensor4& x,
                      const ConvWeights& weights);

struct ConvGradients {
  Tensor4 x;
  ConvWeights weights;
  bool operator==(const ConvGradients&) const = default;
};
ConvGradients ReferenceGradients(const ConvPlane& layer, const Tensor4& x,
                                 const ConvWeights& weights, const Tensor4& dy);

}  // namespace lockstep::halo_test

#endif  // LOCKSTEP_TESTS_CLIENT_HALO_REFERENCE_CONV_H_
