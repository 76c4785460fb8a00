#include "client/gradient/leaf_sums.h"

#include <bit>
#include <utility>

namespace lockstep::gradient {

absl::StatusOr<LeafSums> LeafSums::Create(
    const plan::Bucket& bucket, int ranks, std::byte* gradients,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  LeafSums sums;
  sums.dtype_ = bucket.dtype;
  sums.sum_dtype_ = SumTypeOf(bucket);
  sums.leaves_ = bucket.leaves / ranks;
  sums.gradients_ = gradients;
  const bool widens = sums.dtype_ != sums.sum_dtype_;
  const int levels = std::bit_width(static_cast<unsigned>(sums.leaves_)) - 1;

  std::vector<ArenaBuffer*> needed = {&sums.slices_};
  if (widens || levels > 0) needed.push_back(&sums.sum_);
  if (widens && levels > 0) needed.push_back(&sums.leaf_);
  sums.spares_.resize(levels > 0 ? levels - 1 : 0);
  for (ArenaBuffer& spare : sums.spares_) needed.push_back(&spare);
  for (ArenaBuffer* buffer : needed) {
    absl::StatusOr<ArenaBuffer> memory =
        allocate(bucket.flags_offset * SizeOf(sums.sum_dtype_));
    if (!memory.ok()) return memory.status();
    *buffer = *std::move(memory);
  }
  return sums;
}

std::byte* LeafSums::PlaceOf(int first_leaf) const {
  if (first_leaf == 0) return SumData();
  return spares_[std::countr_zero(static_cast<unsigned>(first_leaf)) - 1]
      .data();
}

void LeafSums::Add(Site& site, const plan::Slot& slot, int number) {
  if (number % 2 == 0) return Begin(site, slot, PlaceOf(number));
  const std::byte* part = gradients_;
  if (leaf_.bytes() > 0) {
    Begin(site, slot, leaf_.data());
    part = leaf_.data();
  }
  // The subtrees that end with this leaf: of 2, 4, ... of them.
  for (int size = 2; (number + 1) % size == 0 && size <= leaves_; size *= 2) {
    std::byte* const place = PlaceOf(number + 1 - size);
    AddTo(site, slot, part, place);
    part = place;
  }
}

void LeafSums::Begin(Site& site, const plan::Slot& slot, std::byte* to) const {
  const std::byte* from = gradients_ + slot.offset * SizeOf(dtype_);
  to += slot.offset * SizeOf(sum_dtype_);
  if (dtype_ != sum_dtype_) {
    site.CastScale(from, dtype_, 1, to, sum_dtype_, slot.count);
  } else if (from != to) {
    site.Copy(from, to, slot.count * SizeOf(dtype_));
  }
}

void LeafSums::AddTo(Site& site, const plan::Slot& slot, const std::byte* from,
                     std::byte* to) const {
  // The kernel reads the tensor; its slot is the same for both directions.
  const kernels::Slot added[] = {{.tensor = const_cast<std::byte*>(from) +
                                            slot.offset * SizeOf(sum_dtype_),
                                  .offset = static_cast<size_t>(slot.offset),
                                  .count = static_cast<size_t>(slot.count)}};
  site.Pack(added, sum_dtype_, /*weight=*/1, /*add=*/true, to);
}

}  // namespace lockstep::gradient
