#include "plan/verify/halo_boxes.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace lockstep::plan {
namespace {

int64_t CellsOf(const HaloExtent& extent) { return extent.bounds.back(); }

bool IsConstant(HaloEdge edge) {
  return edge == HaloEdge::kZero || edge == HaloEdge::kConstant;
}

// -1 before the dimension, 0 in it, 1 after it.
int SideOf(const HaloExtent& extent, int64_t cell) {
  return cell < 0 ? -1 : cell < CellsOf(extent) ? 0 : 1;
}

int64_t RoundedDown(int64_t dividend, int64_t divisor) {
  const int64_t quotient = dividend / divisor;
  return quotient * divisor > dividend ? quotient - 1 : quotient;
}

// A piece of a rule, as its number and its slope.
struct EdgePiece {
  int64_t number = 0;
  int slope = 1;
  bool operator==(const EdgePiece&) const = default;
};

EdgePiece PieceAt(const HaloExtent& extent, int64_t cell) {
  const int side = SideOf(extent, cell);
  switch (extent.edge) {
    case HaloEdge::kPeriodic: return {RoundedDown(cell, CellsOf(extent)), 1};
    case HaloEdge::kReflect: return {side, side == 0 ? 1 : -1};
    case HaloEdge::kReplicate: return {side, side == 0 ? 1 : 0};
    default: return {side, 1};
  }
}

// The source of a cell that is not constant.
int64_t SourceAt(const HaloExtent& extent, int64_t cell) {
  const int64_t size = CellsOf(extent);
  switch (extent.edge) {
    case HaloEdge::kPeriodic: return cell - RoundedDown(cell, size) * size;
    case HaloEdge::kReflect:
      return cell < 0 ? -cell : cell < size ? cell : 2 * (size - 1) - cell;
    case HaloEdge::kReplicate: return std::clamp<int64_t>(cell, 0, size - 1);
    default: return cell;
  }
}

std::string TextOf(const HaloBox& box) {
  return absl::StrFormat(
      "box %s of field %d",
      absl::StrJoin(box.dims, "",
                    [](std::string* out, const HaloSegment& s) {
                      absl::StrAppendFormat(out, "[%d,%d,%d,%d]", s.in, s.out,
                                            s.count, s.step);
                    }),
      box.field);
}

template <typename... Args>
std::string FaultIn(const HaloBox& box, const absl::FormatSpec<Args...>& format,
                    const Args&... args) {
  return absl::StrCat(TextOf(box), " ", absl::StrFormat(format, args...));
}

bool Overlap(const HaloBox& a, const HaloBox& b) {
  for (size_t d = 0; d < a.dims.size(); ++d) {
    if (a.dims[d].out + a.dims[d].count <= b.dims[d].out ||
        b.dims[d].out + b.dims[d].count <= a.dims[d].out) {
      return false;
    }
  }
  return true;
}

// Two of the boxes of one field that have a common cell.
std::string OverlapFault(std::vector<const HaloBox*> boxes) {
  const auto begin_of = [](const HaloBox* box) {
    return box->dims.empty() ? 0 : box->dims[0].out;
  };
  std::sort(boxes.begin(), boxes.end(),
            [&](const HaloBox* a, const HaloBox* b) {
              return begin_of(a) < begin_of(b);
            });
  for (size_t i = 0; i < boxes.size(); ++i) {
    for (size_t j = i + 1; j < boxes.size(); ++j) {
      const HaloBox& a = *boxes[i];
      const HaloBox& b = *boxes[j];
      if (!a.dims.empty() && b.dims[0].out >= a.dims[0].out + a.dims[0].count) {
        break;
      }
      if (Overlap(a, b)) return FaultIn(a, "and %s overlap", TextOf(b));
    }
  }
  return "";
}

int64_t BytesIn(const Halo& halo, const HaloMessage& message) {
  int64_t bytes = 0;
  for (const HaloBox& box : message.boxes) {
    const int64_t beyond = bytes % kHaloBoxAlignment;
    if (beyond > 0) bytes += kHaloBoxAlignment - beyond;
    int64_t cells = 1;
    for (const HaloSegment& s : box.dims) cells *= s.step == 0 ? 1 : s.count;
    bytes += cells * static_cast<int64_t>(SizeOf(halo.fields[box.field].dtype));
  }
  return bytes;
}

}  // namespace

