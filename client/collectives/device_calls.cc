#include "client/collectives/device_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/collectives/signature.h"
#include "client/collectives/transfer_steps.h"

namespace lockstep::collectives {
namespace {

using KernelQueue = transport::DeviceContext::KernelQueue;

constexpr size_t kFaultBytes = Arena::kAlignment;

bool UsesMemory(const Lowered& lowered) {
  return lowered.scratch_bytes > 0 ||
         std::any_of(lowered.steps.begin(), lowered.steps.end(), HasIndices);
}

}  // namespace

DeviceCalls::~DeviceCalls() { last_.Wait().IgnoreError(); }

kernels::IndexFault* DeviceCalls::fault() const {
  return scratch_.as<kernels::IndexFault>().data();
}
kernels::IndexFault* DeviceCalls::staged_fault() const {
  return staging_.as<kernels::IndexFault>().data();
}
std::byte* DeviceCalls::scratch() const {
  return scratch_.data() + kFaultBytes;
}
std::byte* DeviceCalls::staging() const {
  return staging_.data() + kFaultBytes;
}

absl::Status DeviceCalls::Reserve(const Lowered& lowered) {
  if (!UsesMemory(lowered)) return absl::OkStatus();
  return ReserveMemory(lowered.scratch_bytes, 0);
}

absl::Status DeviceCalls::ReserveMemory(size_t scratch_bytes,
                                        size_t staging_bytes) {
  const auto grow = [this](ArenaBuffer& buffer, size_t bytes,
                           const Allocate& allocate) {
    bytes += kFaultBytes;
    if (buffer.bytes() >= bytes) return absl::OkStatus();
    auto larger = allocate(bytes);
    if (!larger.ok()) return larger.status();
    absl::Status waited = last_.Wait();
    if (waited.ok()) buffer = *std::move(larger);
    return waited;
  };
  absl::Status status = grow(scratch_, scratch_bytes, allocate_);
  if (!status.ok()) return status;
  return grow(staging_, staging_bytes, [this](size_t bytes) {
    return context_->AllocateStaging(bytes);
  });
}

absl::Status DeviceCalls::CheckStream(const Stream& stream,
                                      bool uses_memory) const {
  absl::Status status = context_->CheckStream(stream);
  if (!status.ok() || !uses_memory || !context_->Captures(stream))
    return status;
  return absl::UnimplementedError(
      "a collective that needs scratch memory, or that is compared with the "
      "other ranks' calls, cannot be captured into a graph");
}

absl::Status DeviceCalls::Run(const Lowered& lowered, CallMemory memory,
                              Communicator& communicator, Stream& stream,
                              std::shared_ptr<CallOutcome> outcome) {
  const bool uses_memory = UsesMemory(lowered);
  absl::Status status = CheckStream(stream, uses_memory);
  if (!status.ok()) return status;
  if (!uses_memory) {
    return Enqueue(lowered, memory, communicator, stream, outcome);
  }
  return RunWithMemory(
      lowered.scratch_bytes, 0, stream, [&](const DeviceScratch& taken) {
        memory.scratch = taken.scratch;
        return Enqueue(lowered, memory, communicator, stream, outcome);
      });
}

absl::Status DeviceCalls::RunWithMemory(
    size_t scratch_bytes, size_t staging_bytes, Stream& stream,
    absl::FunctionRef<absl::Status(const DeviceScratch& memory)> enqueue) {
  absl::Status status = ReserveMemory(scratch_bytes, staging_bytes);
  if (!status.ok()) return status;
  stream.WaitFor(last_);
  status = enqueue({.scratch = scratch(), .staging = staging()});
  last_ = stream.Record();
  return status;
}

absl::Status DeviceCalls::Enqueue(const Lowered& lowered,
                                  const CallMemory& memory,
                                  Communicator& communicator, Stream& stream,
                                  const std::shared_ptr<CallOutcome>& outcome) {
  const absl::Span<const Step> steps = lowered.steps;
  for (size_t i = 0; i < steps.size();) {
    size_t end = i;
    while (end < steps.size() && IsLocal(steps[end])) ++end;
    absl::Status status =
        end > i ? EnqueueLocalSteps(steps.subspan(i, end - i), memory, stream,
                                    outcome)
                : EnqueueTransfer(steps[i], memory, communicator, stream);
    if (!status.ok()) return status;
    i = std::max(end, i + 1);
  }
  return absl::OkStatus();
}

absl::Status DeviceCalls::EnqueueLocalSteps(
    absl::Span<const Step> steps, const CallMemory& memory, Stream& stream,
    const std::shared_ptr<CallOutcome>& outcome) {
  return context_->Perform(&stream, [&](KernelQueue& queue) {
    for (const Step& step : steps) {
      const bool has_indices = HasIndices(step);
      if (has_indices) queue.Zero(fault(), sizeof *fault());
      queue.RunLocalStep(
          LocalStepOf(step, memory, has_indices ? fault() : nullptr));
      if (!has_indices) continue;
      queue.Copy(fault(), staged_fault(), sizeof *fault());
      queue.CallOnce([outcome, staged = staged_fault(), size = step.index] {
        absl::Status status = StatusOf(*staged, size);
        if (outcome != nullptr) outcome->Update(status);
        return status;
      });
    }
    return queue.status();
  });
}

absl::Status DeviceCalls::CompareSignatures(const std::string& own,
                                            absl::Span<const int> ranks,
                                            Communicator& communicator,
                                            Stream& stream) {
  const size_t bytes =
      (static_cast<size_t>(communicator.size()) + 1) * kSignatureBytes;
  absl::Status status =
      RunWithMemory(bytes, bytes, stream, [&](const DeviceScratch&) {
        return GatherSignatures(own, communicator, stream);
      });
  status.Update(last_.Wait());
  status.Update(communicator.status());
  if (!status.ok()) return status;
  const std::string fault = SignatureFault(staging() + kSignatureBytes, ranks);
  if (fault.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(DifferentCalls(fault));
}

// The own signature from staging to the device, and all of them back.
absl::Status DeviceCalls::GatherSignatures(const std::string& own,
                                           Communicator& communicator,
                                           Stream& stream) {
  std::byte* const staged = staging();
  std::byte* const all = scratch() + kSignatureBytes;
  WriteSignature(own, staged);
  absl::Status status = context_->Perform(&stream, [&](KernelQueue& queue) {
    queue.Copy(staged, scratch(), kSignatureBytes);
    return queue.status();
  });
  if (!status.ok()) return status;
  status = communicator.AllGather(scratch(), all, kSignatureBytes, DType::kU8,
                                  stream);
  if (!status.ok()) return status;
  return context_->Perform(&stream, [&](KernelQueue& queue) {
    const auto size = static_cast<size_t>(communicator.size());
    queue.Copy(all, staged + kSignatureBytes, size * kSignatureBytes);
    return queue.status();
  });
}

}  // namespace lockstep::collectives
