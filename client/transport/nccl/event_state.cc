#include "client/transport/nccl/event_state.h"

#include <algorithm>
#include <chrono>
#include <thread>

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

absl::Status Late() {
  return absl::DeadlineExceededError("the stream has not got there yet");
}

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

void EventPromise::Publish(CudaEvents events, const All& also) {
  All promised;
  for (const auto& each : also) Resolve(each, &events, &promised);
  MutexLock lock(&mutex_);
  events_ = std::move(events);
  also_ = std::move(promised);
  published_ = true;
  changed_.NotifyAll();
}

void EventPromise::Resolve(const std::shared_ptr<EventPromise>& promise,
                           CudaEvents* events, All* promised) {
  All also;
  {
    MutexLock lock(&promise->mutex_);
    if (promise->published_) {
      events->insert(events->end(), promise->events_.begin(),
                     promise->events_.end());
      also = promise->also_;
    } else {
      also = {promise};
    }
  }
  promised->insert(promised->end(), also.begin(), also.end());
}

bool EventPromise::published() const {
  if (host_) return host_->Done();
  All also;
  {
    MutexLock lock(&mutex_);
    if (!published_) return false;
    also = also_;
  }
  return std::all_of(also.begin(), also.end(),
                     [](const auto& each) { return each->published(); });
}

CudaEvents EventPromise::events() const {
  CudaEvents events;
  All also;
  {
    MutexLock lock(&mutex_);
    events = events_;
    also = also_;
  }
  for (const auto& each : also) {
    const CudaEvents more = each->events();
    events.insert(events.end(), more.begin(), more.end());
  }
  return events;
}

bool EventPromise::Wait(const Deadline& deadline) const {
  if (host_) return host_->Wait(deadline.Left()).ok() || host_->Done();
  All also;
  {
    MutexLock lock(&mutex_);
    while (!published_ && !deadline.Passed()) {
      changed_.WaitFor(&mutex_, deadline.Left());
    }
    if (!published_) return false;
    also = also_;
  }
  return std::all_of(also.begin(), also.end(),
                     [&](const auto& each) { return each->Wait(deadline); });
}

bool CudaEventState::published() const {
  return std::all_of(promises_.begin(), promises_.end(),
                     [](const auto& one) { return one->published(); });
}

CudaEvents CudaEventState::Known() const {
  CudaEvents known = events_;
  for (const auto& publication : promises_) {
    const CudaEvents more = publication->events();
    known.insert(known.end(), more.begin(), more.end());
  }
  return known;
}

bool CudaEventState::captured() const {
  const CudaEvents known = Known();
  return std::any_of(known.begin(), known.end(),
                     [](const auto& event) { return event->captured(); });
}

absl::StatusOr<bool> CudaEventState::Reached() const {
  if (!published()) return false;
  bool all = true;
  for (const auto& event : Known()) {
    const absl::StatusOr<bool> reached = event->Reached();
    if (!reached.ok()) return reached;
    all &= *reached;
  }
  return all;
}

bool CudaEventState::Done() const {
  const absl::StatusOr<bool> reached = Reached();
  return !reached.ok() || *reached;
}

absl::Status CudaEventState::Wait(absl::Duration timeout) const {
  const Deadline deadline(timeout);
  for (const auto& publication : promises_) {
    if (!publication->Wait(deadline)) return Late();
  }
  if (captured()) {
    return absl::FailedPreconditionError(
        "the stream is being captured: nothing runs, and nothing can be waited "
        "for");
  }
  PollBackoff backoff;
  for (;;) {
    const absl::StatusOr<bool> reached = Reached();
    if (!reached.ok()) return reached.status();
    if (*reached) return absl::OkStatus();
    if (deadline.Passed()) return Late();
    backoff.Wait();
  }
}

absl::Status CudaEventState::Join(CudaApi& cuda,
                                  CudaStreamHandle stream) const {
  const DeviceScope scope(cuda);
  absl::Status joined;
  for (const auto& event : Known()) {
    joined.Update(Check(cuda, cuda.StreamWaitEvent(stream, event->handle()),
                        "StreamWaitEvent"));
  }
  return joined;
}

}  // namespace lockstep::transport::nccl
