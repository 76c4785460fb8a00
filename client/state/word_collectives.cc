#include "client/state/word_collectives.h"

#include <algorithm>
#include <utility>

#include "client/transport/device_context.h"

namespace lockstep::state {

using KernelQueue = transport::DeviceContext::KernelQueue;

absl::Status WordCollectives::AllReduceMax(absl::Span<uint64_t> words) {
  return Run(words, words, [&](const void* in, void* out) {
    return comm_.AllReduce(in, out, words.size(), DType::kU64, ReduceOp::kMax,
                           stream_);
  });
}

absl::StatusOr<std::vector<uint64_t>> WordCollectives::AllGather(
    absl::Span<const uint64_t> words) {
  std::vector<uint64_t> all(words.size() * static_cast<size_t>(comm_.size()));
  absl::Status status =
      Run(words, absl::MakeSpan(all), [&](const void* in, void* out) {
        return comm_.AllGather(in, out, words.size(), DType::kU64, stream_);
      });
  if (!status.ok()) return status;
  return all;
}

absl::Status WordCollectives::Run(absl::Span<const uint64_t> in,
                                  absl::Span<uint64_t> out, Enqueue enqueue) {
  const bool on_device = memory_.device != nullptr;
  absl::Status status = on_device ? EnqueueOnDevice(in, out, enqueue)
                                  : enqueue(in.data(), out.data());
  status.Update(stream_.Synchronize());
  status.Update(comm_.status());
  if (!status.ok() || !on_device) return status;
  const auto staged = staging_.as<uint64_t>().subspan(in.size(), out.size());
  std::copy(staged.begin(), staged.end(), out.begin());
  return absl::OkStatus();
}

absl::Status WordCollectives::EnqueueOnDevice(absl::Span<const uint64_t> in,
                                              absl::Span<uint64_t> out,
                                              Enqueue enqueue) {
  absl::Status status = Reserve(in.size() + out.size());
  if (!status.ok()) return status;
  uint64_t* const staged = staging_.as<uint64_t>().data();
  uint64_t* const words = on_device_.as<uint64_t>().data();
  std::copy(in.begin(), in.end(), staged);
  status = memory_.device->Perform(&stream_, [&](KernelQueue& queue) {
    queue.Copy(staged, words, in.size() * sizeof(uint64_t));
    return queue.status();
  });
  if (status.ok()) status = enqueue(words, words + in.size());
  if (!status.ok()) return status;
  return memory_.device->Perform(&stream_, [&](KernelQueue& queue) {
    queue.Copy(words + in.size(), staged + in.size(),
               out.size() * sizeof(uint64_t));
    return queue.status();
  });
}

absl::Status WordCollectives::Reserve(size_t words) {
  const size_t bytes = words * sizeof(uint64_t);
  if (bytes <= on_device_.bytes()) return absl::OkStatus();
  auto staging = memory_.device->AllocateStaging(bytes);
  if (!staging.ok()) return staging.status();
  auto on_device = memory_.Allocate(bytes);
  if (!on_device.ok()) return on_device.status();
  staging_ = *std::move(staging);
  on_device_ = *std::move(on_device);
  return absl::OkStatus();
}

}  // namespace lockstep::state
