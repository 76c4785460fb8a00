// The elements of an all-reduce that each rank reduces for all ranks, if the
// transport splits the reduction. The plan counts norms by the same slices, so
// that a rank can check elements while it reduces them.

#ifndef LOCKSTEP_PLAN_REDUCE_SLICES_H_
#define LOCKSTEP_PLAN_REDUCE_SLICES_H_

#include <algorithm>
#include <cstdint>

#include "plan/shard.h"

namespace lockstep::plan {

// Elements of a run of the sum tree; equals kernels::kSumRun.
inline constexpr int64_t kSumRun = 4096;

// The slice of `total` elements of `element` bytes that a rank reduces. Slices
// start at cache lines if possible: ranks that write to one line slow each
// other down (false sharing).
inline Slice ReduceSlice(int64_t total, int64_t element, int ranks, int rank) {
  const int64_t line = 64 / element;
  const int64_t lines = (total + line - 1) / line;
  const auto begin = [&](int64_t r) {
    const int64_t first = lines / ranks * r + std::min(r, lines % ranks);
    return std::min(first * line, total);
  };
  return {.offset = begin(rank), .count = begin(rank + 1) - begin(rank)};
}

// The same for an all-reduce in pairs: whole runs of the sum tree. Twice as
// many ranks have halves of these slices, so the elements that are summed
// together do not depend on the number of ranks:
//
//   2 ranks   [         0         |         1         ]
//   4 ranks   [    0    |    1    |    2    |    3    ]
inline Slice PairsSlice(int64_t total, int ranks, int rank) {
  const int64_t runs = (total + kSumRun - 1) / kSumRun;
  const auto begin = [&](int64_t r) {
    const int64_t run = (runs * r + ranks - 1) / ranks;
    return std::min(run * kSumRun, total);
  };
  return {.offset = begin(rank), .count = begin(rank + 1) - begin(rank)};
}

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_REDUCE_SLICES_H_
