#include "tests/client/halo/distributed_conv.h"

#include <algorithm>
#include <stdexcept>

namespace lockstep::halo_test {
namespace {

struct CellRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
using PlaneRange = std::array<CellRange, 2>;

void Require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

// One rank's part in both dimensions.
struct ConvRank {
  PlaneRange padded;   // cells of the padded field, before the trim
  PlaneRange trimmed;  // and after it
  PlaneRange outputs;
  std::array<ConvBlock, 2> blocks;
  ConvPlane local;  // without padding
};

ConvRank RankAt(const ConvPlane& layer, const PlaneBounds& bounds,
                const PlaneCut& cut, const std::array<size_t, 2>& at) {
  ConvRank rank;
  for (size_t d = 0; d < 2; ++d) {
    const size_t r = at[d];
    const int64_t cells = bounds[d].back();
    CellRange& padded = rank.padded[d];
    padded = {bounds[d][r] - cut[d].low, bounds[d][r + 1] + cut[d].high};
    if (cut[d].edge == HaloEdge::kNone) {
      padded = {std::max<int64_t>(padded.begin, 0),
                std::min(padded.end, cells)};
    }
    const ConvBlock& block = rank.blocks[d] = cut[d].blocks[r];
    Require(block.trim_low >= 0 && block.trim_high >= 0, "negative trim");
    Require(block.crop_low >= 0 && block.crop_high >= 0, "negative crop");
    rank.trimmed[d] = {padded.begin + block.trim_low,
                       padded.end - block.trim_high};
    Require(rank.trimmed[d].size() > 0, "no inputs");
    rank.outputs[d] = {cut[d].output_bounds[r], cut[d].output_bounds[r + 1]};
    rank.local[d] = layer[d];
    rank.local[d].padding_low = rank.local[d].padding_high = 0;
    rank.local[d].output_padding = block.output_padding;
  }
  return rank;
}

template <typename Visit>
void ForEachRank(const ConvPlane& layer, const PlaneBounds& bounds,
                 const PlaneCut& cut, Visit visit) {
  for (size_t r = 0; r + 1 < bounds[0].size(); ++r) {
    for (size_t q = 0; q + 1 < bounds[1].size(); ++q) {
      visit(RankAt(layer, bounds, cut, {r, q}));
    }
  }
}

// The value of the padded field at (i, j) of a sample and channel, and where it
// comes from.
struct PaddedCell {
  int64_t row, column;  // kBeyond in either: a constant
  bool IsInField() const { return row != kBeyond && column != kBeyond; }
};

PaddedCell CellAt(const ConvPlane& layer, const Tensor4& x, int64_t i,
                  int64_t j) {
  return {SourceOf(layer[0], x.shape[2], i), SourceOf(layer[1], x.shape[3], j)};
}

double ConstantAt(const ConvPlane& layer, const PaddedCell& cell) {
  const ConvDim& dim = layer[cell.column == kBeyond ? 1 : 0];
  return dim.edge == HaloEdge::kConstant ? dim.constant : 0;
}

Tensor4 PaddedBlockOf(const ConvPlane& layer, const Tensor4& x,
                      const PlaneRange& range) {
  Tensor4 block = Tensor4::Zeros(
      {x.shape[0], x.shape[1], range[0].size(), range[1].size()});
  for (int64_t i = range[0].begin; i < range[0].end; ++i) {
    for (int64_t j = range[1].begin; j < range[1].end; ++j) {
      const PaddedCell cell = CellAt(layer, x, i, j);
      for (int64_t b = 0; b < x.shape[0]; ++b) {
        for (int64_t c = 0; c < x.shape[1]; ++c) {
          block.at(b, c, i - range[0].begin, j - range[1].begin) =
              cell.IsInField() ? x.at(b, c, cell.row, cell.column)
                               : ConstantAt(layer, cell);
        }
      }
    }
  }
  return block;
}

// The adjoint: adds a padded block's gradient to that of the field.
void AddPaddedBlock(const ConvPlane& layer, const Tensor4& block,
                    const PlaneRange& range, Tensor4& dx) {
  for (int64_t i = range[0].begin; i < range[0].end; ++i) {
    for (int64_t j = range[1].begin; j < range[1].end; ++j) {
      const PaddedCell cell = CellAt(layer, dx, i, j);
      if (!cell.IsInField()) continue;
      for (int64_t b = 0; b < dx.shape[0]; ++b) {
        for (int64_t c = 0; c < dx.shape[1]; ++c) {
          dx.at(b, c, cell.row, cell.column) +=
              block.at(b, c, i - range[0].begin, j - range[1].begin);
        }
      }
    }
  }
}

Tensor4 Sliced(const Tensor4& x, int64_t row, int64_t rows, int64_t column,
               int64_t columns) {
  Require(row >= 0 && rows >= 0 && row + rows <= x.shape[2], "rows");
  Require(column >= 0 && columns >= 0 && column + columns <= x.shape[3],
          "columns");
  Tensor4 slice = Tensor4::Zeros({x.shape[0], x.shape[1], rows, columns});
  for (int64_t b = 0; b < x.shape[0]; ++b) {
    for (int64_t c = 0; c < x.shape[1]; ++c) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          slice.at(b, c, i, j) = x.at(b, c, row + i, column + j);
        }
      }
    }
  }
  return slice;
}

