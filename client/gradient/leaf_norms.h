// The global norm of a job with leaves: one sum of squares for each leaf's part
// of the buckets (plan/norm_ranges.h). Every rank adds them in leaf order.
//
//   rank 0   [n0 n1 n2 n3| 0  0  0  0]  ─┐  all-reduced: adding zeros changes
//   rank 1   [ 0  0  0  0|n4 n5 n6 n7]  ─┘  no bit
//   all      ((n0 + n1) + n2) + ...
//
// So the result's bits do not depend on the number of ranks. The sums are
// all-reduced together with the verdict's vectors.
//
// Threads: creates none; called in the order of a step by the thread that runs
//          the comm queue.

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

  // Errors of `compute` and of `allocate`, which provides its memory.
  static absl::StatusOr<LeafNorms> Create(
      int leaves, transport::DeviceContext& compute,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // The accumulator of a leaf's part of each bucket, in transport memory.
  kernels::FiniteCheck* total(int leaf) {
    return memory_.as<kernels::FiniteCheck>().data() + leaf;
  }

  // Copies the step's totals to staging, then zeros them.
  void Fetch(KernelQueue& kernel_queue);
  // Call when Fetch has completed. Enqueues the copy of this rank's sums, and
  // returns how many elements of this rank's parts were not finite.
  uint64_t Give(KernelQueue& kernel_queue);
  // The vector that the verdict's group all-reduces.
  std::byte* sums() const { return memory_.data() + sums_offset(); }
  void FetchSums(KernelQueue& kernel_queue);
  // Call when FetchSums has completed.
  double Sum() const;

 private:
  explicit LeafNorms(int leaves) : leaves_(leaves) {}

  // The sums follow the totals.
  size_t sums_offset() const { return leaves_ * sizeof(kernels::FiniteCheck); }
  size_t sums_bytes() const { return leaves_ * sizeof(double); }

  size_t leaves_ = 0;
  ArenaBuffer memory_;
  ArenaBuffer staging_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_LEAF_NORMS_H_
