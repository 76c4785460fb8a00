#include "client/gradient/bucket_store.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "plan/shard.h"

namespace lockstep::gradient {
namespace {

bool AnyBit(const std::byte* at, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (at[i] != std::byte{0}) return true;
  }
  return false;
}

// How the plan reduces a bucket on a rank.
struct Form {
  DType wire = DType::kF32;
  bool in_pairs = false;  // as one operation
};

std::vector<Form> FormsOf(const plan::Plan& plan, int rank) {
  std::vector<Form> forms(plan.buckets.size());
  for (size_t b = 0; b < forms.size(); ++b) {
    forms[b].wire = plan.buckets[b].dtype;
  }
  for (const plan::Lane& lane : plan.ranks[rank].lanes) {
    for (const plan::Transfer& transfer : lane.transfers) {
      using plan::TransferKind;
      // The exchange before an all-gather is of the sums' dtype.
      if (transfer.bucket < 0 || transfer.kind == TransferKind::kAllToAll) {
        continue;
      }
      if (plan::GathersParameters(plan, transfer)) continue;
      forms[transfer.bucket] = {transfer.dtype,
                                transfer.kind == TransferKind::kAllReducePairs};
    }
  }
  return forms;
}

}  // namespace

absl::StatusOr<BucketStore> BucketStore::Create(
    const plan::Plan& plan, int rank, const std::vector<int>& parameters,
    transport::DeviceContext* compute,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  std::vector<SlotRef> place_of(plan.parameters.size());
  for (int b = 0; b < static_cast<int>(plan.buckets.size()); ++b) {
    const std::vector<plan::Slot>& slots = plan.buckets[b].slots;
    for (int s = 0; s < static_cast<int>(slots.size()); ++s) {
      place_of[slots[s].parameter] = {b, s};
    }
  }
  const std::vector<Form> forms = FormsOf(plan, rank);

  BucketStore store;
  store.plan_ = &plan;
  store.compute_ = compute;
  store.memory_.resize(plan.buckets.size());
  store.flags_.resize(plan.buckets.size());
  store.casts_.resize(plan.buckets.size());
  store.sums_.resize(plan.buckets.size());
  store.shares_.resize(plan.buckets.size());
  store.added_.resize(parameters.size());
  for (int parameter : parameters) {
    const SlotRef place = place_of[parameter];
    store.places_.push_back(place);
    ArenaBuffer& memory = store.memory_[place.bucket];
    if (memory.bytes() > 0) continue;
    const plan::Bucket& bucket = plan.buckets[place.bucket];
    const Form& form = forms[place.bucket];
    absl::StatusOr<ArenaBuffer> buffer =
        allocate(bucket.total * SizeOf(bucket.dtype));
    if (!buffer.ok()) return buffer.status();
    memory = *std::move(buffer);
    if (!form.in_pairs && form.wire != bucket.dtype) {
      absl::StatusOr<WireCast> cast =
          WireCast::Create(bucket, form.wire, allocate);
      if (!cast.ok()) return cast.status();
      store.casts_[place.bucket] = *std::move(cast);
    }
    if (bucket.leaves > 0) {
      absl::StatusOr<LeafSums> sums = LeafSums::Create(
          bucket,
          static_cast<int>(
              plan.communicators[bucket.communicator].ranks.size()),
          form.in_pairs, store.BucketData(place.bucket), allocate);
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

absl::Status BucketStore::RegisterBuckets(
    absl::FunctionRef<Communicator*(int)> communicator,
    const RegisterFn& register_buffer) {
  if (!register_buffer) return absl::OkStatus();
  for (size_t b = 0; b < memory_.size(); ++b) {
    if (memory_[b].bytes() == 0) continue;
    Communicator& group = *communicator(plan_->buckets[b].communicator);
    for (const ArenaBuffer* buffer : SentBuffers(static_cast<int>(b))) {
      auto registered = register_buffer(group, *buffer);
      if (!registered.ok()) return registered.status();
      if (*registered != nullptr)
        registrations_.push_back(*std::move(registered));
    }
  }
  return absl::OkStatus();
}

std::vector<const ArenaBuffer*> BucketStore::SentBuffers(int b) const {
  std::vector<const ArenaBuffer*> transferred;
  if (casts_[b]) transferred.push_back(&casts_[b]->wire());
  const bool sums_elsewhere = sums_[b] && sums_[b]->sum_buffer().bytes() > 0;
  if (!casts_[b] || (sums_[b] && !sums_elsewhere)) {
    transferred.push_back(&memory_[b]);
  }
  if (sums_elsewhere) transferred.push_back(&sums_[b]->sum_buffer());
  if (sums_[b] && sums_[b]->exchanges()) {
    transferred.push_back(&sums_[b]->slices_buffer());
  }
  return transferred;
}

const plan::Slot& BucketStore::SlotOf(int parameter) const {
  const SlotRef place = places_[parameter];
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

// The kernels only read the tensor; kernels::TensorSlot serves both directions.
kernels::TensorSlot BucketStore::TensorSlotOf(int parameter,
                                              const void* gradient) const {
  const plan::Slot& slot = SlotOf(parameter);
  return {.tensor = const_cast<void*>(gradient),
          .offset = static_cast<size_t>(slot.offset),
          .count = static_cast<size_t>(slot.count)};
}

void BucketStore::Pack(KernelQueue& kernel_queue, int parameter,
                       const void* gradient, double weight, bool add) {
  const SlotRef place = places_[parameter];
  const kernels::TensorSlot packed[] = {TensorSlotOf(parameter, gradient)};
  kernel_queue.Pack(packed, bucket(place.bucket).dtype, weight, add,
                    BucketData(place.bucket));
}

void BucketStore::PackTogether(KernelQueue& kernel_queue,
                               std::span<const PackedGradient> gradients,
                               double weight) {
  std::vector<kernels::TensorSlot> packed;
  for (const PackedGradient& each : gradients) {
    packed.push_back(TensorSlotOf(each.parameter, each.gradient));
  }
  if (packed.empty()) return;
  std::sort(packed.begin(), packed.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  const int b = places_[gradients[0].parameter].bucket;
  kernel_queue.Pack(packed, bucket(b).dtype, weight, /*add=*/false,
                    BucketData(b));
}

void BucketStore::Zero(KernelQueue& kernel_queue, int parameter) {
  const absl::Span<std::byte> view = View(parameter);
  kernel_queue.Zero(view.data(), view.size());
}

int BucketStore::LeavesOf(int parameter) const {
  const std::optional<LeafSums>& sums = sums_[places_[parameter].bucket];
  return sums ? sums->leaves() : 0;
}

void BucketStore::AddLeaf(KernelQueue& kernel_queue, int parameter,
                          const void* gradient, double weight) {
  sums_[places_[parameter].bucket]->Add(kernel_queue, SlotOf(parameter),
                                        gradient, weight, added_[parameter]);
}

void BucketStore::Complete(KernelQueue& kernel_queue, int parameter, bool any) {
  if (LeavesOf(parameter) > 0) {
    sums_[places_[parameter].bucket]->AddZeros(kernel_queue, SlotOf(parameter),
                                               added_[parameter]);
  } else if (!any) {
    Zero(kernel_queue, parameter);
  }
}

absl::Status BucketStore::CopyGradients(const BucketStore& from) {
  return compute_->Perform(nullptr, [&](KernelQueue& kernel_queue) {
    for (int parameter = 0; parameter < static_cast<int>(places_.size());
         ++parameter) {
      const absl::Span<std::byte> to = View(parameter);
      kernel_queue.Copy(from.View(parameter).data(), to.data(), to.size());
      std::byte* const residual = ResidualOf(parameter);
      if (residual == nullptr) continue;
      kernel_queue.Copy(
          from.PartOf(from.ResidualOf(parameter), parameter).data(),
          PartOf(residual, parameter).data(), to.size());
    }
    if (!kernel_queue.status().ok()) return kernel_queue.status();
    return kernel_queue.Done().Wait();
  });
}

absl::Status BucketStore::MakeCopies(
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  copies_.resize(memory_.size());
  for (size_t b = 0; b < memory_.size(); ++b) {
    if (memory_[b].bytes() == 0 || copies_[b].bytes() > 0) continue;
    absl::StatusOr<ArenaBuffer> copy = allocate(memory_[b].bytes());
    if (!copy.ok()) return copy.status();
    copies_[b] = *std::move(copy);
  }
  return absl::OkStatus();
}

void BucketStore::KeepCopy(KernelQueue& kernel_queue, int b,
                           const VerdictScalars* may) {
  kernel_queue.CommitCopy(may, memory_[b].data(), copies_[b].data(),
                          memory_[b].bytes());
}

absl::Status BucketStore::RestoreCopies() {
  return compute_->Perform(nullptr, [this](KernelQueue& kernel_queue) {
    for (size_t b = 0; b < copies_.size(); ++b) {
      kernel_queue.Copy(copies_[b].data(), memory_[b].data(),
                        copies_[b].bytes());
    }
    if (!kernel_queue.status().ok()) return kernel_queue.status();
    return kernel_queue.Done().Wait();
  });
}

void BucketStore::SetFlag(int parameter, bool contributed) {
  const SlotRef place = places_[parameter];
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

BucketStore::WireBuffer BucketStore::OnWire(int b) const {
  const std::optional<LeafSums>& sums = sums_[b];
  if (sums && !sums->exchanges()) return {sums->sum(), sums->dtype()};
  if (casts_[b]) return {casts_[b]->data(), casts_[b]->dtype()};
  return {BucketData(b), bucket(b).dtype};
}

std::byte* BucketStore::FlagsOnWire(int b) const {
  const WireBuffer wire = OnWire(b);
  return wire.data + bucket(b).flags_offset * SizeOf(wire.dtype);
}

// --- Local operations -------------------------------------------------------

void BucketStore::Cast(KernelQueue& kernel_queue, int b,
                       const plan::LocalOp& op, executor::Side side) {
  const plan::Bucket& of = bucket(b);
  if (side == executor::Side::kBefore) {
    return casts_[b]->ToWire(kernel_queue, of, BucketData(b), op);
  }
  if (casts_[b])
    return casts_[b]->FromWire(kernel_queue, of, BucketData(b), op);
  // The sums of leaves.
  kernel_queue.CastScale(OnWire(b).data + op.offset * SizeOf(op.from), op.from,
                         1, BucketData(b) + op.offset * SizeOf(op.to), op.to,
                         op.count);
}

absl::Status BucketStore::Apply(KernelQueue& kernel_queue, int b,
                                const plan::LocalOp& op, executor::Side side,
                                bool is_back) {
  using plan::LocalKind;
  const plan::Bucket& of = bucket(b);
  const bool is_before = side == executor::Side::kBefore;
  std::byte* const gradients = BucketData(b);
  switch (op.kind) {
    case LocalKind::kCast: Cast(kernel_queue, b, op, side); break;
    case LocalKind::kCastFeedback:
      casts_[b]->ToWireWithFeedback(kernel_queue, of, gradients, flags_[b].own);
      break;
    case LocalKind::kWriteFlags:
      kernel_queue.WriteFlags(flags_[b].own, OnWire(b).dtype, FlagsOnWire(b));
      break;
    case LocalKind::kReadFlags:
      kernel_queue.Copy(FlagsOnWire(b), flags_[b].fetched.data(),
                        flags_[b].fetched.bytes());
      break;
    case LocalKind::kSumPairs:
      kernel_queue.ReducePairs(
          sums(b).slices(),
          static_cast<int>(plan_->communicators[of.communicator].ranks.size()),
          op.from, 1.0 / op.divisor, gradients + op.offset * SizeOf(op.to),
          op.to, op.count);
      break;
    case LocalKind::kZeroUnlessGiven:
      if (shares_[b].gives) break;
      kernel_queue.Zero(gradients + op.offset * SizeOf(of.dtype),
                        op.count * SizeOf(of.dtype));
      break;
    case LocalKind::kRescale: {
      const WireBuffer wire =
          is_before || is_back ? WireBuffer{gradients, of.dtype} : OnWire(b);
      kernel_queue.Scale(wire.data + op.offset * SizeOf(wire.dtype), wire.dtype,
                         1.0 / announcers(b), op.count);
      break;
    }
    default:
      return absl::InvalidArgumentError(absl::StrFormat(
          "the plan has a %s among the local operations of bucket %d",
          std::string(Name(op.kind)), b));
  }
  return kernel_queue.status();
}

void BucketStore::KeepResiduals() {
  for (std::optional<WireCast>& cast : casts_) {
    if (cast) cast->Keep();
  }
}

bool BucketStore::Gave(int parameter) const {
  const SlotRef place = places_[parameter];
  return flags_[place.bucket].own[place.slot] != 0;
}

bool BucketStore::Contributed(int parameter) const {
  const SlotRef place = places_[parameter];
  const size_t size = SizeOf(OnWire(place.bucket).dtype);
  return AnyBit(flags_[place.bucket].fetched.data() + place.slot * size, size);
}

}  // namespace lockstep::gradient
