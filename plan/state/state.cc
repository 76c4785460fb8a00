#include "plan/state/state.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "protocol/state.h"

namespace lockstep::plan {
namespace {

template <typename... Args>
absl::Status Invalid(const StateTensor& tensor,
                     const absl::FormatSpec<Args...>& format,
                     const Args&... args) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "state \"%s\": %s", tensor.name, absl::StrFormat(format, args...)));
}

int BlocksOver(const std::vector<std::string>& axes, const Mesh& mesh) {
  int blocks = 1;
  for (const std::string& axis : axes) {
    blocks *= mesh.axes[static_cast<size_t>(mesh.AxisIndex(axis))].size;
  }
  return blocks;
}

absl::Status CheckDims(const StateTensor& tensor, const Mesh& mesh) {
  if (tensor.dims.size() > size_t{kStateDimsMax}) {
    return Invalid(tensor, "%d dimensions; state has at most %d",
                   tensor.dims.size(), kStateDimsMax);
  }
  std::set<std::string> cut;
  int64_t bytes = static_cast<int64_t>(SizeOf(tensor.dtype));
  for (size_t d = 0; d < tensor.dims.size(); ++d) {
    const StateDim& dim = tensor.dims[d];
    for (const std::string& axis : dim.axes) {
      if (mesh.AxisIndex(axis) < 0) {
        return Invalid(tensor, "dimension %d is cut over %s; the mesh is %s", d,
                       axis, ToString(mesh));
      }
      if (!cut.insert(axis).second) {
        return Invalid(tensor, "axis %s cuts twice", axis);
      }
    }
    const auto blocks = static_cast<size_t>(BlocksOver(dim.axes, mesh));
    if (dim.bounds.size() != blocks + 1) {
      return Invalid(tensor, "dimension %d has %d bounds; %d blocks have %d", d,
                     dim.bounds.size(), blocks, blocks + 1);
    }
    if (dim.bounds[0] != 0 ||
        !std::is_sorted(dim.bounds.begin(), dim.bounds.end())) {
      return Invalid(tensor, "the bounds of dimension %d do not rise from 0",
                     d);
    }
    const int64_t extent = std::max<int64_t>(dim.extent(), 1);
    if (bytes > std::numeric_limits<int64_t>::max() / extent) {
      return Invalid(tensor, "its size overflows");
    }
    bytes *= extent;
  }
  return absl::OkStatus();
}

absl::Status CheckRanks(const StateTensor& tensor, const Mesh& mesh) {
  if (tensor.ranks.empty()) return Invalid(tensor, "no rank holds it");
  for (size_t i = 0; i < tensor.ranks.size(); ++i) {
    const int rank = tensor.ranks[i];
    if (rank < 0 || rank >= mesh.WorldSize()) {
      return Invalid(tensor, "rank %d is not in the mesh %s", rank,
                     ToString(mesh));
    }
    if (i > 0 && rank <= tensor.ranks[i - 1]) {
      return Invalid(tensor, "its ranks do not rise: %d follows %d", rank,
                     tensor.ranks[i - 1]);
    }
  }
  return absl::OkStatus();
}

// The blocks of a tensor, numbered row-major over its dimensions.
class BlockGrid {
 public:
  BlockGrid(const StateTensor& tensor, const Mesh& mesh)
      : tensor_(tensor), mesh_(mesh), stride_(mesh.axes.size(), 0) {
    int64_t stride = 1;
    for (size_t d = tensor.dims.size(); d-- > 0;) {
      const std::vector<std::string>& axes = tensor.dims[d].axes;
      for (size_t i = axes.size(); i-- > 0;) {
        const auto axis = static_cast<size_t>(mesh.AxisIndex(axes[i]));
        stride_[axis] = stride;
        stride *= mesh.axes[axis].size;
      }
    }
  }

  int64_t NumberOf(int rank) const {
    int64_t number = 0;
    for (size_t a = mesh_.axes.size(); a-- > 0; rank /= mesh_.axes[a].size) {
      number += rank % mesh_.axes[a].size * stride_[a];
    }
    return number;
  }

