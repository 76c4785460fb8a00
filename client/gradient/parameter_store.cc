#include "client/gradient/parameter_store.h"

#include <algorithm>
#include <utility>

namespace lockstep::gradient {

absl::StatusOr<std::unique_ptr<ParameterStore>> ParameterStore::Create(
    const Layout& layout,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  std::unique_ptr<ParameterStore> store(new ParameterStore(layout));
  MutexLock lock(&store->mutex_);
  for (const Layout::Gather& gather : layout.gathers()) {
    const plan::Bucket& bucket = layout.bucket(gather.bucket);
    const size_t buckets =
        std::max<size_t>(store->memory_.size(), gather.bucket + 1);
    store->memory_.resize(buckets);
    store->arrivals_.resize(buckets);
    const size_t bytes = bucket.flags_offset * SizeOf(bucket.dtype);
    if (bytes == 0) continue;  // only empty parameters
    absl::StatusOr<ArenaBuffer> memory = allocate(bytes);
    if (!memory.ok()) return memory.status();
    store->memory_[gather.bucket] = *std::move(memory);
  }
  return store;
}

absl::Status ParameterStore::RegisterBuffers(
    absl::FunctionRef<Communicator*(int)> communicator,
    const BucketStore::RegisterFn& register_buffer) {
  if (!register_buffer) return absl::OkStatus();
  for (const Layout::Gather& gather : layout_.gathers()) {
    if (memory_[gather.bucket].bytes() == 0) continue;
    auto registered = register_buffer(*communicator(gather.communicator),
                                      memory_[gather.bucket]);
    if (!registered.ok()) return registered.status();
    if (*registered != nullptr)
      registrations_.push_back(*std::move(registered));
  }
  return absl::OkStatus();
}

absl::Span<std::byte> ParameterStore::View(int parameter) const {
  const BucketStore::SlotRef place = layout_.store().PlaceOf(parameter);
  const plan::Bucket& bucket = layout_.bucket(place.bucket);
  const plan::Slot& slot = bucket.slots[place.slot];
  const size_t size = SizeOf(bucket.dtype);
  return {BucketData(place.bucket) + slot.offset * size, slot.count * size};
}

// --- A step -----------------------------------------------------------------

absl::StatusOr<uint64_t> ParameterStore::Begin() {
  MutexLock lock(&mutex_);
  if (in_this_step_) {
    return absl::FailedPreconditionError(
        "the parameters of this step were gathered before");
  }
  in_this_step_ = true;
  return ++begun_;
}

absl::Status ParameterStore::CheckBegun() const {
  MutexLock lock(&mutex_);
  if (in_this_step_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "GatherParameters was not called in this step: the other ranks wait for "
      "what this one has updated");
}

void ParameterStore::EndStep() {
  MutexLock lock(&mutex_);
  in_this_step_ = false;
}

// --- Arriving ---------------------------------------------------------------

void ParameterStore::Arrived(int bucket, uint64_t number, Event done) {
  MutexLock lock(&mutex_);
  arrivals_[bucket] = {.number = number, .done = std::move(done)};
  changed_.NotifyAll();
}

absl::StatusOr<uint64_t> ParameterStore::Newest() const {
  MutexLock lock(&mutex_);
  if (begun_ > 0) return begun_;
  return absl::FailedPreconditionError(
      "GatherParameters was never called: there is nothing to wait for");
}

absl::StatusOr<Event> ParameterStore::Await(int parameter, uint64_t number) {
  const int bucket = layout_.store().PlaceOf(parameter).bucket;
  MutexLock lock(&mutex_);
  while (failure_.ok() && arrivals_[bucket].number < number) {
    changed_.Wait(&mutex_);
  }
  if (!failure_.ok()) return failure_;
  return arrivals_[bucket].done;
}

void ParameterStore::Fail(const absl::Status& error) {
  MutexLock lock(&mutex_);
  if (failure_.ok()) failure_ = error;
  changed_.NotifyAll();
}

bool ParameterStore::idle() const {
  MutexLock lock(&mutex_);
  for (const Layout::Gather& gather : layout_.gathers()) {
    if (arrivals_[gather.bucket].number < begun_) return false;
  }
  return true;
}

}  // namespace lockstep::gradient
