#include "client/gradient/leaf_norms.h"

#include <utility>

namespace lockstep::gradient {

absl::StatusOr<LeafNorms> LeafNorms::Create(
    int leaves, transport::DeviceContext& compute,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  LeafNorms norms(leaves);
  const size_t bytes = norms.sums_offset() + norms.sums_bytes();
  absl::StatusOr<ArenaBuffer> buffer = allocate(bytes);
  if (!buffer.ok()) return buffer.status();
  norms.memory_ = *std::move(buffer);
  buffer = compute.AllocateStaging(bytes);
  if (!buffer.ok()) return buffer.status();
  norms.staging_ = *std::move(buffer);
  return norms;
}

void LeafNorms::Fetch(KernelQueue& kernel_queue) {
  kernel_queue.Copy(memory_.data(), staging_.data(), sums_offset());
  kernel_queue.Zero(memory_.data(), sums_offset());
}

uint64_t LeafNorms::Give(KernelQueue& kernel_queue) {
  const auto totals = staging_.as<kernels::FiniteCheck>();
  auto* const sums = reinterpret_cast<double*>(staging_.data() + sums_offset());
  uint64_t non_finite = 0;
  for (size_t leaf = 0; leaf < leaves_; ++leaf) {
    sums[leaf] = totals[leaf].sum_of_squares;
    non_finite += totals[leaf].non_finite;
  }
  kernel_queue.Copy(sums, memory_.data() + sums_offset(), sums_bytes());
  return non_finite;
}

void LeafNorms::FetchSums(KernelQueue& kernel_queue) {
  kernel_queue.Copy(memory_.data() + sums_offset(),
                    staging_.data() + sums_offset(), sums_bytes());
}

double LeafNorms::Sum() const {
  const auto* const sums =
      reinterpret_cast<const double*>(staging_.data() + sums_offset());
  double sum = 0;
  for (size_t leaf = 0; leaf < leaves_; ++leaf) sum += sums[leaf];
  return sum;
}

}  // namespace lockstep::gradient