  TensorBox BoxOf(int64_t number) const {
    TensorBox box;
    const size_t dims = tensor_.dims.size();
    box.begin.resize(dims);
    box.shape.resize(dims);
    for (size_t d = dims; d-- > 0;) {
      const std::vector<int64_t>& bounds = tensor_.dims[d].bounds;
      const auto blocks = static_cast<int64_t>(bounds.size()) - 1;
      const auto at = static_cast<size_t>(number % blocks);
      number /= blocks;
      box.begin[d] = bounds[at];
      box.shape[d] = bounds[at + 1] - bounds[at];
    }
    return box;
  }

 private:
  const StateTensor& tensor_;
  const Mesh& mesh_;
  std::vector<int64_t> stride_;  // by axis of the mesh; 0: it cuts nothing
};

int64_t CountIn(const TensorBox& box) {
  int64_t count = 1;
  for (const int64_t extent : box.shape) count *= extent;
  return count;
}

// What ranks hold of one block.
struct Holding {
  int64_t block = 0;
  StateSlice slice;
  int rank = 0;
  auto Key() const { return std::tie(block, slice.offset, slice.count, rank); }
};

// Sorted by block and slice. Ranks without elements are left out.
std::vector<Holding> HoldingsOf(const StateTensor& tensor, const Mesh& mesh) {
  const BlockGrid blocks(tensor, mesh);
  std::vector<Holding> holdings;
  holdings.reserve(tensor.ranks.size());
  for (size_t i = 0; i < tensor.ranks.size(); ++i) {
    const int64_t block = blocks.NumberOf(tensor.ranks[i]);
    const StateSlice slice = tensor.slices.empty()
                                 ? StateSlice{0, CountIn(blocks.BoxOf(block))}
                                 : tensor.slices[i];
    if (slice.count > 0) holdings.push_back({block, slice, tensor.ranks[i]});
  }
  std::sort(
      holdings.begin(), holdings.end(),
      [](const Holding& a, const Holding& b) { return a.Key() < b.Key(); });
  return holdings;
}

absl::Status CheckSlices(const StateTensor& tensor, const Mesh& mesh) {
  if (tensor.slices.empty()) return absl::OkStatus();
  if (tensor.slices.size() != tensor.ranks.size()) {
    return Invalid(tensor, "%d slices of %d ranks", tensor.slices.size(),
                   tensor.ranks.size());
  }
  const BlockGrid blocks(tensor, mesh);
  for (size_t i = 0; i < tensor.slices.size(); ++i) {
    const StateSlice& slice = tensor.slices[i];
    const int rank = tensor.ranks[i];
    const int64_t count = CountIn(blocks.BoxOf(blocks.NumberOf(rank)));
    if (slice.offset < 0 || slice.count < 0 || slice.offset > count ||
        slice.count > count - slice.offset) {
      return Invalid(tensor, "rank %d holds %s of a block of %d", rank,
                     Describe(slice), count);
    }
  }
  return absl::OkStatus();
}

// All elements are held, each in one slice.
absl::Status CheckHeld(const StateTensor& tensor, const Mesh& mesh) {
  const BlockGrid blocks(tensor, mesh);
  int64_t elements = 1;
  for (const StateDim& dim : tensor.dims) elements *= dim.extent();
  int64_t held = 0;
  const Holding* last = nullptr;
  const std::vector<Holding> holdings = HoldingsOf(tensor, mesh);
  for (const Holding& holding : holdings) {
    const bool same_block = last != nullptr && last->block == holding.block;
    if (same_block && last->slice == holding.slice) continue;
    if (same_block &&
        holding.slice.offset < last->slice.offset + last->slice.count) {
      return Invalid(tensor,
                     "ranks %d and %d hold different slices that overlap: %s "
                     "and %s",
                     last->rank, holding.rank, Describe(last->slice),
                     Describe(holding.slice));
    }
    held += holding.slice.count;
    last = &holding;
  }
  if (held == elements) return absl::OkStatus();
  return Invalid(tensor, "%d of its %d elements are held by no rank",
                 elements - held, elements);
}