HaloBoxCheck::HaloBoxCheck(const Halo& halo, int member)
    : halo_(halo), member_(member) {
  const std::vector<int> coordinates = halo.mesh.CoordinatesOf(member);
  for (const HaloField& field : halo.fields) {
    std::vector<Part>& parts = parts_.emplace_back();
    for (const HaloExtent& extent : field.dims) {
      const int block = BlockOf(extent, coordinates);
      int64_t first = extent.bounds[block] - extent.low;
      int64_t end = extent.bounds[block + 1] + extent.high;
      if (extent.edge == HaloEdge::kNone) {
        first = std::max<int64_t>(first, 0);
        end = std::min(end, CellsOf(extent));
      }
      parts.push_back({&extent, first, end - first});
    }
  }
}

std::string HaloBoxCheck::FaultOf(const HaloRoutes& routes) const {
  size_t boxes = routes.own.size() + routes.fills.size();
  for (const HaloMessage& message : routes.receives) {
    boxes += message.boxes.size();
  }
  if (boxes > kHaloBoxesMax) {
    return absl::StrFormat("copies %d boxes, at most %d are allowed", boxes,
                           kHaloBoxesMax);
  }
  for (const HaloBox& box : routes.own) {
    std::string fault = CopyFault(box, member_);
    if (!fault.empty()) return fault;
  }
  for (const HaloFill& fill : routes.fills) {
    std::string fault = FillFault(fill);
    if (!fault.empty()) return fault;
  }
  for (const auto* messages : {&routes.receives, &routes.sends}) {
    std::string fault = MessagesFault(*messages);
    if (!fault.empty()) return fault;
  }
  for (const HaloMessage& message : routes.receives) {
    for (const HaloBox& box : message.boxes) {
      std::string fault = CopyFault(box, message.peer);
      if (!fault.empty()) return fault;
    }
    const int64_t bytes = BytesIn(halo_, message);
    if (bytes != message.bytes) {
      return absl::StrFormat(
          "receives %d bytes from rank %d, and has boxes "
          "for %d",
          message.bytes, halo_.ranks[message.peer], bytes);
    }
  }
  return TilingFault(routes);
}

std::string HaloBoxCheck::ShapeFault(const HaloBox& box) const {
  if (box.field < 0 || static_cast<size_t>(box.field) >= parts_.size()) {
    return FaultIn(box, "has no field: there are %d", parts_.size());
  }
  const std::vector<Part>& parts = parts_[box.field];
  if (box.dims.size() != parts.size()) {
    return FaultIn(box, "has %d dimensions, not %d", box.dims.size(),
                   parts.size());
  }
  for (size_t d = 0; d < parts.size(); ++d) {
    const HaloSegment& s = box.dims[d];
    if (s.count < 1 || s.out < 0 || s.out > parts[d].count ||
        s.count > parts[d].count - s.out) {
      return FaultIn(box, "is outside of the %d cells of dimension %d",
                     parts[d].count, d);
    }
  }
  return "";
}

std::string HaloBoxCheck::CopyFault(const HaloBox& box, int owner) const {
  std::string fault = ShapeFault(box);
  if (fault.empty()) fault = OwnerFault(halo_.fields[box.field], owner);
  if (!fault.empty()) return fault;
  const std::vector<int> coordinates = halo_.mesh.CoordinatesOf(owner);
  for (size_t d = 0; d < box.dims.size(); ++d) {
    const HaloSegment& s = box.dims[d];
    const Part& part = parts_[box.field][d];
    const HaloExtent& extent = *part.extent;
    const int64_t first = part.first + s.out;
    const int64_t last = first + s.count - 1;
    const EdgePiece piece = PieceAt(extent, first);
    if (IsConstant(extent.edge) && piece.number != 0) {
      return FaultIn(box, "copies cell %d of dimension %d, which is constant",
                     first, d);
    }
    if (PieceAt(extent, last) != piece || s.step != piece.slope) {
      return FaultIn(box,
                     "copies cells %d to %d of dimension %d with step %d: they "
                     "are no such range",
                     first, last, d, s.step);
    }
    const int block = BlockOf(extent, coordinates);
    const int64_t begin = extent.bounds[block];
    const int64_t end = extent.bounds[block + 1];
    const int64_t first_source = SourceAt(extent, first);
    const int64_t last_source = SourceAt(extent, last);
    if (std::min(first_source, last_source) < begin ||
        std::max(first_source, last_source) >= end ||
        s.in != first_source - begin) {
      return FaultIn(box,
                     "copies cells from %d of dimension %d, not %d to %d, out "
                     "of rank %d's %d to %d",
                     begin + s.in, d, first_source, last_source,
                     halo_.ranks[owner], begin, end - 1);
    }
  }
  return "";
}

