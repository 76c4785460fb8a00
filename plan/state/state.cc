#include "plan/state/state.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"

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

int BlockAt(const StateDim& dim, const Mesh& mesh,
            const std::vector<int>& coordinates) {
  int block = 0;
  for (const std::string& axis : dim.axes) {
    const auto a = static_cast<size_t>(mesh.AxisIndex(axis));
    block = block * mesh.axes[a].size + coordinates[a];
  }
  return block;
}

absl::Status CheckDims(const StateTensor& tensor, const Mesh& mesh) {
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

// The number of each dimension's block.
using BlockNumbers = std::vector<int>;

BlockNumbers NumbersOf(const StateTensor& tensor, const Mesh& mesh, int rank) {
  const std::vector<int> coordinates = mesh.CoordinatesOf(rank);
  BlockNumbers numbers;
  for (const StateDim& dim : tensor.dims) {
    numbers.push_back(BlockAt(dim, mesh, coordinates));
  }
  return numbers;
}

// All combinations of blocks that have elements are held.
absl::Status CheckHeld(const StateTensor& tensor, const Mesh& mesh) {
  size_t expected = 1;
  for (const StateDim& dim : tensor.dims) {
    size_t blocks = 0;
    for (size_t i = 0; i + 1 < dim.bounds.size(); ++i) {
      blocks += dim.bounds[i] < dim.bounds[i + 1] ? 1 : 0;
    }
    expected *= blocks;
  }
  const size_t held = BlocksOf(tensor, mesh).size();
  if (held == expected) return absl::OkStatus();
  return Invalid(tensor, "%d of its %d blocks are held by no rank",
                 expected - held, expected);
}

bool HasElements(const TensorBox& box) {
  return std::all_of(box.shape.begin(), box.shape.end(),
                     [](int64_t extent) { return extent > 0; });
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
  if (status.ok()) status = CheckHeld(tensor, mesh);
  return status;
}

TensorBox BoxOf(const StateTensor& tensor, const Mesh& mesh, int rank) {
  const BlockNumbers numbers = NumbersOf(tensor, mesh, rank);
  TensorBox box;
  for (size_t d = 0; d < numbers.size(); ++d) {
    const std::vector<int64_t>& bounds = tensor.dims[d].bounds;
    const auto block = static_cast<size_t>(numbers[d]);
    box.begin.push_back(bounds[block]);
    box.shape.push_back(bounds[block + 1] - bounds[block]);
  }
  return box;
}

std::vector<StateBlock> BlocksOf(const StateTensor& tensor, const Mesh& mesh) {
  std::vector<std::pair<BlockNumbers, int>> ranks;
  for (const int rank : tensor.ranks) {
    ranks.emplace_back(NumbersOf(tensor, mesh, rank), rank);
  }
  std::sort(ranks.begin(), ranks.end());
  std::vector<StateBlock> blocks;
  const BlockNumbers* last = nullptr;
  for (const auto& [numbers, rank] : ranks) {
    if (last != nullptr && *last == numbers) {
      blocks.back().ranks.push_back(rank);
    } else {
      blocks.push_back({BoxOf(tensor, mesh, rank), {rank}});
      last = &numbers;
    }
  }
  std::erase_if(
      blocks, [](const StateBlock& block) { return !HasElements(block.box); });
  std::sort(blocks.begin(), blocks.end(),
            [](const StateBlock& a, const StateBlock& b) {
              return a.ranks[0] < b.ranks[0];
            });
  return blocks;
}

}  // namespace lockstep::plan
