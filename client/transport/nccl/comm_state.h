// One rank's part in one NCCL communicator: the communicator, the stream its
// operations run on, and its first error.
//
//   Connect ─▶ WarmUp ─▶ Enqueue ─▶ Enqueue ─▶ ... ─▶ Take ─▶ the end
//
// The communicator is a blocking one: a call of NCCL returns once its operation
// is on the stream. Before that it may wait: for peers where it connects, and
// for the device where a queue of CUDA is full. Another thread ends such a
// call: it takes the communicator away and aborts it, which sets NCCL's flags
// at once, and NCCL frees it once nothing uses it (AwaitUnused).
//
// Threads: any; calls of NCCL are made one at a time (NcclCall). The launcher
//          decides the order of operations (launcher.h).
// Errors:  a method that returns an error does not set status(): the launcher
//          does so, and aborts.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_COMM_STATE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_COMM_STATE_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
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
#include "client/transport/nccl/row_memory.h"
#include "client/transport/nccl/window.h"
#include "client/transport/transport.h"

namespace lockstep::transport::nccl {

// Memory in which a communicator gathers floats before a min or max reduction,
// and over which it warms up NCCL: of bulk traffic.
inline constexpr size_t kBulkRowsBytes = 4 << 20;

// The function tables of one device.
struct Tables {
  std::shared_ptr<NcclApi> nccl;
  std::shared_ptr<CudaApi> cuda;
  std::shared_ptr<KernelApi> kernels;
  size_t bulk_rows_bytes = kBulkRowsBytes;  // less over a fake of NCCL
};

class CommState {
 public:
  CommState(const Tables& tables, const GroupSpec& group);
  ~CommState();
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  absl::Status status() const;
  // Sets the first error; does nothing if there is one.
  void Fail(const absl::Status& error);
  const std::string& name() const { return group_.name; }
  int size() const { return group_.size; }

  // A call of NCCL with the communicator: begins once no other thread makes
  // one. Null: it was taken away.
  class NcclCall {
   public:
    explicit NcclCall(CommState* member);
    // The call that makes it; null: it did not.
    NcclCall(CommState* member, NcclComm made);
    ~NcclCall();
    NcclCall(const NcclCall&) = delete;
    NcclCall& operator=(const NcclCall&) = delete;

    NcclComm comm() const { return comm_; }
    explicit operator bool() const { return comm_ != nullptr; }

   private:
    CommState& member_;
    NcclComm comm_;
  };

  // --- The beginning ---

  // Creates the stream and its memory, then connects to all ranks, which may
  // wait until another thread takes the communicator away.
  absl::Status Connect(const NcclUniqueId& id);

  // The position in the device's launch order: an event at the point where the
  // last operation could begin, and its stream. No event: none was enqueued.
  struct LaunchSlot {
    std::shared_ptr<CudaEvent> event;
    CudaStreamHandle stream = nullptr;
  };

  // Enqueues operations whose first use would connect, and so wait for peers:
  // of each algorithm that sizes up to that of its memory choose, and, in a
  // group of at most kPairsMax ranks, between each pair.
  static constexpr int kPairsMax = 16;
  absl::Status WarmUp(LaunchSlot* launch_slot);

  // --- Operations, one at a time, in the launcher's order ---

  // Enqueues the operations after `after` (null: at once), and after the point
  // where the previous operation (`*launch_slot`) could begin; then replaces
  // `*launch_slot`. The event is at their end. Captured operations are not
  // added to the running ones: the launches of their graph are.
  absl::StatusOr<std::shared_ptr<CudaEvent>> Enqueue(
      std::span<const CollectiveOp> calls, const CudaEvent* after,
      bool captured, const std::shared_ptr<FirstError>& error,
      LaunchSlot* launch_slot);
  // Whether its error is one of NCCL, whose communicator cannot go on.
  bool nccl_has_failed() const { return nccl_has_failed_; }

  // Makes `stream` wait for all running operations. The caller then adds the
  // work on `stream` to them, with `event` as its end.
  absl::Status JoinRunning(CudaStreamHandle stream) const;
  void AddRunning(std::shared_ptr<CudaEvent> event,
                  std::shared_ptr<FirstError> error);

  // An event after everything on the stream now.
  absl::StatusOr<std::shared_ptr<CudaEvent>> Mark(bool captured = false) {
    return CudaEvent::Record(tables_.cuda.get(), stream_, captured);
  }

  // --- Watching ---

  bool has_running() const;
  bool in_call() const;

  // Whether no added operation is still running. Operations that failed on the
  // device are not running: their streams' errors and device_error, the first,
  // are set.
  bool Idle();
  absl::Status device_error() const;
  // NCCL's asynchronous error, such as a broken connection.
  absl::Status AsyncError();

  // --- The end ---

  // Takes the communicator away: later calls return status(), and those in
  // progress go on until it is aborted. Null: it was taken before, or there is
  // none.
  NcclComm Take();
  bool ended() const { return ended_; }
  // Sets the error of the streams whose operations have not run.
  void FailRunning();
  // Blocks until nothing uses the communicator: no call, no open capture.
  void AwaitUnused();
  // Nothing is enqueued any more: it is aborted or finalized, and unused.
  void SetStopped() { stopped_ = true; }
  bool stopped() const { return stopped_; }
  // An open capture has operations of the communicator; false if it has ended.
  bool JoinCapture();
  void LeaveCapture();
  bool in_capture() const;

  // --- Registered memory (window.h) ---
  // Blocks until all ranks have called it. Keeps the window alive.
  absl::Status Register(const std::shared_ptr<Window>& window);
  // Does nothing to NCCL after the end: the communicator's end deregisters all.
  void Deregister(Window& window);
  void DeregisterAll();

 private:
  // A use that goes on beside calls.
  class Use;
  struct Running {
    std::shared_ptr<CudaEvent> event;
    std::shared_ptr<FirstError> error;
  };

  absl::Status MakeStream();
  absl::Status TakeLaunchSlot(LaunchSlot* launch_slot, bool captured);
  void AddPairs(Lowering* lowering) const;
  void AddWarmUp(Lowering* lowering) const;
  absl::Status Lower(std::span<const CollectiveOp> calls, Lowering* lowering);
  // Enqueues all rounds, each as a group of NCCL with its kernels behind it.
  absl::Status EnqueueRounds(const Lowering& lowering);
  absl::Status EnqueueGroup(const Round& round, NcclComm comm);
  absl::Status Issue(const NcclStep& step, NcclComm comm);
  absl::Status LaunchKernels(const Round& round);
  // Why the communicator was taken away.
  absl::Status Taken() const;

  const Tables tables_;
  const GroupSpec group_;
  std::atomic<bool> ended_{false};
  std::atomic<bool> stopped_{false};
  CudaStreamHandle stream_ = nullptr;
  std::byte* token_ = nullptr;
  RowMemory rows_;
  bool nccl_has_failed_ = false;  // in the operation that was enqueued last

  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  absl::Status device_error_ ABSL_GUARDED_BY(mutex_);
  std::deque<Running> running_ ABSL_GUARDED_BY(mutex_);
  CondVar unused_;
  bool in_call_ ABSL_GUARDED_BY(mutex_) = false;
  int uses_ ABSL_GUARDED_BY(mutex_) = 0;  // of any kind, calls too
  int captures_ ABSL_GUARDED_BY(mutex_) = 0;
  NcclComm comm_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::shared_ptr<Window>> windows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_COMM_STATE_H_
