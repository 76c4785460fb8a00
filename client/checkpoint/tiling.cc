#include "client/checkpoint/tiling.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::checkpoint {
namespace {

uint64_t Elements(absl::Span<const int64_t> shape) {
  uint64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  return elements;
}

// "slice 3 at [0,4] of shape [2,2]"
std::string SliceText(size_t index, const TensorBox& box) {
  return absl::StrCat("slice ", index, " at ", BoxText(box));
}

bool Overlap(const TensorBox& a, const TensorBox& b) {
  for (size_t d = 0; d < a.begin.size(); ++d) {
    if (a.begin[d] >= b.begin[d] + b.shape[d]) return false;
    if (b.begin[d] >= a.begin[d] + a.shape[d]) return false;
  }
  return true;
}

size_t MostDivided(size_t dimensions, absl::Span<const TensorBox> boxes) {
  size_t best = 0, most = 0;
  for (size_t d = 0; d < dimensions; ++d) {
    std::set<int64_t> begins;
    for (const TensorBox& box : boxes) begins.insert(box.begin[d]);
    if (begins.size() > most) {
      most = begins.size();
      best = d;
    }
  }
  return best;
}

// Two boxes with elements that overlap; empty if there are none. All are
// inside.
std::string OverlapFault(size_t dimensions, absl::Span<const TensorBox> boxes) {
  // Each box of a scalar is the whole.
  if (dimensions == 0) {
    return boxes.size() > 1 ? "slices 0 and 1 are both the whole" : "";
  }
  const size_t d = MostDivided(dimensions, boxes);
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return boxes[a].begin[d] < boxes[b].begin[d];
  });
  std::vector<size_t> open;  // boxes that reach the sweep's position
  for (const size_t i : order) {
    std::erase_if(open, [&](size_t k) {
      return boxes[k].begin[d] + boxes[k].shape[d] <= boxes[i].begin[d];
    });
    for (const size_t k : open) {
      if (Overlap(boxes[i], boxes[k])) {
        return absl::StrCat(SliceText(k, boxes[k]), " and ",
                            SliceText(i, boxes[i]), " overlap");
      }
    }
    open.push_back(i);
  }
  return "";
}

}  // namespace

bool IsInside(absl::Span<const int64_t> shape, const TensorBox& box) {
  if (box.begin.size() != shape.size() || box.shape.size() != shape.size()) {
    return false;
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool inside = box.begin[d] >= 0 && box.shape[d] >= 0 &&
                        box.begin[d] <= shape[d] &&
                        box.shape[d] <= shape[d] - box.begin[d];
    if (!inside) return false;
  }
  return true;
}

std::string BoxText(const TensorBox& box) {
  return absl::StrCat("[", absl::StrJoin(box.begin, ","), "] of shape [",
                      absl::StrJoin(box.shape, ","), "]");
}

std::string TilingFault(absl::Span<const int64_t> shape,
                        absl::Span<const TensorBox> boxes) {
  const uint64_t elements = Elements(shape);
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (!IsInside(shape, boxes[i])) {
      return absl::StrCat(SliceText(i, boxes[i]), " is not inside of [",
                          absl::StrJoin(shape, ","), "]");
    }
    if (elements > 0 && Elements(boxes[i].shape) == 0) {
      return absl::StrCat(SliceText(i, boxes[i]), " has no elements");
    }
  }
  if (elements == 0) return "";
  const std::string overlap = OverlapFault(shape.size(), boxes);
  if (!overlap.empty()) return overlap;
  uint64_t covered = 0;  // at most `elements`, since no two overlap
  for (const TensorBox& box : boxes) covered += Elements(box.shape);
  if (covered == elements) return "";
  return absl::StrCat(elements - covered, " of ", elements,
                      " elements are in no slice");
}

}  // namespace lockstep::checkpoint
