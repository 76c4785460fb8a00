// The sum of a rank's leaves, in the tree that a reproducible job has whatever
// its number of ranks (kernels/reduce_pairs.h).
//
//   leaves   0     1     2     3     4     5     6     7     of this rank
//            └─(+)─┘     └─(+)─┘     └─(+)─┘     └─(+)─┘
//   sum ───────┴───(+)─────┘           └───(+)─────┘ spare 1
//                  └──────────(+)────────────┘       spare 2
//
// A rank's leaves are neighbours, as many as a power of two: so their sum is a
// value of the job's tree, and all that ranks exchange. Each leaf is added in
// the place where the subtree that it belongs to began, so nothing is copied
// but the leaves that begin one. Halves are summed in f32.
//
// Memory: like the bucket's, in the sums' type: the sum (for f32 and f64 with
//         one leaf the bucket itself), one spare for each two levels of more,
//         for halves a leaf; and the slices that the other ranks send.
// Threads: different slots at the same time; one by one thread.

#ifndef LOCKSTEP_CLIENT_GRADIENT_LEAF_SUMS_H_
#define LOCKSTEP_CLIENT_GRADIENT_LEAF_SUMS_H_

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/transport/compute.h"
#include "lockstep/arena.h"
#include "plan/ir.h"

namespace lockstep::gradient {

class LeafSums {
 public:
  using Site = transport::Compute::Site;

  // Of a bucket with leaves, whose communicator has so many ranks; `gradients`
  // is its memory. Errors of `allocate`.
  static absl::StatusOr<LeafSums> Create(
      const plan::Bucket& bucket, int ranks, std::byte* gradients,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // Of each of this rank's parameters, in a step.
  int leaves() const { return leaves_; }

  // What the slot's gradient is now is this rank's leaf `number`, from 0.
  void Add(Site& site, const plan::Slot& slot, int number);

  // bucket.flags_offset elements of the sums' type: what this rank gives, and
  // where it gets its slice of all.
  std::byte* sum() const { return SumData(); }
  std::byte* slices() const { return slices_.data(); }

 private:
  std::byte* SumData() const {
    return sum_.bytes() > 0 ? sum_.data() : gradients_;
  }
  // Where the subtree is summed that begins with this leaf, which is even.
  std::byte* PlaceOf(int first_leaf) const;
  // to = the gradients; to += from: in the slot.
  void Begin(Site& site, const plan::Slot& slot, std::byte* to) const;
  void AddTo(Site& site, const plan::Slot& slot, const std::byte* from,
             std::byte* to) const;

  DType dtype_ = DType::kF32;
  DType sum_dtype_ = DType::kF32;
  int leaves_ = 1;
  std::byte* gradients_ = nullptr;
  ArenaBuffer sum_;
  std::vector<ArenaBuffer> spares_;
  ArenaBuffer leaf_;  // of halves, widened
  ArenaBuffer slices_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_LEAF_SUMS_H_
