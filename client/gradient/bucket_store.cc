#include "client/gradient/bucket_store.h"

#include <algorithm>
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
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate,
    const std::vector<bool>& sums_in_pairs) {
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
  store.casts_.resize(plan.buckets.size());
  store.sums_.resize(plan.buckets.size());
  store.wide_.resize(plan.buckets.size());
  store.added_.resize(parameters.size());
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
    if (bucket.wire) {
      absl::StatusOr<WireCast> cast = WireCast::Create(bucket, allocate);
      if (!cast.ok()) return cast.status();
      store.casts_[place.bucket] = *std::move(cast);
    }
    if (bucket.leaves > 0) {
      const size_t c = bucket.communicator;
      absl::StatusOr<LeafSums> sums = LeafSums::Create(
          bucket, static_cast<int>(plan.communicators[c].ranks.size()),
          c < sums_in_pairs.size() && sums_in_pairs[c],
          store.BucketData(place.bucket), allocate);
      if (!sums.ok()) return sums.status();
      store.sums_[place.bucket] = *std::move(sums);
    }
    const size_t slots = bucket.slots.size();
    buffer = compute->AllocateStaging(slots *
                                      SizeOf(store.OnWire(place.bucket).dtype));
    if (!buffer.ok()) return buffer.status();
    store.flags_[place.bucket] = {.own = std::vector<uint8_t>(slots),
                                  .fetched = *std::move(buffer)};
  }
  return store;
}

absl::Status BucketStore::EnlistBuckets(
    absl::FunctionRef<Communicator*(int)> communicator, const Enlist& enlist) {
  if (!enlist) return absl::OkStatus();
  for (size_t b = 0; b < memory_.size(); ++b) {
    if (memory_[b].bytes() == 0) continue;
    Communicator& group = *communicator(plan_->buckets[b].communicator);
    for (const ArenaBuffer* buffer : Travelling(static_cast<int>(b))) {
      auto enlisted = enlist(group, *buffer);
      if (!enlisted.ok()) return enlisted.status();
      if (*enlisted != nullptr) enlistments_.push_back(*std::move(enlisted));
    }
  }
  return absl::OkStatus();
}

std::vector<const ArenaBuffer*> BucketStore::Travelling(int b) const {
  std::vector<const ArenaBuffer*> travelling;
  if (casts_[b]) travelling.push_back(&casts_[b]->wire());
  if (IsWide(b)) travelling.push_back(&wide_[b]);
  const bool sums_elsewhere = sums_[b] && sums_[b]->sum_buffer().bytes() > 0;
  if (!casts_[b] || (sums_[b] && !sums_elsewhere)) {
    travelling.push_back(&memory_[b]);
  }
  if (sums_elsewhere) travelling.push_back(&sums_[b]->sum_buffer());
  if (sums_[b] && sums_[b]->exchanges()) {
    travelling.push_back(&sums_[b]->slices_buffer());
  }
  return travelling;
}

const plan::Slot& BucketStore::SlotOf(int parameter) const {
  const Place place = places_[parameter];
  return plan_->buckets[place.bucket].slots[place.slot];
}

absl::Span<std::byte> BucketStore::View(int parameter) const {
  return PartOf(BucketData(places_[parameter].bucket), parameter);
}

absl::Span<std::byte> BucketStore::PartOf(std::byte* data,
                                          int parameter) const {
  const size_t size = SizeOf(bucket(places_[parameter].bucket).dtype);
  const plan::Slot& slot = SlotOf(parameter);
  return {data + slot.offset * size, slot.count * size};
}

