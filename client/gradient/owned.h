// Which elements of the reduced gradients this rank counts in the global norm.
//
// After the reduction all members of a bucket's communicator hold the same
// gradients, so the work is cut: each looks at the slice that it folds where
// ranks fold for each other (slices.h), and then it can do that while it folds;
// of a sharded bucket it has its slice alone, and looks at that. A bucket with
// leaves is cut in as many parts, and a rank looks at one for each leaf that it
// has: where they lie, and so the bits of their norms, does not depend on how
// many ranks there are. A parameter that is replicated over further axes is
// counted only at coordinate 0 of each. Together the ranks count every logical
// element once. Padding is zeros, and counts for nothing.

#ifndef LOCKSTEP_CLIENT_GRADIENT_OWNED_H_
#define LOCKSTEP_CLIENT_GRADIENT_OWNED_H_

#include <cstdint>
#include <vector>

#include "plan/ir.h"

namespace lockstep::gradient {

struct OwnedRange {
  int64_t offset = 0;  // elements from the bucket's start
  int64_t count = 0;   // more than 0
  bool operator==(const OwnedRange&) const = default;
};

// All of its slice, or of its leaves' parts, up to the flags? Not of a sharded
// bucket.
bool CountsWholeSlice(const plan::Plan& plan, int bucket, int rank);

// In order; one range if CountsWholeSlice. Of a bucket without leaves; `rank`
// is a world rank and a member of the bucket's communicator.
std::vector<OwnedRange> OwnedRanges(const plan::Plan& plan, int bucket,
                                    int rank);

// Of a bucket with leaves: what is in each leaf's part, from the rank's first
// leaf on.
struct OwnedLeaf {
  int leaf = 0;  // of the job
  std::vector<OwnedRange> ranges;
};
std::vector<OwnedLeaf> OwnedLeaves(const plan::Plan& plan, int bucket,
                                   int rank);

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_OWNED_H_
