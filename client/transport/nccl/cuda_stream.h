// A CUDA stream as a lockstep::Stream.
//
//   caller's stream   [backward 9]─event─┐                  ┌─wait─[update]
//   communicator's                       └─wait─[all-reduce]┘
//
// An operation runs not on the caller's stream but on its communicator's,
// between two events; the second is known only once it is published
// (event_state.h). Until then the caller's stream must not get work that
// depends on the operation: Ready waits for that, and so does all code that
// launches kernels. The same holds for an event of the host: the CUDA stream
// does not wait for it, since a function on the host that waits would hold up
// those of all streams; work is queued once the event is complete. Nothing runs
// the work of a HostStream with kOnWait for that.
//
// Threads: any. Ready, Synchronize and the destructor block; the rest do not.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_STREAM_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_STREAM_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
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

  // False during a capture of the stream: the event would be part of the graph.
  // Otherwise sets `*event` to an event after all work on the stream; null if
  // that work has run or never will.
  bool Mark(std::shared_ptr<CudaEvent>* event);

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
  std::shared_ptr<CudaEvent> event_;
  bool marked_ = false;
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

  // Call before launching the caller's own work: blocks until every operation
  // enqueued so far is queued on the device; later work then runs after them.
  absl::StatusOr<CudaStreamHandle> Ready();
  absl::Status AwaitQueued() override {
    absl::Status ready = Ready().status();
    return ready.ok() ? error_->Get() : ready;
  }

  // The capture that work enqueued now becomes part of; 0: none.
  CudaCaptureId capture() const;

  const std::shared_ptr<StreamTail>& tail() const { return tail_; }
  // Where work on the host that the stream runs reports its error.
  const std::shared_ptr<FirstError>& error() const { return error_; }

  Event Record() override;
  void WaitFor(const Event& event) override;
  absl::Status Synchronize() override;
  // As Synchronize, but returns the error so far without waiting.
  absl::Status TakeError() { return error_->Take(); }

  // An operation's links to its stream: what it must wait for, the promise of
  // its end event, and where to report its error.
  struct Ticket {
    std::shared_ptr<const CudaEventState> after;
    std::shared_ptr<EventPromise> done;
    std::shared_ptr<FirstError> error;
    CudaCaptureId capture = 0;  // the operation is part of this capture

    // The operation will not be queued, or not continue: the stream resumes
    // after the work that the operation had to wait for, and after `also`.
    void GiveUp(const absl::Status& why, CudaEvents also = {}) const;
  };
  // Appends an operation to the stream. Calls `post` with its ticket under the
  // stream's lock, so operations are posted in the stream's order. `done` may
  // be published before `after` is complete: later work waits for both.
  void Enqueue(absl::FunctionRef<void(Ticket)> post);
  // The same for an operation that itself waits for `after`, so that later work
  // waits only for the operation: each posted operation waits for one event,
  // however many are not queued yet.
  void EnqueueBehind(absl::FunctionRef<void(Ticket)> post);

 private:
  CudaStream(CudaApi* cuda, CudaStreamHandle handle, bool owned)
      : cuda_(cuda),
        handle_(handle),
        owned_(owned),
        tail_(std::make_shared<StreamTail>(cuda, handle)) {}

  Ticket MakeTicket() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All work that the stream has now.
  std::shared_ptr<CudaEventState> Now(CudaCaptureId capture)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the CUDA stream wait for the promises published meanwhile.
  void JoinPublished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CudaApi* const cuda_;
  const CudaStreamHandle handle_;
  const bool owned_;
  const std::shared_ptr<StreamTail> tail_;
  const std::shared_ptr<FirstError> error_ = std::make_shared<FirstError>();

  Mutex mutex_;
  // Operations that the CUDA stream does not wait for yet, in order.
  std::vector<std::shared_ptr<EventPromise>> pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_STREAM_H_
