// A CUDA stream as a lockstep::Stream.
//
//   caller's stream   [backward 9]─event─┐                  ┌─wait─[update]
//   communicator's                       └─wait─[all-reduce]┘
//
// An operation runs not on the caller's stream but on its communicator's,
// between two events. Both are recorded in the call, so that whatever the
// caller launches afterwards runs behind the operation.
//
// CUDA cannot wait for an event of the host without a function on the host,
// which would hold up those of all streams: WaitFor blocks the caller for one.
//
// Threads: any. Synchronize, WaitFor an event of the host and the destructor
//          block; the rest do not, unless CUDA's queue is full.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_STREAM_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_STREAM_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/transport/nccl/cuda_api.h"
#include "client/transport/nccl/event_state.h"
#include "lockstep/device_stream.h"
#include "lockstep/stream.h"

namespace lockstep::transport::nccl {

// The first error of the work enqueued on a stream. Threads: any.
class FirstError {
 public:
  void Set(const absl::Status& error);
  absl::Status Get() const;
  absl::Status Take();

 private:
  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

// A handle to a CUDA stream for objects that may outlive its CudaStream, or use
// it during a capture. Threads: any.
class StreamTail {
 public:
  StreamTail(CudaApi* cuda, CudaStreamHandle handle)
      : cuda_(cuda), handle_(handle) {}

  // Called by ~CudaStream, which has waited for all enqueued work.
  void Close();

  // An event after all work on the stream; null: all of it has run.
  // FailedPrecondition during a capture of the stream: the event would be part
  // of the graph.
  absl::StatusOr<std::shared_ptr<CudaEvent>> Mark();

 private:
  CudaApi* const cuda_;
  const CudaStreamHandle handle_;
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Whether all work that a stream had when the fence was first asked has run.
// Making it calls nothing of CUDA, so that a function on the host may do so.
class StreamFence {
 public:
  explicit StreamFence(std::shared_ptr<StreamTail> tail)
      : tail_(std::move(tail)) {}

  bool Passed();

 private:
  std::shared_ptr<StreamTail> tail_;
  // As StreamTail::Mark returned it; an error until it did.
  absl::StatusOr<std::shared_ptr<CudaEvent>> event_;
};

// A point of a stream that is recorded when it is first needed, and then
// includes what the stream has got until then: many may ask for it, and CUDA
// records one event.
//
// Threads: any.
class StreamMark final : public Event::State {
 public:
  explicit StreamMark(std::shared_ptr<StreamTail> tail)
      : tail_(std::move(tail)) {}

  bool recorded() const;
  // As StreamTail::Mark, but an event that was recorded stays the same.
  absl::StatusOr<std::shared_ptr<CudaEvent>> Recorded() const;

  bool Done() const override;
  absl::Status Wait(absl::Duration timeout) const override;

 private:
  const std::shared_ptr<StreamTail> tail_;
  mutable Mutex mutex_;
  mutable bool recorded_ ABSL_GUARDED_BY(mutex_) = false;
  mutable std::shared_ptr<CudaEvent> event_ ABSL_GUARDED_BY(mutex_);
};

class CudaStream final : public DeviceStream {
 public:
  // Creates and owns a CUDA stream. `cuda` must outlive it.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(CudaApi* cuda);
  // Wraps a stream owned by the caller, which must outlive this object.
  CudaStream(CudaApi* cuda, CudaStreamHandle handle)
      : CudaStream(cuda, handle, false) {}
  // Waits until all enqueued work has run.
  ~CudaStream() override;

  CudaStreamHandle handle() const { return handle_; }

  // The capture that work enqueued now becomes part of; 0: none.
  CudaCaptureId capture() const { return FindCapture().value_or(0); }
  // The same; FailedPrecondition if the capture is invalid.
  absl::StatusOr<CudaCaptureId> FindCapture() const;

  const std::shared_ptr<StreamTail>& tail() const { return tail_; }
  // Where work that the stream runs or waits for reports its error.
  const std::shared_ptr<FirstError>& error() const { return error_; }

  Event Record() override;
  void WaitFor(const Event& event) override;
  absl::Status Synchronize() override;
  // As Synchronize, but returns the error so far without waiting.
  absl::Status TakeError() { return error_->Take(); }

  // As Record, but recorded when the event is first needed, with what the
  // stream has then. Not for a stream that is captured.
  Event Mark();

  // As Record and WaitFor, but an error is only the caller's.
  absl::StatusOr<std::shared_ptr<CudaEvent>> TryRecord();
  absl::Status TryWaitFor(const Event& event);
  absl::Status TryWaitFor(const CudaEvent& event);

 private:
  CudaStream(CudaApi* cuda, CudaStreamHandle handle, bool owned)
      : cuda_(cuda),
        handle_(handle),
        owned_(owned),
        tail_(std::make_shared<StreamTail>(cuda, handle)) {}

  CudaApi* const cuda_;
  const CudaStreamHandle handle_;
  const bool owned_;
  const std::shared_ptr<StreamTail> tail_;
  const std::shared_ptr<FirstError> error_ = std::make_shared<FirstError>();
  Mutex mutex_;
  std::shared_ptr<StreamMark> mark_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_STREAM_H_
