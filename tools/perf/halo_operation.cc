#include "tools/perf/halo_operation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/halo/halo_exchange_impl.h"
#include "tools/perf/buffered.h"

namespace lockstep::perf {
namespace {

constexpr const char* kForward = "halo";
constexpr const char* kAdjoint = "halo.adjoint";

std::string AxisName(size_t d) { return absl::StrCat("d", d); }

// The cell of the field whose value cell `at` has, which may be beyond the
// edge; -1: none.
int64_t SourceOf(HaloEdge edge, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  switch (edge) {
    case HaloEdge::kPeriodic: return ((at % size) + size) % size;
    case HaloEdge::kReflect: return at < 0 ? -at : 2 * (size - 1) - at;
    case HaloEdge::kReplicate: return at < 0 ? 0 : size - 1;
    default: return -1;
  }
}

class HaloOperation final : public Buffered {
 public:
  HaloOperation(const PerfOptions& options, Communicator& comm)
      : Buffered(options, comm),
        field_(*ParseExtents(options.shape)),
        widths_(WidthsOf(options)) {}

  absl::Status Prepare(Memory* memory) {
    Mesh mesh;
    const std::vector<int64_t> blocks = BlocksOf(options_);
    if (blocks.empty()) {
      return absl::InvalidArgumentError("the ranks cannot be divided so");
    }
    for (size_t d = 0; d < blocks.size(); ++d) {
      mesh.axes.push_back({AxisName(d), static_cast<int>(blocks[d])});
    }
    std::vector<HaloSpec> specs;
    for (int r = 0; r < ranks(); ++r) {
      specs.push_back(SpecOf(mesh.CoordinatesOf(r), blocks));
    }
    if (memory != nullptr) memory_ = memory;
    auto exchange = halo::MakeExchange(
        mesh, specs, comm_, Context(),
        [this](size_t bytes) { return memory_->arena().Allocate(bytes); });
    if (!exchange.ok()) return exchange.status();
    exchange_ = *std::move(exchange);
    return AllocatePadded(blocks);
  }

  absl::Status Run(Stream& stream) override {
    return exchange_->Run(
        adjoint() ? plan::HaloPass::kAdjoint : plan::HaloPass::kForward,
        {.padded = {in_buffer_.data()}, .blocks = {nullptr}}, stream);
  }

  // Forward: the block has values of the field, its halos junk. Adjoint: each
  // gradient is 1.
  void Fill() override {
    in_.Fill([this](size_t i) {
      if (adjoint()) return 1;
      const std::vector<int64_t> cell = CellOf(i);
      return IsOwn(cell) ? ValueOf(cell) : 99;
    });
  }

  size_t Wrong() const override {
    return adjoint() ? WrongSumsOfCopies() : WrongCells();
  }

 private:
  bool adjoint() const { return options_.op == kAdjoint; }

  HaloSpec SpecOf(const std::vector<int>& coordinates,
                  const std::vector<int64_t>& blocks) const {
    HaloTensor tensor{.dtype = dtype()};
    for (size_t d = 0; d < field_.size(); ++d) {
      const int64_t begin = field_[d] * coordinates[d] / blocks[d];
      const int64_t end = field_[d] * (coordinates[d] + 1) / blocks[d];
      tensor.shape.push_back(end - begin);
      tensor.dims.push_back({.dim = static_cast<int>(d),
                             .axis = AxisName(d),
                             .low = widths_[d],
                             .high = widths_[d],
                             .edge = options_.edge});
    }
    return {.name = "perf", .tensors = {std::move(tensor)}};
  }

  absl::Status AllocatePadded(const std::vector<int64_t>& blocks) {
    const auto placed = exchange_->blocks();
    if (!placed.ok()) return placed.status();
    const HaloBlock& block = (*placed)[0];
    padded_ = (*exchange_->padded_types())[0].shape;
    size_t cells = 1;
    for (size_t d = 0; d < padded_.size(); ++d) {
      begin_.push_back(block.begin[d]);
      end_.push_back(block.begin[d] + padded_[d] - block.low[d] -
                     block.high[d]);
      first_.push_back(begin_[d] - block.low[d]);
      std::vector<int64_t>& bounds = bounds_.emplace_back();
      for (int64_t b = 0; b <= blocks[d]; ++b) {
        bounds.push_back(field_[d] * b / blocks[d]);
      }
      cells *= static_cast<size_t>(padded_[d]);
    }
    count_ = cells;
    bytes_ = static_cast<size_t>(exchange_->bytes_received());
    return Allocate(cells, 0, nullptr);
  }

  std::shared_ptr<transport::DeviceContext> Context() const {
    if (memory_->device() == nullptr) return transport::MakeHostDeviceContext();
    return {memory_->device(), [](transport::DeviceContext*) {}};
  }

