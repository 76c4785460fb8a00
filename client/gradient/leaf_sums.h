// The sum of a rank's leaves, in the tree that a reproducible job has whatever
// its number of ranks (kernels/reduce_pairs.h).
//
//   leaves   0     1     2     3     4     5     6     7     of this rank
//            └─(+)─┘     └─(+)─┘     └─(+)─┘     └─(+)─┘
//   topmost ─────┴───(+)─────┘           └───(+)─────┘ place 1
//                    └──────────(+)────────────┘ the rank's sum
//
// A rank's leaves are neighbours, as many as a power of two: so their sum is a
// value of the job's tree, and all that ranks have to add up. A leaf is read
// once, where its owner has it, and added to all that it completes on its left;
// the last of them leaves the sum where the gradients travel from. Halves are
// summed in f32.
//
// The topmost sum has a place of its own only if the leaves come in views: for
// those of buffers it is the bucket, as it is for a sum without leaves. So they
// touch a row of memory less, which is what a leaf costs.
//
// Where a communicator cannot sum in pairs, ranks exchange slices instead.
//
// Memory: like the bucket's, in the sums' type: a place for each level of the
//         tree, of which halves keep the topmost for the sum (that of f32 and
//         f64 is the bucket itself), and the slices that other ranks send.
// Threads: different slots at the same time; one by one thread.

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

  // Allocates the places for a bucket with leaves that `ranks` ranks reduce, in
  // pairs or by an exchange of slices. `gradients` is the bucket's memory.
  // Returns the errors of `allocate`.
  static absl::StatusOr<LeafSums> Create(
      const plan::Bucket& bucket, int ranks, bool sums_in_pairs,
      std::byte* gradients,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // How many leaves this rank submits of each parameter in a step.
  int leaves() const { return leaves_; }

  // What has come of a slot in a step.
  struct Progress {
    int leaves = 0;
    bool in_bucket = false;  // is the topmost sum where gradients travel from?
  };

  // `gradient` * `weight`, rounded to its type, is this rank's next leaf for
  // the slot. Null: what the slot holds is; not once there is a sum in it.
  void Add(KernelQueue& kernel_queue, const plan::Slot& slot,
           const void* gradient, double weight, Progress& progress);

  // The rest of its leaves are zeros.
  void AddZeros(KernelQueue& kernel_queue, const plan::Slot& slot,
                Progress& progress);

  // bucket.total elements of the sums' type, laid out like the bucket: what
  // this rank gives, once all leaves are in it.
  std::byte* sum() const { return sum_.bytes() > 0 ? sum_.data() : gradients_; }
  DType dtype() const { return sum_dtype_; }

  // Where this rank gets its slice of all; null if they are not exchanged.
  std::byte* slices() const { return slices_.data(); }
  bool exchanges() const { return slices_.bytes() > 0; }
  // The memory of both; none of the sum if that is the bucket's, nor of slices
  // that are not exchanged.
  const ArenaBuffer& sum_buffer() const { return sum_; }
  const ArenaBuffer& slices_buffer() const { return slices_; }

 private:
  // Where the subtree is summed that begins with this leaf, which is even, if
  // it does not have the last.
  std::byte* PlaceOf(int first_leaf, bool in_bucket) const;

  // Begins a sum: row = leaf * weight, in the slot.
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