// The owner differs from the member only in the axes that cut the field.
std::string HaloBoxCheck::OwnerFault(const HaloField& field, int owner) const {
  std::vector<int> here = halo_.mesh.CoordinatesOf(member_);
  const std::vector<int> there = halo_.mesh.CoordinatesOf(owner);
  for (const HaloExtent& extent : field.dims) {
    if (extent.axis >= 0) here[extent.axis] = there[extent.axis];
  }
  if (here == there) return "";
  return absl::StrFormat("copies cells of rank %d, which has another replica",
                         halo_.ranks[owner]);
}

std::string HaloBoxCheck::FillFault(const HaloFill& fill) const {
  const HaloBox& box = fill.box;
  std::string fault = ShapeFault(box);
  if (!fault.empty()) return fault;
  const HaloExtent* constant = nullptr;
  for (size_t d = 0; d < box.dims.size(); ++d) {
    const HaloSegment& s = box.dims[d];
    if (s.in != 0 || s.step != 0) return FaultIn(box, "is filled, and copies");
    const Part& part = parts_[box.field][d];
    if (!IsConstant(part.extent->edge)) continue;
    const int64_t first = part.first + s.out;
    const int side = SideOf(*part.extent, first);
    if (side != SideOf(*part.extent, first + s.count - 1)) {
      return FaultIn(box, "is filled across the edge of dimension %d", d);
    }
    if (side != 0) constant = part.extent;
  }
  if (constant == nullptr) return FaultIn(box, "is filled, and not constant");
  if (std::bit_cast<uint64_t>(constant->constant) !=
      std::bit_cast<uint64_t>(fill.value)) {
    return FaultIn(box, "is filled with %g, not %g", fill.value,
                   constant->constant);
  }
  return "";
}

std::string HaloBoxCheck::MessagesFault(
    const std::vector<HaloMessage>& messages) const {
  int last = -1;
  for (const HaloMessage& message : messages) {
    if (message.peer <= last || message.peer == member_ ||
        static_cast<size_t>(message.peer) >= halo_.ranks.size()) {
      return absl::StrFormat(
          "has a message of peer %d after one of peer %d: peers ascend below "
          "%d, without itself, %d",
          message.peer, last, halo_.ranks.size(), member_);
    }
    last = message.peer;
    if (message.boxes.empty()) {
      return absl::StrFormat("has a message of peer %d without boxes",
                             message.peer);
    }
  }
  return "";
}

// Disjoint boxes with as many cells as the padded block have each of them once.
std::string HaloBoxCheck::TilingFault(const HaloRoutes& routes) const {
  std::vector<std::vector<const HaloBox*>> boxes(parts_.size());
  for (const HaloBox& box : routes.own) boxes[box.field].push_back(&box);
  for (const HaloFill& fill : routes.fills) {
    boxes[fill.box.field].push_back(&fill.box);
  }
  for (const HaloMessage& message : routes.receives) {
    for (const HaloBox& box : message.boxes) boxes[box.field].push_back(&box);
  }
  for (size_t field = 0; field < parts_.size(); ++field) {
    std::string fault = OverlapFault(boxes[field]);
    if (!fault.empty()) return fault;
    int64_t missing = 1;
    for (const Part& part : parts_[field]) missing *= part.count;
    for (const HaloBox* box : boxes[field]) {
      int64_t cells = 1;
      for (const HaloSegment& s : box->dims) cells *= s.count;
      missing -= cells;
    }
    if (missing == 0) continue;
    return absl::StrFormat("has no source of %d cells of field %d", missing,
                           field);
  }
  return "";
}

}  // namespace lockstep::plan
