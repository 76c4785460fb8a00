// The global norm of a job with leaves: one sum of squares for each leaf's part
// of the buckets (plan/norm_ranges.h), added up by every rank in the order of
// leaves.
//
//   rank 0   [n0 n1 n2 n3| 0  0  0  0]  ─┐  all-reduced: adding zeros changes
//   rank 1   [ 0  0  0  0|n4 n5 n6 n7]  ─┘  no bit
//   all      ((n0 + n1) + n2) + ...
//
// So its bits do not depend on how many ranks share the work. The sums travel
// beside the verdict's vectors.
//
// Threads: none of its own; calls in the order of a step, by who runs the comm
//          queue.

#ifndef LOCKSTEP_CLIENT_GRADIENT_LEAF_NORMS_H_
#define LOCKSTEP_CLIENT_GRADIENT_LEAF_NORMS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/transport/device_context.h"
#include "kernels/finite_check.h"
#include "lockstep/arena.h"

namespace lockstep::gradient {

class LeafNorms {
 public:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  // Errors of the compute and of `allocate`, which gives its memory.
  static absl::StatusOr<LeafNorms> Create(
      int leaves, transport::DeviceContext& compute,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // Where a leaf's part of each bucket is added: the transport's memory.
  kernels::FiniteCheck* total(int leaf) {
    return memory_.as<kernels::FiniteCheck>().data() + leaf;
  }

  // The step's totals to staging; then they are zeros again.
  void Fetch(KernelQueue& kernel_queue);
  // Once they are there: what this rank gives is on its way. How many elements
  // of this rank's parts were not finite.
  uint64_t Give(KernelQueue& kernel_queue);
  // What the verdict's group adds up over all ranks.
  std::byte* sums() const { return memory_.data() + sums_offset(); }
  void FetchSums(KernelQueue& kernel_queue);
  // Once they are there.
  double Sum() const;

 private:
  explicit LeafNorms(int leaves) : leaves_(leaves) {}

  // Behind the totals.
  size_t sums_offset() const { return leaves_ * sizeof(kernels::FiniteCheck); }
  size_t sums_bytes() const { return leaves_ * sizeof(double); }

  size_t leaves_ = 0;
  ArenaBuffer memory_;
  ArenaBuffer staging_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_LEAF_NORMS_H_
