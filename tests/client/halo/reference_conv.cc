#include "tests/client/halo/reference_conv.h"

#include <algorithm>
#include <stdexcept>

namespace lockstep::halo_test {
namespace {

// in[input] * w[tap] is added to out[output], in one dimension.
struct DimTap {
  int64_t input, output, tap;
};

std::vector<DimTap> TapsOf(const ConvDim& dim, int64_t cells) {
  std::vector<DimTap> taps;
  const int64_t outputs = CountOutputs(dim, cells);
  if (dim.transposed) {
    for (int64_t i = 0; i < cells; ++i) {
      for (int64_t t = 0; t < dim.kernel; ++t) {
        const int64_t output =
            i * dim.stride - dim.padding_low + t * dim.dilation;
        if (output >= 0 && output < outputs) taps.push_back({i, output, t});
      }
    }
    return taps;
  }
  for (int64_t j = 0; j < outputs; ++j) {
    for (int64_t t = 0; t < dim.kernel; ++t) {
      const int64_t position =
          j * dim.stride - dim.padding_low + t * dim.dilation;
      taps.push_back({SourceOf(dim, cells, position), j, t});
    }
  }
  return taps;
}

// What a cell beyond the field is: of the last dimension with a constant.
double ConstantOf(const ConvPlane& layer, int64_t row, int64_t column) {
  const ConvDim& dim = column == kBeyond ? layer[1] : layer[0];
  if (row != kBeyond && column != kBeyond) throw std::logic_error("in field");
  return dim.edge == HaloEdge::kConstant ? dim.constant : 0;
}

// Calls visit(sample, in channel, out channel, row tap, column tap).
template <typename Visit>
void ForEachTap(const ConvPlane& layer, const Tensor4& x,
                const ConvWeights& weights, Visit visit) {
  const auto rows = TapsOf(layer[0], x.shape[2]);
  const auto columns = TapsOf(layer[1], x.shape[3]);
  const auto outputs = static_cast<int64_t>(weights.bias.size());
  for (int64_t b = 0; b < x.shape[0]; ++b) {
    for (int64_t c = 0; c < x.shape[1]; ++c) {
      for (int64_t o = 0; o < outputs; ++o) {
        for (const DimTap& row : rows) {
          for (const DimTap& column : columns) visit(b, c, o, row, column);
        }
      }
    }
  }
}

bool IsInField(const DimTap& row, const DimTap& column) {
  return row.input != kBeyond && column.input != kBeyond;
}

double InputAt(const ConvPlane& layer, const Tensor4& x, int64_t b, int64_t c,
               const DimTap& row, const DimTap& column) {
  return IsInField(row, column) ? x.at(b, c, row.input, column.input)
                                : ConstantOf(layer, row.input, column.input);
}

// The weight between in channel c and out channel o.
double& WeightAt(const ConvPlane& layer, Tensor4& weight, int64_t c, int64_t o,
                 const DimTap& row, const DimTap& column) {
  return layer[0].transposed ? weight.at(c, o, row.tap, column.tap)
                             : weight.at(o, c, row.tap, column.tap);
}

}  // namespace

Tensor4 Tensor4::Zeros(std::array<int64_t, 4> shape) {
  return {shape, std::vector<double>(static_cast<size_t>(shape[0] * shape[1] *
                                                         shape[2] * shape[3]))};
}

int64_t SourceOf(const ConvDim& dim, int64_t cells, int64_t position) {
  if (position >= 0 && position < cells) return position;
  switch (dim.edge) {
    case HaloEdge::kZero:
    case HaloEdge::kConstant: return kBeyond;
    case HaloEdge::kPeriodic: return ((position % cells) + cells) % cells;
    case HaloEdge::kReflect: {
      const int64_t source =
          position < 0 ? -position : 2 * (cells - 1) - position;
      if (source < 0 || source >= cells) throw std::logic_error("reflect");
      return source;
    }
    case HaloEdge::kReplicate: return position < 0 ? 0 : cells - 1;
    case HaloEdge::kNone: throw std::logic_error("no cell beyond the field");
  }
  throw std::logic_error("edge");
}

int64_t CountOutputs(const ConvDim& dim, int64_t cells) {
  const int64_t padding = dim.padding_low + dim.padding_high;
  if (dim.transposed) {
    const int64_t last = (cells - 1) * dim.stride +
                         (dim.kernel - 1) * dim.dilation - padding +
                         dim.output_padding;
    return std::max<int64_t>(last + 1, 0);
  }
  int64_t outputs = 0;
  while (outputs * dim.stride + (dim.kernel - 1) * dim.dilation <
         cells + padding) {
    ++outputs;
  }
  return outputs;
}

Tensor4 ReferenceConv(const ConvPlane& layer, const Tensor4& x,
                      const ConvWeights& weights) {
  const auto outputs = static_cast<int64_t>(weights.bias.size());
  Tensor4 y =
      Tensor4::Zeros({x.shape[0], outputs, CountOutputs(layer[0], x.shape[2]),
                      CountOutputs(layer[1], x.shape[3])});
  for (size_t i = 0; i < y.data.size(); ++i) {
    const size_t plane = static_cast<size_t>(y.shape[2] * y.shape[3]);
    y.data[i] = weights.bias[i / plane % weights.bias.size()];
  }
  Tensor4 weight = weights.weight;
  ForEachTap(layer, x, weights,
             [&](int64_t b, int64_t c, int64_t o, const DimTap& row,
                 const DimTap& column) {
               y.at(b, o, row.output, column.output) +=
                   InputAt(layer, x, b, c, row, column) *
                   WeightAt(layer, weight, c, o, row, column);
             });
  return y;
}

ConvGradients ReferenceGradients(const ConvPlane& layer, const Tensor4& x,
                                 const ConvWeights& weights,
                                 const Tensor4& dy) {
  ConvGradients gradients{Tensor4::Zeros(x.shape),
                          {Tensor4::Zeros(weights.weight.shape),
                           std::vector<double>(weights.bias.size())}};
  Tensor4 weight = weights.weight;
  ForEachTap(layer, x, weights,
             [&](int64_t b, int64_t c, int64_t o, const DimTap& row,
                 const DimTap& column) {
               const double d = dy.at(b, o, row.output, column.output);
               WeightAt(layer, gradients.weights.weight, c, o, row, column) +=
                   d * InputAt(layer, x, b, c, row, column);
               if (!IsInField(row, column)) return;
               gradients.x.at(b, c, row.input, column.input) +=
                   d * WeightAt(layer, weight, c, o, row, column);
             });
  for (size_t i = 0; i < dy.data.size(); ++i) {
    const size_t plane = static_cast<size_t>(dy.shape[2] * dy.shape[3]);
    gradients.weights.bias[i / plane % weights.bias.size()] += dy.data[i];
  }
  return gradients;
}

}  // namespace lockstep::halo_test