std::byte* BucketStore::ResidualOf(int parameter) const {
  const std::optional<WireCast>& cast = casts_[places_[parameter].bucket];
  return cast ? cast->residual() : nullptr;
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

int BucketStore::LeavesOf(int parameter) const {
  const std::optional<LeafSums>& sums = sums_[places_[parameter].bucket];
  return sums ? sums->leaves() : 0;
}

void BucketStore::AddLeaf(Site& site, int parameter, const void* gradient,
                          double weight) {
  sums_[places_[parameter].bucket]->Add(site, SlotOf(parameter), gradient,
                                        weight, added_[parameter]);
}

void BucketStore::Complete(Site& site, int parameter, bool any) {
  if (LeavesOf(parameter) > 0) {
    sums_[places_[parameter].bucket]->AddZeros(site, SlotOf(parameter),
                                               added_[parameter]);
  } else if (!any) {
    Zero(site, parameter);
  }
}

absl::Status BucketStore::CopyGradients(const BucketStore& from) {
  return compute_->Perform(nullptr, [&](Site& site) {
    for (int parameter = 0; parameter < static_cast<int>(places_.size());
         ++parameter) {
      const absl::Span<std::byte> to = View(parameter);
      site.Copy(from.View(parameter).data(), to.data(), to.size());
      std::byte* const residual = ResidualOf(parameter);
      if (residual == nullptr) continue;
      site.Copy(from.PartOf(from.ResidualOf(parameter), parameter).data(),
                PartOf(residual, parameter).data(), to.size());
    }
    if (!site.status().ok()) return site.status();
    return site.Done().Wait();
  });
}

void BucketStore::SetFlag(int parameter, bool contributed) {
  const Place place = places_[parameter];
  const size_t size = SizeOf(OnWire(place.bucket).dtype);
  Flags& flags = flags_[place.bucket];
  flags.own[place.slot] = contributed;
  std::memset(flags.fetched.data() + place.slot * size, 0, size);
}

bool BucketStore::FeedsBack() const {
  return std::any_of(casts_.begin(), casts_.end(),
                     [](const std::optional<WireCast>& cast) {
                       return cast.has_value() && cast->residual() != nullptr;
                     });
}

BucketStore::Wire BucketStore::OnWire(int b) const {
  const std::optional<LeafSums>& sums = sums_[b];
  if (sums && !sums->exchanges()) return {sums->sum(), sums->dtype()};
  return {casts_[b] ? casts_[b]->data() : BucketData(b), WireOf(bucket(b))};
}

std::byte* BucketStore::FlagsOnWire(int b) const {
  const Wire wire = OnWire(b);
  return wire.data + bucket(b).flags_offset * SizeOf(wire.dtype);
}

void BucketStore::Load(Site& site, int b) {
  if (casts_[b]) casts_[b]->Out(site, bucket(b), BucketData(b), flags_[b].own);
  site.WriteFlags(flags_[b].own, OnWire(b).dtype, FlagsOnWire(b));
}

void BucketStore::Unload(Site& site, int b, const plan::Slice& slice) {
  const plan::Bucket& of = bucket(b);
  const Wire wire = OnWire(b);
  if (casts_[b]) {
    casts_[b]->In(site, of, BucketData(b), slice);
  } else if (wire.data != BucketData(b)) {
    site.CastScale(wire.data, wire.dtype, 1, BucketData(b), of.dtype,
                   of.flags_offset);
  }
  const ArenaBuffer& fetched = flags_[b].fetched;
  site.Copy(FlagsOnWire(b), fetched.data(), fetched.bytes());
}

absl::Status BucketStore::MakeWide(
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  for (size_t b = 0; b < memory_.size(); ++b) {
    const plan::Bucket& of = plan_->buckets[b];
    const bool is_half = of.dtype == DType::kF16 || of.dtype == DType::kBF16;
    if (memory_[b].bytes() == 0 || !is_half || of.op != ReduceOp::kMean) {
      continue;
    }
    absl::StatusOr<ArenaBuffer> memory =
        allocate(of.total * SizeOf(DType::kF32));
    if (!memory.ok()) return memory.status();
    wide_[b] = *std::move(memory);
  }
  return absl::OkStatus();
}

void BucketStore::LoadWide(Site& site, int b) {
  const plan::Bucket& of = bucket(b);
  site.CastScale(BucketData(b), of.dtype, 1, Wide(b), DType::kF32,
                 of.flags_offset);
  site.WriteFlags(flags_[b].own, DType::kF32,
                  Wide(b) + of.flags_offset * SizeOf(DType::kF32));
}

void BucketStore::UnloadWide(Site& site, int b, double factor) {
  const plan::Bucket& of = bucket(b);
  site.CastScale(Wide(b), DType::kF32, factor, BucketData(b), of.dtype,
                 of.flags_offset);
  site.CastScale(Wide(b) + of.flags_offset * SizeOf(DType::kF32), DType::kF32,
                 1, FlagsOnWire(b), of.dtype, of.slots.size());
  const ArenaBuffer& fetched = flags_[b].fetched;
  site.Copy(FlagsOnWire(b), fetched.data(), fetched.bytes());
}

void BucketStore::KeepResiduals() {
  for (std::optional<WireCast>& cast : casts_) {
    if (cast) cast->Keep();
  }
}

bool BucketStore::Gave(int parameter) const {
  const Place place = places_[parameter];
  return flags_[place.bucket].own[place.slot] != 0;
}

bool BucketStore::Contributed(int parameter) const {
  const Place place = places_[parameter];
  const size_t size = SizeOf(OnWire(place.bucket).dtype);
  return AnyBit(flags_[place.bucket].fetched.data() + place.slot * size, size);
}

}  // namespace lockstep::gradient
