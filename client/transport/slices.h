// How a reduction's elements are cut: one slice per rank, chunks in a slice.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SLICES_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SLICES_H_

#include <algorithm>
#include <cstddef>

#include "kernels/sum_tree.h"

namespace lockstep::transport {

struct Range {
  size_t begin = 0;  // elements
  size_t count = 0;
};

// The slice of `total` elements that a rank folds for all, where it writes to
// their memory. Slices begin with a cache line where they may: two ranks that
// write to one line would pass it to and fro.
inline Range FoldSlice(size_t total, size_t element, int ranks, int rank);

// The same of a sum in pairs: whole runs of the sum tree (kernels/sum_tree.h).
// Those of twice as many ranks are cut out of these, so that what is summed of
// a slice does not depend on who has it:
//
//   2 ranks   [         0         |         1         ]
//   4 ranks   [    0    |    1    |    2    |    3    ]
inline Range PairsSlice(size_t total, int ranks, int rank);

class Slices {
 public:
  // `total` elements over `ranks` slices that differ by at most one element;
  // chunks of at most `chunk` elements.
  Slices(size_t total, int ranks, size_t chunk)
      : total_(total), ranks_(ranks), chunk_(chunk) {}

  Range Slice(int rank) const {
    const size_t begin = Begin(rank);
    return {begin, Begin(rank + 1) - begin};
  }

  // Chunk `index` of the slice; may be empty at its end.
  Range Chunk(int rank, size_t index) const {
    const Range slice = Slice(rank);
    const size_t begin = std::min(index * chunk_, slice.count);
    return {slice.begin + begin, std::min(chunk_, slice.count - begin)};
  }

  // Of the longest slice.
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

inline Range FoldSlice(size_t total, size_t element, int ranks, int rank) {
  const size_t line = 64 / element;
  const Range lines = Slices((total + line - 1) / line, ranks, 1).Slice(rank);
  const size_t begin = std::min(lines.begin * line, total);
  return {begin, std::min(lines.count * line, total - begin)};
}

inline Range PairsSlice(size_t total, int ranks, int rank) {
  const size_t n = static_cast<size_t>(ranks);
  const auto begin = [&](size_t r) {
    const size_t run = (kernels::RunsOf(total) * r + n - 1) / n;
    return std::min(run * kernels::kSumRun, total);
  };
  const size_t r = static_cast<size_t>(rank);
  return {begin(r), begin(r + 1) - begin(r)};
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SLICES_H_
