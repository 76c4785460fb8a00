#include "plan/state/ranges.h"

#include <utility>

namespace lockstep::plan {

std::vector<HeldRange> RangesOf(const StateTensor& tensor, const Mesh& mesh) {
  std::vector<HeldRange> ranges;
  for (StateBlock& block : BlocksOf(tensor, mesh)) {
    int64_t count = 1;
    for (const int64_t extent : block.box.shape) count *= extent;
    const bool follows =
        !ranges.empty() && ranges.back().ranks == block.ranks &&
        ranges.back().offset + ranges.back().count == block.offset;
    if (follows) {
      ranges.back().count += count;
    } else {
      ranges.push_back({block.offset, count, std::move(block.ranks)});
    }
  }
  return ranges;
}

}  // namespace lockstep::plan
