#include "plan/halo/halo.h"

#include <algorithm>

namespace lockstep::plan {

int BlockOf(const HaloExtent& extent, const std::vector<int>& coordinates) {
  return extent.axis < 0 ? 0 : coordinates[extent.axis];
}

int64_t LowOf(const HaloExtent& extent, int block) {
  if (extent.edge != HaloEdge::kNone) return extent.low;
  return std::min(extent.low, extent.bounds[block]);
}

int64_t HighOf(const HaloExtent& extent, int block) {
  if (extent.edge != HaloEdge::kNone) return extent.high;
  return std::min(extent.high, extent.bounds.back() - extent.bounds[block + 1]);
}

std::vector<int64_t> BlockShape(const HaloField& field,
                                const std::vector<int>& coordinates) {
  std::vector<int64_t> shape;
  for (const HaloExtent& extent : field.dims) {
    const int block = BlockOf(extent, coordinates);
    shape.push_back(extent.bounds[block + 1] - extent.bounds[block]);
  }
  return shape;
}

std::vector<int64_t> PaddedShape(const HaloField& field,
                                 const std::vector<int>& coordinates) {
  std::vector<int64_t> shape = BlockShape(field, coordinates);
  for (size_t d = 0; d < shape.size(); ++d) {
    const int block = BlockOf(field.dims[d], coordinates);
    shape[d] += LowOf(field.dims[d], block) + HighOf(field.dims[d], block);
  }
  return shape;
}

int64_t PackedBytes(const HaloBox& box, DType dtype) {
  int64_t bytes = static_cast<int64_t>(SizeOf(dtype));
  for (const HaloSegment& segment : box.dims) {
    if (segment.step != 0) bytes *= segment.count;
  }
  return bytes;
}

}  // namespace lockstep::plan
