#include "client/gradient/leaf_sums.h"

#include <bit>
#include <utility>

namespace lockstep::gradient {

absl::StatusOr<LeafSums> LeafSums::Create(
    const plan::Bucket& bucket, int ranks, bool sums_in_pairs,
    std::byte* gradients,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  LeafSums sums;
  sums.dtype_ = bucket.dtype;
  sums.sum_dtype_ = SumTypeOf(bucket);
  sums.leaves_ = bucket.leaves / ranks;
  sums.gradients_ = gradients;
  const bool widens = sums.dtype_ != sums.sum_dtype_;
  const int levels = std::bit_width(static_cast<unsigned>(sums.leaves_)) - 1;

  std::vector<ArenaBuffer*> needed;
  if (widens) needed.push_back(&sums.sum_);
  if (!sums_in_pairs) needed.push_back(&sums.slices_);
  sums.places_.resize(widens && levels > 0 ? levels - 1 : levels);
  for (ArenaBuffer& place : sums.places_) needed.push_back(&place);
  for (ArenaBuffer* buffer : needed) {
    absl::StatusOr<ArenaBuffer> memory =
        allocate(bucket.total * SizeOf(sums.sum_dtype_));
    if (!memory.ok()) return memory.status();
    *buffer = *std::move(memory);
  }
  return sums;
}

// The sum of halves has its own buffer, so the topmost level needs none.
std::byte* LeafSums::PlaceOf(int first_leaf, bool in_bucket) const {
  if (first_leaf > 0) {
    return places_[std::countr_zero(static_cast<unsigned>(first_leaf)) - 1]
        .data();
  }
  return in_bucket || sum_.bytes() > 0 ? sum() : places_.back().data();
}

void LeafSums::Pack(KernelQueue& kernel_queue, const plan::Slot& slot,
                    const void* leaf, double weight, std::byte* row) const {
  // The kernels only read the tensor; kernels::TensorSlot serves both
  // directions.
  const kernels::TensorSlot packed[] = {
      {.tensor = const_cast<void*>(leaf),
       .offset = static_cast<size_t>(slot.offset),
       .count = static_cast<size_t>(slot.count)}};
  kernel_queue.Pack(packed, dtype_, weight, /*add=*/false, row);
}

void LeafSums::Add(KernelQueue& kernel_queue, const plan::Slot& slot,
                   const void* gradient, double weight,
                   SlotProgress& progress) {
  const int number = progress.leaves;
  if (number == 0) {
    progress.in_bucket = gradient != nullptr && sum_.bytes() == 0;
  }
  progress.leaves = (number + 1) % leaves_;
  const auto in_slot = [&slot](std::byte* row, DType dtype) {
    return row + slot.offset * SizeOf(dtype);
  };
  const bool last = number + 1 == leaves_;
  // The sums of 1, 2, 4 ... leaves that end before this one.
  std::vector<const void*> left;
  int first = number;
  for (int size = 1; (first & size) != 0; size *= 2) {
    first -= size;
    left.push_back(in_slot(PlaceOf(first, progress.in_bucket), sum_dtype_));
  }
  std::byte* const row = last ? sum() : PlaceOf(first, progress.in_bucket);
  std::byte* const out = in_slot(row, sum_dtype_);
  void* const view = in_slot(gradients_, dtype_);
  const void* const leaf = gradient == nullptr ? view : gradient;
  if (left.empty() && dtype_ == sum_dtype_) {
    if (leaf != out) Pack(kernel_queue, slot, leaf, weight, row);
    return;
  }
  kernel_queue.AddLeaf(left, leaf, dtype_, weight, out, sum_dtype_, slot.count);
}

// Takes the zeros from memory that is not in use: the view or, if the bucket
// contains the topmost sum, the place of that sum.
void LeafSums::AddZeros(KernelQueue& kernel_queue, const plan::Slot& slot,
                        SlotProgress& progress) {
  const size_t size = SizeOf(dtype_);
  const bool has_sum = progress.leaves > 0 && progress.in_bucket;
  std::byte* const zeros =
      (has_sum ? places_.back().data() : gradients_) + slot.offset * size;
  kernel_queue.Zero(zeros, slot.count * size);
  const int left = leaves_ - progress.leaves;
  for (int leaf = 0; leaf < left; ++leaf) {
    Add(kernel_queue, slot, has_sum ? zeros : nullptr, 1, progress);
  }
}

}  // namespace lockstep::gradient
