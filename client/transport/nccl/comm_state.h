// One rank's part in one NCCL communicator: the communicator, the stream its
// operations run on, and its first error.
//
//   Begin ─▶ Connected? ─▶ Enqueue ─▶ Queued? ─▶ Complete ─▶ ... ─▶ Finalize,
//                             │                                     or Abort
//                             └ only a queued operation has an event
//
// Threads: status and Fail from any; everything else on the launch thread
//          (launcher.h), which decides the order and does all the waiting. No
//          method blocks, but Abort may, inside NCCL.
// Errors:  a method's error is not this member's yet: the launcher makes it so,
//          with an abort.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_COMM_STATE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_COMM_STATE_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/event_state.h"
#include "client/transport/nccl/kernel_api.h"
#include "client/transport/nccl/lowering.h"
#include "client/transport/nccl/nccl_api.h"
#include "client/transport/nccl/window.h"
#include "client/transport/transport.h"

namespace lockstep::transport::nccl {

// The functions of one device.
struct Tables {
  std::shared_ptr<NcclApi> nccl;
  std::shared_ptr<CudaApi> cuda;
  std::shared_ptr<KernelApi> kernels;
};

// An operation as its communicator's caller posts it.
struct QueuedOp {
  std::vector<CollectiveOp> calls;
  CudaStream::Ticket ticket;
};

class CommState {
 public:
  CommState(const Tables& tables, const GroupSpec& group);
  ~CommState();
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  // --- Any thread ---
  absl::Status status() const;
  // Makes `error` the first, unless there is one.
  void Fail(const absl::Status& error);
  const std::string& name() const { return group_.name; }
  int size() const { return group_.size; }

  // --- The launch thread ---

  // Makes stream and token, and begins to connect.
  absl::Status Begin(const NcclUniqueId& id);

  // Whether NCCL is done with what it was last asked for; its error.
  absl::StatusOr<bool> Ready();

  // Whose turn it was last: when the device's last operation could begin, and
  // on which stream. No event: none was enqueued yet.
  struct LaunchSlot {
    std::shared_ptr<CudaEvent> event;
    CudaStreamHandle stream = nullptr;
  };

  // Enqueues the operation behind what it must wait for, and not to begin
  // before the operation before it could, which `*turn` says. `*turn` is then
  // this one's. It is queued once Ready says so, and then wants Complete.
  absl::Status Enqueue(const QueuedOp& posted, LaunchSlot* launch_slot);
  // Kernels that follow what is queued. True: that was all; its event is
  // recorded and published. False: more has been enqueued, and is to be queued
  // and completed in turn. A captured operation is not published as running:
  // its graph's launches are.
  absl::StatusOr<bool> Complete(const QueuedOp& posted);

  // Lets `stream` wait for everything published; what runs there is then
  // published too, with `event` as its end.
  absl::Status JoinRunning(CudaStreamHandle stream) const;
  void AddRunning(std::shared_ptr<CudaEvent> event,
                  std::shared_ptr<FirstError> error) {
    running_.push_back({std::move(event), std::move(error)});
  }

  // Whether nothing that was published still runs. What the device failed at
  // does not: its streams have the error, and so has device_error, the first.
  bool Idle();
  const absl::Status& device_error() const { return device_error_; }
  // Tells the streams of operations that have not run what became of them.
  void FailRunning();

  // Between these two of several members lies one ncclGroup (launcher.h).
  absl::Status Abort();
  // True from Abort on: NCCL must not be called with it any more.
  bool ended() const { return comm_ == nullptr; }

  // --- Memory that it knows of (window.h) ---
  // It is this member's from here on: NCCL writes into it until Ready.
  absl::Status BeginRegister(const std::shared_ptr<Window>& window) {
    windows_.push_back(window);
    return window->Begin(*tables_.nccl, comm_);
  }
  void EndRegister(Window& window) { window.End(*tables_.nccl, comm_); }
  // Nothing, once it has ended: NCCL forgot with it.
  void Forget(Window& window);
  void ForgetAll();

  absl::Status Finalize();
  absl::Status Destroy();

  // Behind everything that is on the stream now.
  absl::StatusOr<std::shared_ptr<CudaEvent>> Mark(bool captured = false) {
    return CudaEvent::Record(tables_.cuda.get(), stream_, captured);
  }

 private:
  struct Running {
    std::shared_ptr<CudaEvent> event;
    std::shared_ptr<FirstError> error;
  };

  absl::Status MakeStream();
  absl::Status TakeLaunchSlot(LaunchSlot* launch_slot, bool captured);
  absl::Status EnqueueGroup();
  absl::Status Issue(const NcclStep& step);
  absl::Status LaunchKernels();
  // Memory for the operation's kernels; null if there is none.
  void* Temporary(size_t bytes);
  void* Kept(size_t bytes);
  size_t rows_bytes() const;

  const Tables tables_;
  const GroupSpec group_;
  NcclComm comm_ = nullptr;
  CudaStreamHandle stream_ = nullptr;
  std::byte* token_ = nullptr;

  // Of the operation between Enqueue and Complete.
  Lowering lowering_;
  size_t round_ = 0;
  bool captured_ = false;
  size_t rows_taken_ = 0;
  std::vector<void*> graphs_own_;  // freed inside the graph
  size_t taken_ = 0;               // of the blocks below

  // Memory that an operation takes and the next one takes again: they run one
  // behind the other. It is there from the beginning; only calls of one group
  // that need more together take more, and keep it.
  std::byte* rows_ = nullptr;
  struct Block {
    void* memory;
    size_t bytes;
  };
  std::vector<Block> kept_;

  std::deque<Running> running_;
  absl::Status device_error_;
  std::vector<std::shared_ptr<Window>> windows_;

  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_COMM_STATE_H_
