// The sum of a rank's leaves, in the tree of a reproducible job, which does not
// depend on the number of ranks (kernels/reduce_pairs.h).
//
//   leaves   0     1     2     3     4     5     6     7     of this rank
//            └─(+)─┘     └─(+)─┘     └─(+)─┘     └─(+)─┘
//   topmost ─────┴───(+)─────┘           └───(+)─────┘ place 1
//                    └──────────(+)────────────┘ the rank's sum
//
// A rank's leaves are adjacent, and their number is a power of two. So their
// sum is a node of the job's tree, and ranks only add up these sums. A leaf is
// read once, from its owner's memory, and added to all subtrees on its left
// that it completes; the last leaf writes the sum to the memory that is sent.
// Halves are summed in f32.
//
// The topmost sum needs a place of its own only if leaves are submitted in
// views: for leaves in buffers it is the bucket, as for a sum without leaves.
// This saves one pass over memory per leaf.
//
// If a communicator cannot sum in pairs, ranks exchange slices instead.
//
// Memory: buffers like the bucket's, in the sum's dtype: one for each level of
//         the tree, and one for the slices of other ranks. Halves use the
//         topmost for the sum (the sum of f32 and f64 is the bucket itself).
// Threads: different slots concurrently, each by one thread.

#ifndef LOCKSTEP_CLIENT_GRADIENT_LEAF_SUMS_H_
#define LOCKSTEP_CLIENT_GRADIENT_LEAF_SUMS_H_

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"
#include "plan/ir.h"

namespace lockstep::gradient {

class LeafSums {
 public:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  // Allocates the buffers of a bucket with leaves that `ranks` ranks reduce, in
  // pairs or by an exchange of slices. `gradients` is the bucket's memory.
  // Returns the errors of `allocate`.
  static absl::StatusOr<LeafSums> Create(
      const plan::Bucket& bucket, int ranks, bool sums_in_pairs,
      std::byte* gradients,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // How many leaves this rank submits of each parameter in a step.
  int leaves() const { return leaves_; }

  // The progress of a slot in a step.
  struct SlotProgress {
    int leaves = 0;
    bool in_bucket = false;  // the topmost sum is in the memory that is sent
  };

  // Adds `gradient` * `weight`, rounded to its dtype, as the slot's next leaf.
  // Null: the content of the slot; not once the slot contains a sum.
  void Add(KernelQueue& kernel_queue, const plan::Slot& slot,
           const void* gradient, double weight, SlotProgress& progress);

  // Adds zeros for the leaves that are missing.
  void AddZeros(KernelQueue& kernel_queue, const plan::Slot& slot,
                SlotProgress& progress);

  // This rank's sum once all leaves are added: bucket.total elements of the
  // sum's dtype, laid out like the bucket.
  std::byte* sum() const { return sum_.bytes() > 0 ? sum_.data() : gradients_; }
  DType dtype() const { return sum_dtype_; }

  // The buffer that receives this rank's slice from all ranks; null if slices
  // are not exchanged.
  std::byte* slices() const { return slices_.data(); }
  bool exchanges() const { return slices_.bytes() > 0; }
  // The memory of both. Empty if the sum is in the bucket, or if slices are not
  // exchanged.
  const ArenaBuffer& sum_buffer() const { return sum_; }
  const ArenaBuffer& slices_buffer() const { return slices_; }

 private:
  // The buffer for the sum of the subtree that begins with `first_leaf` (even)
  // and does not include the last leaf.
  std::byte* PlaceOf(int first_leaf, bool in_bucket) const;

  // Begins a sum: writes leaf * weight to the slot of `row`.
  void Pack(KernelQueue& kernel_queue, const plan::Slot& slot, const void* leaf,
            double weight, std::byte* row) const;

  DType dtype_ = DType::kF32;
  DType sum_dtype_ = DType::kF32;
  int leaves_ = 1;
  std::byte* gradients_ = nullptr;
  ArenaBuffer sum_;                  // of halves
  std::vector<ArenaBuffer> places_;  // by level, from leaves of two
  ArenaBuffer slices_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_LEAF_SUMS_H_
