#include "client/checkpoint/slice_runs.h"

#include <algorithm>

namespace lockstep::checkpoint {

SliceRuns::SliceRuns(const TensorBox& slice, const TensorBox& box,
                     size_t element_bytes)
    : run_bytes_(element_bytes) {
  uint64_t from_stride = element_bytes, to_stride = element_bytes;
  for (size_t d = slice.shape.size(); d-- > 0;) {
    const int64_t begin = std::max(slice.begin[d], box.begin[d]);
    const int64_t end =
        std::min(slice.begin[d] + slice.shape[d], box.begin[d] + box.shape[d]);
    if (end <= begin) {
      left_ = 0;
      return;
    }
    from_ += from_stride * static_cast<uint64_t>(begin - slice.begin[d]);
    to_ += to_stride * static_cast<uint64_t>(begin - box.begin[d]);
    Add(static_cast<uint64_t>(end - begin), from_stride, to_stride);
    from_stride *= static_cast<uint64_t>(slice.shape[d]);
    to_stride *= static_cast<uint64_t>(box.shape[d]);
  }
  for (const Dimension& dimension : dimensions_) left_ *= dimension.extent;
}

void SliceRuns::Add(uint64_t extent, uint64_t from_stride, uint64_t to_stride) {
  if (extent == 1) return;
  if (dimensions_.empty()) {
    if (from_stride == run_bytes_ && to_stride == run_bytes_) {
      run_bytes_ *= extent;
      return;
    }
  } else {
    Dimension& inner = dimensions_.back();
    if (from_stride == inner.extent * inner.from_stride &&
        to_stride == inner.extent * inner.to_stride) {
      inner.extent *= extent;
      return;
    }
  }
  dimensions_.push_back({extent, from_stride, to_stride});
}

void SliceRuns::Next() {
  --left_;
  for (Dimension& dimension : dimensions_) {
    from_ += dimension.from_stride;
    to_ += dimension.to_stride;
    if (++dimension.at < dimension.extent) return;
    dimension.at = 0;
    from_ -= dimension.extent * dimension.from_stride;
    to_ -= dimension.extent * dimension.to_stride;
  }
}

}  // namespace lockstep::checkpoint
