// The order in which a long sum is computed: one fixed tree, so that a host
// with any vector width and a GPU with any grid give the same bits.
//
//   leaves        x0 x1 x2 ... x31 | x32 x33 ...        leaf i is added to lane
//   run of 4096    │  │  │      │     │   │             i % 32, in order of i
//   32 lanes      (+)(+)(+) .. (+) ◀──┴───┘
//   fold          lane l += lane l + 16, then + 8, + 4, + 2, + 1
//   run's value    └──▶ is a leaf of the next level, up to one value
//
// On a GPU a warp sums a run: thread l has lane l, and the fold is five
// shuffles. In a partial run the missing leaves count as +0, which changes no
// bit of a sum of squares. So a single value passes a level unchanged, and the
// number of levels does not matter.
//
// Bound: 4096^5 leaves.

#ifndef LOCKSTEP_KERNELS_SUM_TREE_H_
#define LOCKSTEP_KERNELS_SUM_TREE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/host_device.h"

namespace lockstep::kernels {

inline constexpr size_t kSumLanes = 32;
inline constexpr size_t kSumRun = 4096;

// The number of runs for this many leaves.
LOCKSTEP_HD size_t RunsOf(size_t leaves) {
  return (leaves + kSumRun - 1) / kSumRun;
}

// The value of a run. Overwrites the lanes.
LOCKSTEP_HD double SumLanes(double* lanes) {
  for (size_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) {
      lanes[lane] += lanes[lane + half];
    }
  }
  return lanes[0];
}

// The levels above the first. Takes the values of the runs in order, stores one
// unfinished run per level, and does not allocate.
class SumTree {
 public:
  void Add(double run_value) { AddAt(0, run_value); }

  // Returns the sum of all added values. Call it once, last.
  double Total() {
    for (size_t k = 0; k + 1 < kLevels; ++k) {
      if (levels_[k].leaves > 0) AddAt(k + 1, SumLanes(levels_[k].lanes));
    }
    return SumLanes(levels_[kLevels - 1].lanes);
  }

 private:
  struct Level {
    double lanes[kSumLanes] = {};
    size_t leaves = 0;
  };
  static constexpr size_t kLevels = 4;

  void AddAt(size_t k, double value) {
    Level& level = levels_[k];
    level.lanes[level.leaves % kSumLanes] += value;
    if (++level.leaves < kSumRun || k + 1 == kLevels) return;
    const double reduced = SumLanes(level.lanes);
    level = {};
    AddAt(k + 1, reduced);
  }

  Level levels_[kLevels];
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_SUM_TREE_H_
