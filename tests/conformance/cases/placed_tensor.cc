#include "tests/conformance/cases/placed_tensor.h"

#include <algorithm>
#include <utility>

namespace lockstep::conformance {

absl::StatusOr<PlacedTensor> PlacedTensor::Make(std::vector<std::byte>* host,
                                                const GroupMemory& memory,
                                                Placement placement,
                                                Stream& stream) {
  PlacedTensor placed;
  placed.host_ = host;
  placed.device_ = memory.device;
  const bool on_device = memory.device != nullptr;
  if (!on_device && placement == Placement::kPrivate) return placed;
  const size_t bytes = std::max<size_t>(host->size(), 1);
  auto there = memory.allocate(bytes);
  if (!there.ok()) return there.status();
  placed.there_ = *std::move(there);
  if (!on_device) {
    std::copy(host->begin(), host->end(), placed.there_.data());
    return placed;
  }
  auto staging = memory.device->AllocateStaging(bytes);
  if (!staging.ok()) return staging.status();
  placed.staging_ = *std::move(staging);
  std::copy(host->begin(), host->end(), placed.staging_.data());
  absl::Status copied = placed.Copy(placed.staging_, placed.there_, stream);
  if (!copied.ok()) return copied;
  return placed;
}

void* PlacedTensor::data() const {
  // For tensors without elements.
  alignas(std::max_align_t) static std::byte nothing[1];
  if (there_.data() != nullptr) return there_.data();
  return host_->empty() ? nothing : host_->data();
}

absl::Status PlacedTensor::Fetch(Stream& stream) const {
  absl::Status fetched;
  if (device_ != nullptr) fetched = Copy(there_, staging_, stream);
  fetched.Update(stream.Synchronize());
  const ArenaBuffer& from = device_ != nullptr ? staging_ : there_;
  if (from.data() != nullptr) {
    std::copy_n(from.data(), host_->size(), host_->data());
  }
  return fetched;
}

absl::Status PlacedTensor::Copy(const ArenaBuffer& from, const ArenaBuffer& to,
                                Stream& stream) const {
  return device_->Perform(&stream,
                          [&](transport::DeviceContext::KernelQueue& queue) {
                            queue.Copy(from.data(), to.data(), host_->size());
                            return queue.status();
                          });
}

}  // namespace lockstep::conformance
