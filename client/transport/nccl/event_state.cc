#include "client/transport/nccl/event_state.h"

#include <chrono>
#include <thread>

#include "base/deadline.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"

namespace lockstep::transport::nccl {
namespace {

// Polls often at first, then every 50 us: the device cannot wake a host thread
// that also has a deadline.
class PollBackoff {
 public:
  void Wait() {
    if (++turns_ < 200) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  int turns_ = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<CudaEvent>> CudaEvent::Record(
    CudaApi* cuda, CudaStreamHandle stream, bool captured) {
  const DeviceScope scope(*cuda);
  CudaEventHandle handle = nullptr;
  absl::Status made =
      Check(*cuda, cuda->EventCreateWithFlags(&handle, kCudaEventDisableTiming),
            "EventCreateWithFlags");
  if (!made.ok()) return made;
  std::shared_ptr<CudaEvent> event(new CudaEvent(cuda, handle, captured));
  made = Check(*cuda, cuda->EventRecord(handle, stream), "EventRecord");
  if (!made.ok()) return made;
  return event;
}

absl::StatusOr<bool> CudaEvent::Reached() const {
  if (captured_) return false;
  const DeviceScope scope(*cuda_);
  const CudaResult asked = cuda_->EventQuery(handle_);
  if (asked == CudaResult::kSuccess) return true;
  if (asked != CudaResult::kNotReady) {
    return Check(*cuda_, asked, "EventQuery");
  }
  (void)cuda_->GetLastError();
  return false;
}

absl::StatusOr<bool> CudaEventState::Reached() const {
  if (!event_.ok()) return event_.status();
  if (*event_ == nullptr) return true;
  return (*event_)->Reached();
}

bool CudaEventState::Done() const {
  const absl::StatusOr<bool> reached = Reached();
  return !reached.ok() || *reached;
}

absl::Status CudaEventState::Wait(absl::Duration timeout) const {
  if (event_.ok() && *event_ != nullptr && (*event_)->captured()) {
    return absl::FailedPreconditionError(
        "the stream is being captured: nothing runs, and nothing can be waited "
        "for");
  }
  const Deadline deadline(timeout);
  PollBackoff backoff;
  for (;;) {
    const absl::StatusOr<bool> reached = Reached();
    if (!reached.ok()) return reached.status();
    if (*reached) return absl::OkStatus();
    if (deadline.Passed()) {
      return absl::DeadlineExceededError("the stream has not got there yet");
    }
    backoff.Wait();
  }
}

absl::Status CudaEventState::Join(CudaApi& cuda,
                                  CudaStreamHandle stream) const {
  const absl::StatusOr<bool> reached = Reached();
  if (!reached.ok()) return reached.status();
  if (*reached) return absl::OkStatus();
  const DeviceScope scope(cuda);
  return Check(cuda, cuda.StreamWaitEvent(stream, (*event_)->handle()),
               "StreamWaitEvent");
}

}  // namespace lockstep::transport::nccl
