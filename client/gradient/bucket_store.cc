#include "client/gradient/bucket_store.h"

#include <cstring>
#include <utility>

namespace lockstep::gradient {
namespace {

bool AnyBit(const std::byte* at, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (at[i] != std::byte{0}) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<BucketStore> BucketStore::Create(
    const plan::Plan& plan, const std::vector<int>& parameters,
    transport::Compute* compute,
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
  store.compute_ = compute;
  store.memory_.resize(plan.buckets.size());
  store.flags_.resize(plan.buckets.size());
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
    const size_t slots = bucket.slots.size();
    buffer = compute->AllocateStaging(slots * SizeOf(bucket.dtype));
    if (!buffer.ok()) return buffer.status();
    store.flags_[place.bucket] = {.own = std::vector<uint8_t>(slots),
                                  .fetched = *std::move(buffer)};
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

void BucketStore::Pack(Site& site, int parameter, const void* gradient,
                       double weight, bool add) {
  const Place place = places_[parameter];
  const plan::Slot& slot = SlotOf(parameter);
  // The kernels read the tensor; their slot is the same for both directions.
  const kernels::Slot packed[] = {{.tensor = const_cast<void*>(gradient),
                                   .offset = static_cast<size_t>(slot.offset),
                                   .count = static_cast<size_t>(slot.count)}};
  site.Pack(packed, bucket(place.bucket).dtype, weight, add,
            BucketData(place.bucket));
}

void BucketStore::Zero(Site& site, int parameter) {
  const absl::Span<std::byte> view = View(parameter);
  site.Zero(view.data(), view.size());
}

absl::Status BucketStore::CopyGradients(const BucketStore& from) {
  return compute_->Perform(nullptr, [&](Site& site) {
    for (int parameter = 0; parameter < static_cast<int>(places_.size());
         ++parameter) {
      const absl::Span<std::byte> to = View(parameter);
      site.Copy(from.View(parameter).data(), to.data(), to.size());
    }
    if (!site.status().ok()) return site.status();
    return site.Done().Wait();
  });
}

void BucketStore::SetFlag(int parameter, bool contributed) {
  const Place place = places_[parameter];
  const size_t size = SizeOf(bucket(place.bucket).dtype);
  Flags& flags = flags_[place.bucket];
  flags.own[place.slot] = contributed;
  std::memset(flags.fetched.data() + place.slot * size, 0, size);
}

void BucketStore::WriteFlags(Site& site, int b) {
  const plan::Bucket& of = bucket(b);
  site.WriteFlags(flags_[b].own, of.dtype,
                  BucketData(b) + of.flags_offset * SizeOf(of.dtype));
}

void BucketStore::FetchFlags(Site& site, int b) {
  const plan::Bucket& of = bucket(b);
  const ArenaBuffer& fetched = flags_[b].fetched;
  site.Copy(BucketData(b) + of.flags_offset * SizeOf(of.dtype), fetched.data(),
            fetched.bytes());
}

bool BucketStore::Contributed(int parameter) const {
  const Place place = places_[parameter];
  const size_t size = SizeOf(bucket(place.bucket).dtype);
  return AnyBit(flags_[place.bucket].fetched.data() + place.slot * size, size);
}

}  // namespace lockstep::gradient