  // A cell of the field, perhaps beyond its edge.
  std::vector<int64_t> CellOf(size_t index) const {
    std::vector<int64_t> cell(padded_.size());
    auto rest = static_cast<int64_t>(index);
    for (size_t d = padded_.size(); d-- > 0;) {
      cell[d] = first_[d] + rest % padded_[d];
      rest /= padded_[d];
    }
    return cell;
  }
  bool IsOwn(const std::vector<int64_t>& cell) const {
    for (size_t d = 0; d < cell.size(); ++d) {
      if (cell[d] < begin_[d] || cell[d] >= end_[d]) return false;
    }
    return true;
  }
  // The value of a cell of the padded field.
  int ValueOf(const std::vector<int64_t>& cell) const {
    int64_t index = 0;
    for (size_t d = 0; d < cell.size(); ++d) {
      const int64_t source = SourceOf(options_.edge, cell[d], field_[d]);
      if (source < 0) return 0;
      index = index * field_[d] + source;
    }
    return Moved(0, static_cast<size_t>(index));
  }

  size_t WrongCells() const {
    return in_.Wrong([this](size_t i) { return ValueOf(CellOf(i)); });
  }

  // How many cells of padded blocks along one dimension are copies of a cell.
  int CopiesOf(size_t d, int64_t cell) const {
    int copies = 0;
    for (size_t b = 0; b + 1 < bounds_[d].size(); ++b) {
      const bool ends = options_.edge == HaloEdge::kNone;
      const int64_t size = field_[d];
      const int64_t from = bounds_[d][b] - widths_[d];
      const int64_t to = bounds_[d][b + 1] + widths_[d];
      for (int64_t at = ends ? std::max<int64_t>(from, 0) : from;
           at < (ends ? std::min(to, size) : to); ++at) {
        copies += SourceOf(options_.edge, at, size) == cell;
      }
    }
    return copies;
  }

  // The gradient of a cell is the product of the copies in each dimension.
  size_t WrongSumsOfCopies() const {
    std::vector<std::vector<int>> copies(field_.size());
    for (size_t d = 0; d < field_.size(); ++d) {
      for (int64_t cell = begin_[d]; cell < end_[d]; ++cell) {
        copies[d].push_back(CopiesOf(d, cell));
      }
    }
    return in_.Wrong([&](size_t i) {
      const std::vector<int64_t> cell = CellOf(i);
      if (!IsOwn(cell)) return -1;
      int product = 1;
      for (size_t d = 0; d < cell.size(); ++d) {
        product *= copies[d][static_cast<size_t>(cell[d] - begin_[d])];
      }
      return product;
    });
  }

  const std::vector<int64_t> field_, widths_;
  std::vector<int64_t> padded_, first_, begin_, end_;
  std::vector<std::vector<int64_t>> bounds_;
  std::shared_ptr<HaloExchange::Impl> exchange_;
};

}  // namespace

bool IsHaloOperation(const std::string& op) {
  return op == kForward || op == kAdjoint;
}

std::optional<std::vector<int64_t>> ParseExtents(const std::string& text,
                                                 int64_t least) {
  std::vector<int64_t> extents;
  for (absl::string_view part : absl::StrSplit(text, 'x')) {
    int64_t extent = 0;
    if (!absl::SimpleAtoi(part, &extent) || extent < least) return std::nullopt;
    extents.push_back(extent);
  }
  if (extents.size() > size_t{kHaloDimsMax}) return std::nullopt;
  return extents;
}

std::vector<int64_t> WidthsOf(const PerfOptions& options) {
  const size_t dims = ParseExtents(options.shape)->size();
  auto widths = ParseExtents(options.width, /*least=*/0);
  if (!widths.has_value()) return {};
  if (widths->size() == 1) widths->resize(dims, widths->front());
  return widths->size() == dims ? *std::move(widths) : std::vector<int64_t>();
}

std::vector<int64_t> BlocksOf(const PerfOptions& options) {
  const size_t dims = ParseExtents(options.shape)->size();
  if (!options.cut.empty()) {
    const auto given = ParseExtents(options.cut);
    if (!given.has_value() || given->size() != dims) return {};
    int64_t product = 1;
    for (const int64_t blocks : *given) {
      product = std::min<int64_t>(product * std::min<int64_t>(blocks, 65), 65);
    }
    return product == options.ranks ? *given : std::vector<int64_t>();
  }
  // Dimensions without a halo are not cut, unless there are no others.
  const std::vector<int64_t> widths = WidthsOf(options);
  std::vector<size_t> cut;
  for (size_t d = 0; d < widths.size(); ++d) {
    if (widths[d] > 0) cut.push_back(d);
  }
  if (cut.empty()) {
    cut.resize(dims);
    std::iota(cut.begin(), cut.end(), size_t{0});
  }
  std::vector<int64_t> blocks(dims, 1);
  int rest = options.ranks;
  for (int factor = rest; factor >= 2; --factor) {
    // The largest prime factors first, each to the dimension with the fewest
    // blocks.
    bool is_prime = true;
    for (int d = 2; d * d <= factor; ++d) is_prime &= factor % d != 0;
    while (is_prime && rest % factor == 0) {
      const size_t fewest = *std::min_element(
          cut.begin(), cut.end(),
          [&](size_t a, size_t b) { return blocks[a] < blocks[b]; });
      blocks[fewest] *= factor;
      rest /= factor;
    }
  }
  return blocks;
}

absl::StatusOr<std::unique_ptr<PerfOperation>> MakeHaloOperation(
    const PerfOptions& options, Communicator& comm, Memory* memory) {
  auto made = std::make_unique<HaloOperation>(options, comm);
  if (absl::Status ready = made->Prepare(memory); !ready.ok()) return ready;
  return made;
}

}  // namespace lockstep::perf
