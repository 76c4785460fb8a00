// Divides the elements of a reduction: one slice per rank, chunks in a slice.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_SLICES_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_SLICES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/sum_tree.h"
#include "plan/reduce_slices.h"

namespace lockstep::transport {

struct SliceRange {
  size_t begin = 0;  // elements
  size_t count = 0;
};

// plan::ReduceSlice as a range: the slice that a rank reduces and writes to the
// memory of all ranks.
inline SliceRange ReduceSliceOf(size_t total, size_t element, int ranks,
                                int rank);

// plan::PairsSlice as a range: the same for a sum in pairs.
inline SliceRange PairsSlice(size_t total, int ranks, int rank);

class Slices {
 public:
  // `total` elements over `ranks` slices that differ by at most one element;
  // chunks of at most `chunk` elements.
  Slices(size_t total, int ranks, size_t chunk)
      : total_(total), ranks_(ranks), chunk_(chunk) {}

  SliceRange Slice(int rank) const {
    const size_t begin = Begin(rank);
    return {begin, Begin(rank + 1) - begin};
  }

  // Chunk `index` of the slice; may be empty at its end.
  SliceRange Chunk(int rank, size_t index) const {
    const SliceRange slice = Slice(rank);
    const size_t begin = std::min(index * chunk_, slice.count);
    return {slice.begin + begin, std::min(chunk_, slice.count - begin)};
  }

  // The number of chunks of the longest slice.
  size_t chunks() const {
    const size_t longest = (total_ + ranks_ - 1) / ranks_;
    return (longest + chunk_ - 1) / chunk_;
  }
  size_t chunk() const { return chunk_; }

 private:
  size_t Begin(int rank) const {
    return total_ / ranks_ * rank +
           std::min(static_cast<size_t>(rank), total_ % ranks_);
  }

  size_t total_;
  size_t ranks_;
  size_t chunk_;
};

static_assert(plan::kSumRun == kernels::kSumRun);

inline SliceRange ReduceSliceOf(size_t total, size_t element, int ranks,
                                int rank) {
  const plan::Slice slice = plan::ReduceSlice(
      static_cast<int64_t>(total), static_cast<int64_t>(element), ranks, rank);
  return {static_cast<size_t>(slice.offset), static_cast<size_t>(slice.count)};
}

inline SliceRange PairsSlice(size_t total, int ranks, int rank) {
  const plan::Slice slice =
      plan::PairsSlice(static_cast<int64_t>(total), ranks, rank);
  return {static_cast<size_t>(slice.offset), static_cast<size_t>(slice.count)};
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_SLICES_H_
