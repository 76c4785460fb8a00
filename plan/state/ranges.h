// Parts of the state that several ranks hold alike, as ranges of memory.

#ifndef LOCKSTEP_PLAN_STATE_RANGES_H_
#define LOCKSTEP_PLAN_STATE_RANGES_H_

#include <cstdint>
#include <vector>

#include "lockstep/mesh.h"
#include "plan/state/state.h"

namespace lockstep::plan {

// Elements `offset` to before `offset + count` of the memory of each of the
// ranks, which hold the same elements of the tensor there; at least one.
struct HeldRange {
  int64_t offset = 0;
  int64_t count = 0;
  std::vector<int> ranks;  // rising
  bool operator==(const HeldRange&) const = default;
};

// All elements of a valid tensor, in the order of BlocksOf; blocks of the same
// ranks that follow each other in memory are one range. Deterministic.
std::vector<HeldRange> RangesOf(const StateTensor& tensor, const Mesh& mesh);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_STATE_RANGES_H_
