#include "client/transport/nccl/cuda_stream.h"

#include <utility>

#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"

namespace lockstep::transport::nccl {

void FirstError::Set(const absl::Status& error) {
  MutexLock lock(&mutex_);
  if (error_.ok()) error_ = error;
}

absl::Status FirstError::Get() const {
  MutexLock lock(&mutex_);
  return error_;
}

absl::Status FirstError::Take() {
  MutexLock lock(&mutex_);
  return std::exchange(error_, absl::OkStatus());
}

void StreamTail::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
}

bool StreamTail::Mark(std::shared_ptr<CudaEvent>* event) {
  MutexLock lock(&mutex_);
  if (closed_) return true;
  const DeviceScope scope(*cuda_);
  const auto is_captured = [this] {
    CudaCaptureId capture = 0;
    (void)Check(*cuda_, cuda_->StreamGetCaptureInfo(handle_, &capture),
                "StreamGetCaptureInfo");
    return capture != 0;
  };
  if (is_captured()) return false;
  auto recorded = CudaEvent::Record(cuda_, handle_);
  // Another thread began one meanwhile: the event may be part of it, and must
  // not be asked.
  if (is_captured()) return false;
  // A device that cannot record an event has failed, and runs nothing.
  if (recorded.ok()) *event = *std::move(recorded);
  return true;
}

bool StreamFence::Passed() {
  if (!marked_) marked_ = tail_->Mark(&event_);
  if (!marked_) return false;
  if (event_ == nullptr) return true;
  const absl::StatusOr<bool> reached = event_->Reached();
  if (reached.ok()) return *reached;
  // A capture has just begun, or the device has failed: mark again.
  event_ = nullptr;
  marked_ = false;
  return false;
}

void CudaStream::Ticket::GiveUp(const absl::Status& why,
                                CudaEvents also) const {
  error->Set(why);
  const CudaEvents& before = after->events();
  also.insert(also.end(), before.begin(), before.end());
  // Some of it may still be queued: an operation that NCCL's thread has.
  done->Publish(std::move(also), after->promises());
}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(CudaApi* cuda) {
  const DeviceScope scope(*cuda);
  CudaStreamHandle handle = nullptr;
  const absl::Status made = Check(
      *cuda, cuda->StreamCreateWithPriority(&handle, kCudaStreamNonBlocking, 0),
      "StreamCreateWithPriority");
  if (!made.ok()) return made;
  return std::unique_ptr<CudaStream>(new CudaStream(cuda, handle, true));
}

CudaStream::~CudaStream() {
  const DeviceScope scope(*cuda_);
  (void)Synchronize();
  tail_->Close();
  if (owned_) cuda_->StreamDestroy(handle_);
}

absl::StatusOr<CudaStreamHandle> CudaStream::Ready() {
  std::vector<std::shared_ptr<EventPromise>> pending;
  {
    MutexLock lock(&mutex_);
    pending = pending_;
  }
  for (const auto& publication : pending) {
    publication->Wait(Deadline(absl::InfiniteDuration()));
  }
  const DeviceScope scope(*cuda_);
  MutexLock lock(&mutex_);
  JoinPublished();
  return handle_;
}

CudaCaptureId CudaStream::capture() const {
  const DeviceScope scope(*cuda_);
  CudaCaptureId id = 0;
  (void)Check(*cuda_, cuda_->StreamGetCaptureInfo(handle_, &id),
              "StreamGetCaptureInfo");
  return id;
}

Event CudaStream::Record() {
  const DeviceScope scope(*cuda_);
  MutexLock lock(&mutex_);
  return Event(Now(capture()));
}

void CudaStream::WaitFor(const Event& event) {
  const DeviceScope scope(*cuda_);
  const auto event_state =
      std::dynamic_pointer_cast<CudaEventState>(event.state());
  const absl::StatusOr<bool> reached =
      event_state == nullptr ? event.Done() : event_state->Reached();
  if (!reached.ok()) return error_->Set(reached.status());
  if (*reached) return;
  if (event_state == nullptr && capture() != 0) {
    return error_->Set(absl::FailedPreconditionError(
        "a stream that is captured cannot wait for work on the host"));
  }
  MutexLock lock(&mutex_);
  JoinPublished();
  if (event_state == nullptr) {
    pending_.push_back(std::make_shared<EventPromise>(event));
    return;
  }
  for (const auto& recorded : event_state->events()) {
    error_->Set(Check(*cuda_,
                      cuda_->StreamWaitEvent(handle_, recorded->handle()),
                      "StreamWaitEvent"));
  }
  const auto& promises = event_state->promises();
  pending_.insert(pending_.end(), promises.begin(), promises.end());
}

absl::Status CudaStream::Synchronize() {
  if (absl::Status waited = Record().Wait(); !waited.ok()) return waited;
  return error_->Take();
}

void CudaStream::Enqueue(absl::FunctionRef<void(Ticket)> post) {
  const DeviceScope scope(*cuda_);
  MutexLock lock(&mutex_);
  Ticket ticket = MakeTicket();
  pending_.push_back(ticket.done);
  post(std::move(ticket));
}

void CudaStream::EnqueueBehind(absl::FunctionRef<void(Ticket)> post) {
  const DeviceScope scope(*cuda_);
  MutexLock lock(&mutex_);
  Ticket ticket = MakeTicket();
  pending_ = {ticket.done};
  post(std::move(ticket));
}

CudaStream::Ticket CudaStream::MakeTicket() {
  const CudaCaptureId capture = this->capture();
  return {.after = Now(capture),
          .done = std::make_shared<EventPromise>(),
          .error = error_,
          .capture = capture};
}

std::shared_ptr<CudaEventState> CudaStream::Now(CudaCaptureId capture) {
  JoinPublished();
  CudaEvents events;
  auto event = CudaEvent::Record(cuda_, handle_, capture != 0);
  if (event.ok()) {
    events.push_back(*std::move(event));
  } else {
    error_->Set(event.status());
  }
  return std::make_shared<CudaEventState>(std::move(events), pending_);
}

void CudaStream::JoinPublished() {
  std::vector<std::shared_ptr<EventPromise>> left;
  for (auto& publication : pending_) {
    if (!publication->published()) {
      left.push_back(std::move(publication));
      continue;
    }
    for (const auto& event : publication->events()) {
      // Work of a capture that an abort ended early runs with no graph.
      if (event->captured() && capture() == 0) continue;
      error_->Set(Check(*cuda_,
                        cuda_->StreamWaitEvent(handle_, event->handle()),
                        "StreamWaitEvent"));
    }
  }
  pending_ = std::move(left);
}

}  // namespace lockstep::transport::nccl
