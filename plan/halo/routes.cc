#include "plan/halo/routes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

namespace lockstep::plan {
namespace {

// Cells of one dimension that come from one block, or from none.
struct SourcedSegment {
  int block = -1;  // -1: constant
  HaloSegment cells;
};

// The source of cell `at` of the whole dimension, and how many further cells
// follow it in the same direction.
struct SourceRun {
  int64_t source = -1;  // -1: none
  int step = 1;
  int64_t count = 0;
};

SourceRun OutsideRun(const HaloExtent& extent, int64_t at, int64_t end) {
  const int64_t size = extent.bounds.back();
  const bool is_before = at < 0;
  const int64_t to_field =
      is_before ? std::min<int64_t>(0, end) - at : end - at;
  switch (extent.edge) {
    case HaloEdge::kPeriodic: {
      const int64_t source = ((at % size) + size) % size;
      return {source, 1, std::min(to_field, size - source)};
    }
    case HaloEdge::kReflect:
      return {is_before ? -at : 2 * (size - 1) - at, -1, to_field};
    case HaloEdge::kReplicate: return {is_before ? 0 : size - 1, 0, to_field};
    case HaloEdge::kZero:
    case HaloEdge::kConstant:
    case HaloEdge::kNone: break;
  }
  return {-1, 0, to_field};
}

SourceRun RunAt(const HaloExtent& extent, int64_t at, int64_t end) {
  const int64_t size = extent.bounds.back();
  if (at < 0 || at >= size) return OutsideRun(extent, at, end);
  return {at, 1, std::min(end, size) - at};
}

// The block that has `cell`.
int BlockWith(const std::vector<int64_t>& bounds, int64_t cell) {
  return static_cast<int>(std::upper_bound(bounds.begin(), bounds.end(), cell) -
                          bounds.begin()) -
         1;
}

std::vector<SourcedSegment> SegmentsOf(const HaloExtent& extent, int block) {
  const int64_t begin = extent.bounds[block] - LowOf(extent, block);
  const int64_t end = extent.bounds[block + 1] + HighOf(extent, block);
  std::vector<SourcedSegment> segments;
  for (int64_t at = begin; at < end;) {
    SourceRun run = RunAt(extent, at, end);
    SourcedSegment segment{.cells = {.out = at - begin, .step = run.step}};
    if (run.source >= 0) {
      segment.block = BlockWith(extent.bounds, run.source);
      const int64_t first = extent.bounds[segment.block];
      const int64_t last = extent.bounds[segment.block + 1] - 1;
      if (run.step > 0) run.count = std::min(run.count, last - run.source + 1);
      if (run.step < 0) run.count = std::min(run.count, run.source - first + 1);
      segment.cells.in = run.source - first;
    }
    segment.cells.count = run.count;
    segments.push_back(segment);
    if (segments.size() > kHaloBoxesMax) break;
    at += run.count;
  }
  return segments;
}

int64_t AlignedUp(int64_t bytes) {
  return (bytes + kHaloBoxAlignment - 1) / kHaloBoxAlignment *
         kHaloBoxAlignment;
}

// Calls body(indices) for each combination of indices below `sizes`, the last
// fastest.
template <typename Body>
void ForEachProduct(const std::vector<size_t>& sizes, Body body) {
  std::vector<size_t> indices(sizes.size(), 0);
  for (;;) {
    body(indices);
    size_t d = sizes.size();
    while (d > 0 && ++indices[d - 1] == sizes[d - 1]) indices[--d] = 0;
    if (d == 0) return;
  }
}

class RouteBuilder {
 public:
  RouteBuilder(const Halo& halo, int index)
      : halo_(halo), routes_(halo.ranks.size()) {
    for (HaloRoutes& routes : routes_) routes.halo = index;
  }

  absl::StatusOr<std::vector<HaloRoutes>> Build() {
    for (size_t member = 0; member < routes_.size(); ++member) {
      boxes_ = 0;
      messages_.clear();
      for (size_t field = 0; field < halo_.fields.size(); ++field) {
        AddField(static_cast<int>(member), static_cast<int>(field));
      }
      if (boxes_ > kHaloBoxesMax) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "halo %s: rank %d would copy %d boxes or more, at most %d are "
            "allowed: the halos are many times as wide as the blocks",
            absl::Utf8SafeCEscape(halo_.name), halo_.ranks[member], boxes_,
            kHaloBoxesMax));
      }
      Deliver(static_cast<int>(member));
    }
    return std::move(routes_);
  }

 private:
  void AddField(int member, int number) {
    const HaloField& field = halo_.fields[number];
    const std::vector<int> coordinates = halo_.mesh.CoordinatesOf(member);
    std::vector<std::vector<SourcedSegment>> segments;
    std::vector<size_t> sizes;
    size_t boxes = 1;
    for (const HaloExtent& extent : field.dims) {
      segments.push_back(SegmentsOf(extent, BlockOf(extent, coordinates)));
      sizes.push_back(segments.back().size());
      boxes = std::min(boxes * sizes.back(), kHaloBoxesMax + 1);
    }
    boxes_ += boxes;
    if (boxes_ > kHaloBoxesMax) return;
    ForEachProduct(sizes, [&](const std::vector<size_t>& indices) {
      HaloBox box{.field = number};
      std::vector<int> source = coordinates;
      const HaloExtent* constant = nullptr;
      for (size_t d = 0; d < indices.size(); ++d) {
        const SourcedSegment& segment = segments[d][indices[d]];
        box.dims.push_back(segment.cells);
        if (segment.block < 0) constant = &field.dims[d];
        if (field.dims[d].axis >= 0) source[field.dims[d].axis] = segment.block;
      }
      if (constant != nullptr) {
        AddFill(member, std::move(box), constant->constant);
      } else if (const int owner = halo_.mesh.RankAt(source); owner == member) {
        routes_[member].own.push_back(std::move(box));
      } else {
        messages_[owner].push_back(std::move(box));
      }
    });
  }

  void AddFill(int member, HaloBox box, double value) {
    for (HaloSegment& segment : box.dims) {
      segment.in = 0;
      segment.step = 0;
    }
    routes_[member].fills.push_back({std::move(box), value});
  }

  void Deliver(int member) {
    for (auto& [owner, boxes] : messages_) {
      HaloMessage message{.peer = owner};
      for (const HaloBox& box : boxes) {
        const int64_t bytes = PackedBytes(box, halo_.fields[box.field].dtype);
        message.bytes = AlignedUp(message.bytes) + bytes;
      }
      message.boxes = std::move(boxes);
      routes_[owner].sends.push_back(message);
      routes_[owner].sends.back().peer = member;
      routes_[member].receives.push_back(std::move(message));
    }
  }

  const Halo& halo_;
  std::vector<HaloRoutes> routes_;
  // About the member whose boxes are being made.
  size_t boxes_ = 0;
  std::map<int, std::vector<HaloBox>> messages_;  // by owner
};

}  // namespace

absl::StatusOr<std::vector<HaloRoutes>> RoutesOf(const Halo& halo, int index) {
  return RouteBuilder(halo, index).Build();
}

}  // namespace lockstep::plan
