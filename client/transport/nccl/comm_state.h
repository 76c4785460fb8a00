// One rank's part in one NCCL communicator: the communicator, the stream its
// operations run on, and its first error.
//
//   Begin ─▶ Ready? ─▶ Enqueue ─▶ Ready? ─▶ Complete ─▶ ... ─▶ Finalize ─▶ End
//                         │
//                         └ only a queued operation has an event
//
// Threads: status, Fail and Take from any; everything else on the launch thread
//          (launcher.h), which decides the order and does all the waiting.
//          Calls of NCCL do not wait for the device, those of CUDA may, where a
//          stream's queue is full. Then another thread takes the communicator
//          away, to abort it: later calls return the member's error.
// Errors:  a method that returns an error does not set status(): the launcher
//          does so, and aborts.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_COMM_STATE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_COMM_STATE_H_

#include <atomic>
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

// The function tables of one device.
struct Tables {
  std::shared_ptr<NcclApi> nccl;
  std::shared_ptr<CudaApi> cuda;
  std::shared_ptr<KernelApi> kernels;
};

// An operation as the communicator's caller posts it.
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
  // Sets the first error; does nothing if there is one.
  void Fail(const absl::Status& error);
  const std::string& name() const { return group_.name; }
  int size() const { return group_.size; }
  // Takes the communicator away, and waits up to `patience` for a call of NCCL
  // with it. Null: that call has not returned, or it was taken away before.
  NcclComm Take(absl::Duration patience);
  // NCCL has seen the abort, or needs none: it enqueues nothing any more.
  void SetStopped() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  // --- The launch thread ---

  // Creates the stream and its memory, and begins to connect.
  absl::Status Begin(const NcclUniqueId& id);

  // Whether NCCL has completed its last call; its error.
  absl::StatusOr<bool> Ready();

  // The position in the device's launch order: an event at the point where the
  // last operation could begin, and its stream. No event: none was enqueued.
  struct LaunchSlot {
    std::shared_ptr<CudaEvent> event;
    CudaStreamHandle stream = nullptr;
  };

  // Enqueues operations whose first use would connect, and so wait for peers:
  // of each algorithm that sizes up to that of its memory choose, and, in a
  // group of at most kPairsMax ranks, between each pair. As Enqueue: once Ready
  // returns true, call CompleteWarmUp, until it returns true.
  static constexpr int kPairsMax = 16;
  absl::Status WarmUp(LaunchSlot* launch_slot);
  absl::StatusOr<bool> CompleteWarmUp();

  // Enqueues the operation after what it must wait for, and after the point
  // where the previous operation (`*launch_slot`) could begin; then replaces
  // `*launch_slot`. Once Ready returns true, call Complete.
  absl::Status Enqueue(const QueuedOp& posted, LaunchSlot* launch_slot);
  // Enqueues the kernels that follow the queued round. True: it was the last
  // round, and the end event is recorded and published. False: another round
  // was enqueued; wait for Ready and call Complete again. A captured operation
  // is not added to the running ones: the launches of its graph are.
  absl::StatusOr<bool> Complete(const QueuedOp& posted);

  // Makes `stream` wait for all running operations. The caller then adds the
  // work on `stream` to them, with `event` as its end.
  absl::Status JoinRunning(CudaStreamHandle stream) const;
  void AddRunning(std::shared_ptr<CudaEvent> event,
                  std::shared_ptr<FirstError> error) {
    running_.push_back({std::move(event), std::move(error)});
  }

  // Whether no added operation is still running. Operations that failed on the
  // device are not running: their streams' errors and device_error, the first,
  // are set.
  bool Idle();
  const absl::Status& device_error() const { return device_error_; }
  // Sets the error of the streams whose operations have not run.
  void FailRunning();

  // Ends its use, and returns the communicator for the reclaimer, which aborts
  // or destroys it; null if another thread has taken it away.
  NcclComm End();
  bool ended() const { return ended_; }

  // --- Registered memory (window.h) ---
  // Keeps the window alive: NCCL writes to it until Ready.
  // The three need a communicator that is Ready.
  absl::Status BeginRegister(const std::shared_ptr<Window>& window);
  void EndRegister(Window& window);
  // Does nothing to NCCL after the end: the communicator's end deregisters all.
  void Forget(Window& window);
  void ForgetAll();

  absl::Status Finalize();

  // An event after everything on the stream now.
  absl::StatusOr<std::shared_ptr<CudaEvent>> Mark(bool captured = false) {
    return CudaEvent::Record(tables_.cuda.get(), stream_, captured);
  }

 private:
  // A call of NCCL with the communicator, which is not taken away meanwhile;
  // null if it was before.
  class Call {
   public:
    explicit Call(CommState* member);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    NcclComm comm() const { return comm_; }
    explicit operator bool() const { return comm_ != nullptr; }

   private:
    CommState& member_;
    NcclComm comm_;
  };
  struct Running {
    std::shared_ptr<CudaEvent> event;
    std::shared_ptr<FirstError> error;
  };

  absl::Status MakeStream();
  absl::Status TakeLaunchSlot(LaunchSlot* launch_slot, bool captured);
  void AddPairs();
  absl::Status EnqueueGroup();
  // Enqueues the next round; false if there was none.
  absl::StatusOr<bool> EnqueueNextRound();
  absl::Status Issue(const NcclStep& step, NcclComm comm);
  // Why the communicator was taken away.
  absl::Status Taken() const;
  absl::Status LaunchKernels();
  // Memory for the operation's kernels; null if the device has none left.
  void* Temporary(size_t bytes);
  void* Kept(size_t bytes);
  size_t rows_bytes() const;

  const Tables tables_;
  const GroupSpec group_;
  bool ended_ = false;
  std::atomic<bool> stopped_{false};
  CudaStreamHandle stream_ = nullptr;
  std::byte* token_ = nullptr;

  // State of the operation between Enqueue and Complete.
  Lowering lowering_;
  size_t round_ = 0;
  bool captured_ = false;
  size_t rows_taken_ = 0;
  std::vector<void*> graphs_own_;  // freed inside the graph
  size_t taken_ = 0;               // of the blocks below

  // Memory that each operation reuses, since they run one after the other. It
  // is allocated at the beginning; only several calls of one group that need
  // more together allocate more, and keep it.
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
  CondVar called_;
  bool in_call_ ABSL_GUARDED_BY(mutex_) = false;
  NcclComm comm_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool taken_away_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_COMM_STATE_H_
