#include "tests/client/halo/halo_model.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::halo_model {
namespace {

// An array of numbers of the cells of a field; -1 - d: constant, beyond the
// edge of dimension d.
struct NumberArray {
  std::vector<int64_t> shape;
  std::vector<int64_t> numbers;
};

// The cell of a line of `size` cells that is copied to `at`, which is outside;
// -1: none.
int64_t SourceOutside(HaloEdge edge, int64_t at, int64_t size) {
  switch (edge) {
    case HaloEdge::kPeriodic:
      while (at < 0) at += size;
      while (at >= size) at -= size;
      return at;
    case HaloEdge::kReflect: return at < 0 ? -at : 2 * (size - 1) - at;
    case HaloEdge::kReplicate: return at < 0 ? 0 : size - 1;
    default: return -1;
  }
}

NumberArray Padded(const NumberArray& array, size_t d, const HaloDim& dim) {
  if (dim.edge == HaloEdge::kNone) return array;
  const int64_t size = array.shape[d];
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < d; ++i) outer *= array.shape[i];
  for (size_t i = d + 1; i < array.shape.size(); ++i) inner *= array.shape[i];
  NumberArray padded{array.shape, {}};
  padded.shape[d] += dim.low + dim.high;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t at = -dim.low; at < size + dim.high; ++at) {
      const bool is_inside = at >= 0 && at < size;
      const int64_t from = is_inside ? at : SourceOutside(dim.edge, at, size);
      for (int64_t i = 0; i < inner; ++i) {
        padded.numbers.push_back(
            from < 0 ? -1 - static_cast<int64_t>(d)
                     : array.numbers[(o * size + from) * inner + i]);
      }
    }
  }
  return padded;
}

class Modeller {
 public:
  Modeller(const Mesh& mesh, const std::vector<HaloTensor>& tensors)
      : mesh_(mesh), tensors_(tensors) {
    const size_t dims = tensors[0].shape.size();
    dims_.resize(dims);
    for (size_t d = 0; d < dims; ++d) dims_[d].dim = static_cast<int>(d);
    for (HaloDim dim : tensors[0].dims) {
      if (dim.dim < 0) dim.dim += static_cast<int>(dims);
      dims_[dim.dim] = dim;
    }
  }

  TensorModel Make() {
    const size_t ranks = tensors_.size();
    model_.blocks.resize(ranks);
    model_.padded_shapes.resize(ranks);
    model_.padded.resize(ranks);
    std::map<std::vector<int>, std::vector<int>> fields;
    for (size_t r = 0; r < ranks; ++r) {
      std::vector<int> key = mesh_.CoordinatesOf(static_cast<int>(r));
      for (const HaloDim& dim : dims_) {
        if (!dim.axis.empty()) key[mesh_.AxisIndex(dim.axis)] = 0;
      }
      fields[key].push_back(static_cast<int>(r));
    }
    for (const auto& [key, members] : fields) MakeField(members);
    return std::move(model_);
  }

 private:
  int CoordinateOf(int rank, const HaloDim& dim) const {
    return dim.axis.empty()
               ? 0
               : mesh_.CoordinatesOf(rank)[mesh_.AxisIndex(dim.axis)];
  }

  void MakeField(const std::vector<int>& members) {
    std::vector<int64_t> field;
    for (size_t d = 0; d < dims_.size(); ++d) {
      std::map<int, int64_t> sizes;  // by coordinate
      for (const int rank : members) {
        sizes[CoordinateOf(rank, dims_[d])] = tensors_[rank].shape[d];
      }
      for (const int rank : members) {
        int64_t begin = 0;
        for (const auto& [coordinate, size] : sizes) {
          if (coordinate < CoordinateOf(rank, dims_[d])) begin += size;
        }
        model_.blocks[rank].begin.push_back(begin);
      }
      field.push_back(0);
      for (const auto& [coordinate, size] : sizes) field.back() += size;
    }
    std::vector<std::pair<int, int64_t>> owners(CellsOf(field));
    NumberArray array{field, std::vector<int64_t>(owners.size())};
    for (size_t i = 0; i < owners.size(); ++i) {
      array.numbers[i] = static_cast<int64_t>(i);
    }
    for (const int rank : members) {
      model_.blocks[rank].field = field;
      int64_t cell = 0;
      for (const int64_t at :
           CellsOfBox(field, model_.blocks[rank].begin, tensors_[rank].shape)) {
        owners[at] = {rank, cell++};
      }
    }
    for (size_t d = 0; d < dims_.size(); ++d) {
      array = Padded(array, d, dims_[d]);
    }
    for (const int rank : members) TakePart(rank, array, owners);
  }

  void TakePart(int rank, const NumberArray& array,
                const std::vector<std::pair<int, int64_t>>& owners) {
    HaloBlock& block = model_.blocks[rank];
    std::vector<int64_t> begin, shape;
    for (size_t d = 0; d < dims_.size(); ++d) {
      const HaloDim& dim = dims_[d];
      const int64_t size = tensors_[rank].shape[d];
      const int64_t after = block.field[d] - block.begin[d] - size;
      const bool none = dim.edge == HaloEdge::kNone;
      block.low.push_back(none ? std::min(dim.low, block.begin[d]) : dim.low);
      block.high.push_back(none ? std::min(dim.high, after) : dim.high);
      begin.push_back(none ? block.begin[d] - block.low[d] : block.begin[d]);
      shape.push_back(block.low[d] + size + block.high[d]);
    }
    for (const int64_t at : CellsOfBox(array.shape, begin, shape)) {
      const int64_t number = array.numbers[at];
      CellSource& source = model_.padded[rank].emplace_back();
      if (number < 0) {
        const HaloDim& dim = dims_[-1 - number];
        const bool constant = dim.edge == HaloEdge::kConstant;
        source.constant = constant ? dim.constant : 0;
      } else {
        source.rank = owners[number].first;
        source.cell = owners[number].second;
      }
    }
    model_.padded_shapes[rank] = std::move(shape);
  }

  const Mesh& mesh_;
  const std::vector<HaloTensor>& tensors_;
  std::vector<HaloDim> dims_;  // of each dimension
  TensorModel model_;
};

}  // namespace

int64_t CellsOf(const std::vector<int64_t>& shape) {
  int64_t cells = 1;
  for (const int64_t extent : shape) cells *= extent;
  return cells;
}

std::vector<int64_t> CellsOfBox(const std::vector<int64_t>& array,
                                const std::vector<int64_t>& begin,
                                const std::vector<int64_t>& extent) {
  std::vector<int64_t> cells;
  for (int64_t i = 0; i < CellsOf(extent); ++i) {
    int64_t rest = i, stride = 1, at = 0;
    for (size_t d = array.size(); d-- > 0;) {
      at += (begin[d] + rest % extent[d]) * stride;
      rest /= extent[d];
      stride *= array[d];
    }
    cells.push_back(at);
  }
  return cells;
}

TensorModel ModelOf(const Mesh& mesh, const std::vector<HaloTensor>& tensors) {
  return Modeller(mesh, tensors).Make();
}

}  // namespace lockstep::halo_model
