#include "client/gradient/bucket_store.h"

#include <cstring>
#include <utility>

#include "kernels/half.h"
#include "kernels/pack.h"

namespace lockstep::gradient {
namespace {

// 1 and 0 in every float type; 0 is all bits zero in each.
void WriteFlag(std::byte* at, DType dtype, bool on) {
  const auto put = [at](auto value) { std::memcpy(at, &value, sizeof value); };
  switch (dtype) {
    case DType::kF16: return put(static_cast<uint16_t>(on ? 0x3c00 : 0));
    case DType::kBF16: return put(static_cast<uint16_t>(on ? 0x3f80 : 0));
    case DType::kF64: return put(on ? 1.0 : 0.0);
    default: return put(on ? 1.0f : 0.0f);
  }
}

bool AnyBit(const std::byte* at, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (at[i] != std::byte{0}) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<BucketStore> BucketStore::Create(
    const plan::Plan& plan, const std::vector<int>& parameters,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  std::vector<Place> place_of(plan.parameters.size());
  for (int b = 0; b < static_cast<int>(plan.buckets.size()); ++b) {
    const std::vector<plan::Slot>& slots = plan.buckets[b].slots;
    for (int s = 0; s < static_cast<int>(slots.size()); ++s) {
      place_of[slots[s].parameter] = {b, s};
    }
  }

  BucketStore store;
  store.plan_ = &plan;
  store.memory_.resize(plan.buckets.size());
  for (int parameter : parameters) {
    const Place place = place_of[parameter];
    store.places_.push_back(place);
    ArenaBuffer& memory = store.memory_[place.bucket];
    if (memory.bytes() > 0) continue;
    const plan::Bucket& bucket = plan.buckets[place.bucket];
    absl::StatusOr<ArenaBuffer> buffer =
        allocate(bucket.total * SizeOf(bucket.dtype));
    if (!buffer.ok()) return buffer.status();
    memory = *std::move(buffer);
  }
  return store;
}

const plan::Slot& BucketStore::SlotOf(int parameter) const {
  const Place place = places_[parameter];
  return plan_->buckets[place.bucket].slots[place.slot];
}

absl::Span<std::byte> BucketStore::View(int parameter) const {
  const Place place = places_[parameter];
  const size_t size = SizeOf(bucket(place.bucket).dtype);
  const plan::Slot& slot = SlotOf(parameter);
  return {BucketData(place.bucket) + slot.offset * size, slot.count * size};
}

void BucketStore::Pack(int parameter, const void* gradient, double weight,
                       bool add) {
  const Place place = places_[parameter];
  const DType dtype = bucket(place.bucket).dtype;
  const plan::Slot& slot = SlotOf(parameter);
  // The kernels read the tensor; their slot is the same for both directions.
  const kernels::Slot packed[] = {{.tensor = const_cast<void*>(gradient),
                                   .offset = static_cast<size_t>(slot.offset),
                                   .count = static_cast<size_t>(slot.count)}};
  std::byte* data = BucketData(place.bucket);
  if (add) {
    kernels::PackAdded(packed, dtype, weight, data);
  } else if (weight != 1.0) {
    kernels::PackScaled(packed, dtype, weight, data);
  } else {
    kernels::Pack(packed, dtype, data);
  }
}

void BucketStore::Zero(int parameter) {
  const absl::Span<std::byte> view = View(parameter);
  if (!view.empty()) std::memset(view.data(), 0, view.size());
}

void BucketStore::CopyGradients(const BucketStore& from) {
  for (int parameter = 0; parameter < static_cast<int>(places_.size());
       ++parameter) {
    const absl::Span<std::byte> to = View(parameter);
    if (to.empty()) continue;
    std::memcpy(to.data(), from.View(parameter).data(), to.size());
  }
}

void BucketStore::SetFlag(int parameter, bool contributed) {
  const Place place = places_[parameter];
  const plan::Bucket& b = bucket(place.bucket);
  WriteFlag(BucketData(place.bucket) +
                (b.flags_offset + place.slot) * SizeOf(b.dtype),
            b.dtype, contributed);
}

bool BucketStore::Contributed(int parameter) const {
  const Place place = places_[parameter];
  const plan::Bucket& b = bucket(place.bucket);
  const size_t size = SizeOf(b.dtype);
  return AnyBit(BucketData(place.bucket) + (b.flags_offset + place.slot) * size,
                size);
}

}  // namespace lockstep::gradient
