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

bool StreamMark::recorded() const {
  MutexLock lock(&mutex_);
  return recorded_;
}

// Whoever sees that it is not recorded has enqueued its work before it will be.
absl::StatusOr<std::shared_ptr<CudaEvent>> StreamMark::Recorded() const {
  MutexLock lock(&mutex_);
  if (recorded_) return event_;
  recorded_ = true;
  if (tail_->Mark(&event_)) return event_;
  recorded_ = false;
  return absl::FailedPreconditionError(
      "a stream with gradients of a step in progress is captured");
}

bool StreamMark::Done() const {
  const auto event = Recorded();
  return !event.ok() || CudaEventState(*event).Done();
}

absl::Status StreamMark::Wait(absl::Duration timeout) const {
  const auto event = Recorded();
  return event.ok() ? CudaEventState(*event).Wait(timeout) : event.status();
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

absl::StatusOr<CudaCaptureId> CudaStream::FindCapture() const {
  const DeviceScope scope(*cuda_);
  CudaCaptureId id = 0;
  const CudaResult found = cuda_->StreamGetCaptureInfo(handle_, &id);
  if (found == CudaResult::kCaptureInvalidated) {
    return absl::FailedPreconditionError(
        "the capture of the stream is invalid: a call was made during it that "
        "CUDA does not allow then; end it, and capture again");
  }
  (void)Check(*cuda_, found, "StreamGetCaptureInfo");
  return id;
}

std::shared_ptr<CudaEvent> CudaStream::Now() {
  const DeviceScope scope(*cuda_);
  auto event = CudaEvent::Record(cuda_, handle_, capture() != 0);
  if (event.ok()) return *std::move(event);
  error_->Set(event.status());
  return nullptr;
}

void CudaStream::Join(const std::shared_ptr<CudaEvent>& event) {
  if (event == nullptr) return;
  const DeviceScope scope(*cuda_);
  error_->Set(Check(*cuda_, cuda_->StreamWaitEvent(handle_, event->handle()),
                    "StreamWaitEvent"));
}

Event CudaStream::Mark() {
  MutexLock lock(&mutex_);
  if (mark_ == nullptr || mark_->recorded()) {
    mark_ = std::make_shared<StreamMark>(tail_);
  }
  return Event(mark_);
}

Event CudaStream::Record() {
  return Event(std::make_shared<CudaEventState>(Now()));
}

void CudaStream::WaitFor(const Event& event) {
  if (const auto mark = std::dynamic_pointer_cast<StreamMark>(event.state())) {
    const auto recorded = mark->Recorded();
    if (!recorded.ok()) return error_->Set(recorded.status());
    return Join(*recorded);
  }
  const auto mine = std::dynamic_pointer_cast<CudaEventState>(event.state());
  if (mine != nullptr) {
    const absl::StatusOr<bool> reached = mine->Reached();
    if (!reached.ok()) return error_->Set(reached.status());
    return *reached ? void() : Join(mine->event());
  }
  if (event.Done()) return;
  if (capture() != 0) {
    return error_->Set(absl::FailedPreconditionError(
        "a stream that is captured cannot wait for work on the host"));
  }
  error_->Set(event.Wait());
}

absl::Status CudaStream::Synchronize() {
  if (absl::Status waited = Record().Wait(); !waited.ok()) return waited;
  return error_->Take();
}

}  // namespace lockstep::transport::nccl
