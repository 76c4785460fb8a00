#include "client/transport/shm/box_copy.h"

#include <algorithm>

namespace lockstep::transport {
namespace {

int64_t ElementsOf(const kernels::StridedBox& box) {
  int64_t elements = 1;
  for (int d = 0; d < box.dims; ++d) elements *= box.counts[d];
  return elements;
}

}  // namespace

bool BoxCopy::Step(size_t bytes) {
  auto budget = static_cast<int64_t>(bytes);
  bool moved = false;
  for (; box_ < boxes_.size(); ++box_, element_ = 0) {
    const kernels::StridedBox& box = boxes_[box_];
    const auto size = static_cast<int64_t>(SizeOf(box.dtype));
    const int64_t elements = ElementsOf(box);
    while (element_ < elements) {
      if (moved && budget < size) return false;
      const int64_t count =
          std::min(elements - element_, std::max<int64_t>(budget / size, 1));
      const kernels::StridedBox part = PartOf(box, element_, count);
      kernels::CopyBoxes({&part, 1}, in_, out_);
      element_ += ElementsOf(part);
      budget -= ElementsOf(part) * size;
      moved = true;
    }
  }
  return true;
}

kernels::StridedBox PartOf(const kernels::StridedBox& box, int64_t first,
                           int64_t count) {
  kernels::StridedBox part = box;
  const auto size = static_cast<int64_t>(SizeOf(box.dtype));
  // Dimension d is the outermost of which the part has more than one index; the
  // dimensions behind it are whole.
  int64_t inner = ElementsOf(box);  // elements of one index of d
  bool is_open = true;
  for (int d = 0; d < box.dims; ++d) {
    inner /= box.counts[d];
    const int64_t index = first / inner % box.counts[d];
    part.in_offset += index * box.in_strides[d] * size;
    part.out_offset += index * box.out_strides[d] * size;
    if (!is_open) continue;
    part.counts[d] = 1;
    if (first % inner != 0 || count < inner) continue;
    part.counts[d] = std::min(count / inner, box.counts[d] - index);
    is_open = false;
  }
  return part;
}

}  // namespace lockstep::transport
