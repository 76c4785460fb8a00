#include "client/transport/nccl/cuda_queue.h"

#include "client/transport/nccl/cuda_kernel_queue.h"

namespace lockstep::transport::nccl {

void CudaQueue::Launch(DeviceContext::Operation& operation,
                       std::vector<Event> after) {
  driver_.Enqueue([this, &operation, after = std::move(after)] {
    Drive(operation, after);
    return absl::OkStatus();
  });
}

void CudaQueue::SetOnDrain(bool on_drain) {
  driver_
      .SetExecution(on_drain ? HostStream::Execution::kOnWait
                             : HostStream::Execution::kThread)
      .IgnoreError();
}

bool CudaQueue::IsCapturedWithout(const Stream* stream) const {
  const absl::StatusOr<CudaCaptureId> mine = stream_->FindCapture();
  if (!mine.ok()) return true;
  const auto* const other = dynamic_cast<const CudaStream*>(stream);
  return *mine != 0 && (other == nullptr || other->capture() != *mine);
}

void CudaQueue::Drive(DeviceContext::Operation& operation,
                      const std::vector<Event>& after) {
  const bool on_side_stream = operation.on_side_stream();
  CudaKernelQueue kernel_queue(*device_, *stream_);
  CudaKernelQueue beside(*device_, *side_stream_);
  if (!on_side_stream && used_side_stream_) {
    kernel_queue.WaitFor(beside.Done());
    used_side_stream_ = !kernel_queue.status().ok();
  }
  for (const Event& event : after) kernel_queue.WaitFor(event);
  absl::Status status = operation.Before(kernel_queue);
  if (status.ok()) status = kernel_queue.status();
  if (status.ok()) status = Communicate(operation);
  if (!on_side_stream || !status.ok()) {
    return operation.Then(kernel_queue, status);
  }
  beside.WaitFor(kernel_queue.Done());
  used_side_stream_ = true;
  operation.Then(beside, status);
}

absl::Status CudaQueue::Communicate(DeviceContext::Operation& operation) {
  stream_->TakeError().IgnoreError();
  absl::Status status = operation.Communicate(*stream_);
  if (absl::Status error = stream_->TakeError(); status.ok()) status = error;
  return status;
}

}  // namespace lockstep::transport::nccl