// Appends the boxes of elements [begin, end) of the part of `block` that has
// the indices box->begin in the dimensions before `d`.
void AddBoxes(const TensorBox& block, size_t d, int64_t begin, int64_t end,
              TensorBox box, std::vector<HeldBox>* boxes) {
  if (begin == end) return;
  int64_t inner = 1;  // elements of one index of dimension d
  for (size_t i = d + 1; i < block.shape.size(); ++i) inner *= block.shape[i];
  const auto add_rows = [&](int64_t first, int64_t last) {
    if (first == last) return;
    TensorBox rows = box;
    if (d < block.shape.size()) {
      rows.begin[d] = block.begin[d] + first;
      rows.shape[d] = last - first;
    }
    const int64_t offset =
        boxes->empty() ? 0 : boxes->back().offset + CountIn(boxes->back().box);
    boxes->push_back({std::move(rows), offset});
  };
  const auto add_in_row = [&](int64_t row, int64_t from, int64_t to) {
    TensorBox inside = box;
    inside.begin[d] = block.begin[d] + row;
    inside.shape[d] = 1;
    AddBoxes(block, d + 1, from, to, std::move(inside), boxes);
  };
  if (begin / inner == end / inner && begin % inner != 0) {
    add_in_row(begin / inner, begin % inner, end % inner);
    return;
  }
  const int64_t first = (begin + inner - 1) / inner;
  if (begin % inner != 0) add_in_row(first - 1, begin % inner, inner);
  add_rows(first, end / inner);
  if (end % inner != 0) add_in_row(end / inner, 0, end % inner);
}

}  // namespace

std::vector<int64_t> EvenBounds(int64_t extent, int blocks) {
  std::vector<int64_t> bounds = {0};
  for (int i = 0; i < blocks; ++i) {
    bounds.push_back(bounds.back() + extent / blocks +
                     (i < extent % blocks ? 1 : 0));
  }
  return bounds;
}

absl::Status Validate(const StateTensor& tensor, const Mesh& mesh) {
  absl::Status status = CheckDims(tensor, mesh);
  if (status.ok()) status = CheckRanks(tensor, mesh);
  if (status.ok()) status = CheckSlices(tensor, mesh);
  if (status.ok()) status = CheckHeld(tensor, mesh);
  return status;
}

TensorBox BlockOf(const StateTensor& tensor, const Mesh& mesh, int rank) {
  const BlockGrid blocks(tensor, mesh);
  return blocks.BoxOf(blocks.NumberOf(rank));
}

std::vector<HeldBox> BoxesIn(const TensorBox& block, const StateSlice& slice) {
  std::vector<HeldBox> boxes;
  AddBoxes(block, 0, slice.offset, slice.offset + slice.count, block, &boxes);
  return boxes;
}

std::vector<HeldBox> BoxesOf(const StateTensor& tensor, const Mesh& mesh,
                             int rank) {
  const auto found =
      std::lower_bound(tensor.ranks.begin(), tensor.ranks.end(), rank);
  if (found == tensor.ranks.end() || *found != rank) return {};
  const TensorBox block = BlockOf(tensor, mesh, rank);
  if (tensor.slices.empty()) return BoxesIn(block, {0, CountIn(block)});
  return BoxesIn(
      block, tensor.slices[static_cast<size_t>(found - tensor.ranks.begin())]);
}

std::vector<StateBlock> BlocksOf(const StateTensor& tensor, const Mesh& mesh) {
  const BlockGrid numbered(tensor, mesh);
  std::vector<StateBlock> blocks;
  const std::vector<Holding> holdings = HoldingsOf(tensor, mesh);
  for (size_t i = 0; i < holdings.size();) {
    const Holding& first = holdings[i];
    std::vector<int> ranks;
    for (; i < holdings.size() && holdings[i].block == first.block &&
           holdings[i].slice == first.slice;
         ++i) {
      ranks.push_back(holdings[i].rank);
    }
    for (HeldBox& held : BoxesIn(numbered.BoxOf(first.block), first.slice)) {
      blocks.push_back({std::move(held.box), held.offset, ranks});
    }
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const StateBlock& a, const StateBlock& b) {
              return std::tie(a.ranks[0], a.offset) <
                     std::tie(b.ranks[0], b.offset);
            });
  return blocks;
}

}  // namespace lockstep::plan
