#include "client/transport/nccl/cuda_stream.h"

#include <utility>

#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"

namespace lockstep::transport::nccl {
namespace {

absl::Status IsCaptured() {
  return absl::FailedPreconditionError(
      "a stream with gradients of a step in progress is captured");
}

}  // namespace

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

absl::StatusOr<std::shared_ptr<CudaEvent>> StreamTail::Mark() {
  MutexLock lock(&mutex_);
  if (closed_) return nullptr;
  const DeviceScope scope(*cuda_);
  const auto is_captured = [this] {
    CudaCaptureId capture = 0;
    (void)Check(*cuda_, cuda_->StreamGetCaptureInfo(handle_, &capture),
                "StreamGetCaptureInfo");
    return capture != 0;
  };
  if (is_captured()) return IsCaptured();
  auto recorded = CudaEvent::Record(cuda_, handle_);
  // Another thread began one meanwhile: the event may be part of it, and must
  // not be asked.
  if (is_captured()) return IsCaptured();
  return recorded;
}

// While it cannot be known, work may run.
bool StreamFence::Passed() {
  if (!event_.ok()) event_ = tail_->Mark();
  if (!event_.ok()) return false;
  if (*event_ == nullptr) return true;
  const absl::StatusOr<bool> reached = (*event_)->Reached();
  if (reached.ok()) return *reached;
  // A capture has just begun, or the device has failed: mark again.
  event_ = reached.status();
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
  auto event = tail_->Mark();
  recorded_ = event.ok();
  if (event.ok()) event_ = *event;
  return event;
}

bool StreamMark::Done() const { return CudaEventState(Recorded()).Done(); }

absl::Status StreamMark::Wait(absl::Duration timeout) const {
  return CudaEventState(Recorded()).Wait(timeout);
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

absl::StatusOr<std::shared_ptr<CudaEvent>> CudaStream::TryRecord() {
  return CudaEvent::Record(cuda_, handle_, capture() != 0);
}

absl::Status CudaStream::TryWaitFor(const CudaEvent& event) {
  const DeviceScope scope(*cuda_);
  return Check(*cuda_, cuda_->StreamWaitEvent(handle_, event.handle()),
               "StreamWaitEvent");
}

absl::Status CudaStream::TryWaitFor(const Event& event) {
  if (const auto mark = std::dynamic_pointer_cast<StreamMark>(event.state())) {
    const auto recorded = mark->Recorded();
    if (!recorded.ok()) return recorded.status();
    return *recorded == nullptr ? absl::OkStatus() : TryWaitFor(**recorded);
  }
  const auto mine = std::dynamic_pointer_cast<CudaEventState>(event.state());
  if (mine != nullptr) return mine->Join(*cuda_, handle_);
  if (event.Done()) return absl::OkStatus();
  if (capture() == 0) return event.Wait();
  return absl::FailedPreconditionError(
      "a stream that is captured cannot wait for work on the host");
}

Event CudaStream::Mark() {
  MutexLock lock(&mutex_);
  if (mark_ == nullptr || mark_->recorded()) {
    mark_ = std::make_shared<StreamMark>(tail_);
  }
  return Event(mark_);
}

Event CudaStream::Record() {
  auto event = TryRecord();
  error_->Set(event.status());
  return Event(std::make_shared<CudaEventState>(std::move(event)));
}

void CudaStream::WaitFor(const Event& event) { error_->Set(TryWaitFor(event)); }

// Without memory for an event the device runs what the stream has all the same.
absl::Status CudaStream::Synchronize() {
  const absl::Status waited = Record().Wait();
  if (absl::IsResourceExhausted(waited)) {
    const DeviceScope scope(*cuda_);
    (void)Check(*cuda_, cuda_->StreamSynchronize(handle_), "StreamSynchronize");
  }
  error_->Set(waited);
  return error_->Take();
}

}  // namespace lockstep::transport::nccl