// `x` at (row, column) of a larger tensor of zeros.
Tensor4 Extended(const Tensor4& x, int64_t row, int64_t rows, int64_t column,
                 int64_t columns) {
  Tensor4 large = Tensor4::Zeros({x.shape[0], x.shape[1], rows, columns});
  for (int64_t b = 0; b < x.shape[0]; ++b) {
    for (int64_t c = 0; c < x.shape[1]; ++c) {
      for (int64_t i = 0; i < x.shape[2]; ++i) {
        for (int64_t j = 0; j < x.shape[3]; ++j) {
          large.at(b, c, row + i, column + j) = x.at(b, c, i, j);
        }
      }
    }
  }
  return large;
}

Tensor4 TrimmedBlockOf(const ConvPlane& layer, const ConvRank& rank,
                       const Tensor4& x) {
  return Sliced(PaddedBlockOf(layer, x, rank.padded), rank.blocks[0].trim_low,
                rank.trimmed[0].size(), rank.blocks[1].trim_low,
                rank.trimmed[1].size());
}

// The sizes of the local layer's output, before the crop.
std::array<int64_t, 2> LocalOutputs(const ConvRank& rank) {
  std::array<int64_t, 2> sizes{};
  for (size_t d = 0; d < 2; ++d) {
    sizes[d] = CountOutputs(rank.local[d], rank.trimmed[d].size());
    Require(sizes[d] == rank.blocks[d].crop_low + rank.outputs[d].size() +
                            rank.blocks[d].crop_high,
            "the local output has another size");
  }
  return sizes;
}

}  // namespace

Tensor4 DistributedConv(const ConvPlane& layer, const PlaneBounds& bounds,
                        const PlaneCut& cut, const Tensor4& x,
                        const ConvWeights& weights) {
  const auto channels = static_cast<int64_t>(weights.bias.size());
  Tensor4 y = Tensor4::Zeros({x.shape[0], channels, cut[0].output_bounds.back(),
                              cut[1].output_bounds.back()});
  std::vector<int> owners(y.data.size());
  ForEachRank(layer, bounds, cut, [&](const ConvRank& rank) {
    const auto sizes = LocalOutputs(rank);
    const Tensor4 local =
        ReferenceConv(rank.local, TrimmedBlockOf(layer, rank, x), weights);
    Require(local.shape[2] == sizes[0] && local.shape[3] == sizes[1], "local");
    const Tensor4 own =
        Sliced(local, rank.blocks[0].crop_low, rank.outputs[0].size(),
               rank.blocks[1].crop_low, rank.outputs[1].size());
    for (int64_t b = 0; b < y.shape[0]; ++b) {
      for (int64_t o = 0; o < channels; ++o) {
        for (int64_t i = 0; i < own.shape[2]; ++i) {
          for (int64_t j = 0; j < own.shape[3]; ++j) {
            double& to = y.at(b, o, rank.outputs[0].begin + i,
                              rank.outputs[1].begin + j);
            to = own.at(b, o, i, j);
            ++owners[static_cast<size_t>(&to - y.data.data())];
          }
        }
      }
    }
  });
  Require(std::all_of(owners.begin(), owners.end(),
                      [](int count) { return count == 1; }),
          "an output has not exactly one owner");
  return y;
}

ConvGradients DistributedGradients(const ConvPlane& layer,
                                   const PlaneBounds& bounds,
                                   const PlaneCut& cut, const Tensor4& x,
                                   const ConvWeights& weights,
                                   const Tensor4& dy) {
  ConvGradients sum{Tensor4::Zeros(x.shape),
                    {Tensor4::Zeros(weights.weight.shape),
                     std::vector<double>(weights.bias.size())}};
  ForEachRank(layer, bounds, cut, [&](const ConvRank& rank) {
    const auto sizes = LocalOutputs(rank);
    const Tensor4 own =
        Sliced(dy, rank.outputs[0].begin, rank.outputs[0].size(),
               rank.outputs[1].begin, rank.outputs[1].size());
    const Tensor4 local_dy = Extended(own, rank.blocks[0].crop_low, sizes[0],
                                      rank.blocks[1].crop_low, sizes[1]);
    const ConvGradients local = ReferenceGradients(
        rank.local, TrimmedBlockOf(layer, rank, x), weights, local_dy);
    const Tensor4 padded =
        Extended(local.x, rank.blocks[0].trim_low, rank.padded[0].size(),
                 rank.blocks[1].trim_low, rank.padded[1].size());
    AddPaddedBlock(layer, padded, rank.padded, sum.x);
    for (size_t i = 0; i < sum.weights.weight.data.size(); ++i) {
      sum.weights.weight.data[i] += local.weights.weight.data[i];
    }
    for (size_t o = 0; o < sum.weights.bias.size(); ++o) {
      sum.weights.bias[o] += local.weights.bias[o];
    }
  });
  return sum;
}

}  // namespace lockstep::halo_test
