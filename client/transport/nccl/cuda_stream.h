// A CUDA stream behind the Stream seam.
//
//   caller's stream   [backward 9]─event─┐                  ┌─wait─[update]
//   communicator's                       └─wait─[all-reduce]┘
//
// An operation does not run on the caller's stream but on its communicator's,
// between two events; the second is known only once it is published (moment.h).
// Until then the caller's stream must not be given work that needs the
// operation: Ready waits for that, and so does whatever launches kernels.
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

// The first error of what was enqueued on a stream. Threads: any.
class FirstError {
 public:
  void Set(const absl::Status& error);
  absl::Status Take();

 private:
  Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

// A CUDA stream as objects know it that may outlive its CudaStream, or meet it
// while it is being captured. Threads: any.
class StreamTail {
 public:
  StreamTail(CudaApi* cuda, CudaStreamHandle handle)
      : cuda_(cuda), handle_(handle) {}

  // By ~CudaStream, which has waited for all that was enqueued.
  void Close();

  // False while the stream is being captured: an event would be part of that.
  // Else `*event` is behind all that the stream holds; null if that has run,
  // or never will.
  bool Mark(std::shared_ptr<CudaEvent>* event);

 private:
  CudaApi* const cuda_;
  const CudaStreamHandle handle_;
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Whether all that a stream held when the fence was made has run.
class StreamFence {
 public:
  explicit StreamFence(std::shared_ptr<StreamTail> tail)
      : tail_(std::move(tail)), marked_(tail_->Mark(&event_)) {}

  bool Passed();

 private:
  std::shared_ptr<StreamTail> tail_;
  std::shared_ptr<CudaEvent> event_;
  bool marked_;
};

class CudaStream final : public DeviceStream {
 public:
  // Makes a stream of its own. `cuda` must outlive it.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(CudaApi* cuda);
  // A stream of somebody else's, which must outlive this object.
  CudaStream(CudaApi* cuda, CudaStreamHandle handle)
      : CudaStream(cuda, handle, false) {}
  // Waits until all that was enqueued has run.
  ~CudaStream() override;

  // For work of the caller's own: blocks until every operation enqueued so far
  // is queued on the device; work launched on the stream then comes after them.
  absl::StatusOr<CudaStreamHandle> Ready();
  absl::Status AwaitQueued() override { return Ready().status(); }

  // The capture that what is enqueued now becomes part of; 0 if none is.
  CudaCaptureId capture() const;

  const std::shared_ptr<StreamTail>& tail() const { return tail_; }

  Event Record() override;
  void WaitFor(const Event& event) override;
  absl::Status Synchronize() override;
  // As Synchronize, of what has gone wrong by now.
  absl::Status TakeError() { return error_->Take(); }

  // What an operation comes with: what it must wait for, what promises its end,
  // and who hears of its error.
  struct Ticket {
    std::shared_ptr<const CudaEventState> after;
    std::shared_ptr<EventPromise> done;
    std::shared_ptr<FirstError> error;
    CudaCaptureId capture = 0;  // that the operation becomes part of

    // The operation will not be queued, or not go on: the stream goes on once
    // what it had to wait for has come, and `also`.
    void GiveUp(const absl::Status& why, CudaEvents also = {}) const;
  };
  // Puts an operation at the end of the stream. `post` gets its ticket, under
  // the stream's lock: operations are posted in the stream's order. `done` may
  // be published before `after` has come: later work waits for both.
  void Enqueue(absl::FunctionRef<void(Ticket)> post);
  // The same for an operation that itself waits for `after`, so that nothing
  // else needs to be waited for behind it: however many are posted and not
  // queued yet, each waits for one.
  void EnqueueBehind(absl::FunctionRef<void(Ticket)> post);

 private:
  CudaStream(CudaApi* cuda, CudaStreamHandle handle, bool owned)
      : cuda_(cuda),
        handle_(handle),
        owned_(owned),
        tail_(std::make_shared<StreamTail>(cuda, handle)) {}

  Ticket MakeTicket() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All that the stream holds now.
  std::shared_ptr<CudaEventState> Now(CudaCaptureId capture)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the CUDA stream wait for what has been published meanwhile.
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
