// The launch order of a device, and the end of its communicators.
//
//   caller      Launch ─▶ [ order ] ─▶ NCCL ─▶ the caller's stream waits
//                           │                  for the operation, which waits
//                           └ one at a time    for it and for its turn
//
//   any thread  Abort ──▶ errors, stop words
//                           └▶ ls-reclaim: sets NCCL's flags at once, then
//                                          frees what nobody uses
//
//   ls-watch    asks NCCL and the device for errors while operations run
//
// NCCL requires all ranks to launch on all communicators in compatible order.
// So operations are enqueued one after the other, in the order of the calls,
// each in its caller's thread: when the call returns, the operation is on the
// device, and the caller may launch what depends on it. Each communicator has
// its own stream. An operation may begin there once the previous operation may,
// so that a device with room for only one operation also begins them in this
// order.
//
// A call that enqueues may block, where a queue of CUDA is full or NCCL has to
// connect, and so wait for a lost peer. So an abort takes no lock that such a
// call holds: it sets NCCL's flags while the call is in progress, which lets
// the device go on and the call return. NCCL frees the communicators after
// that.
//
// An abort ends every communicator of the device, in the order of creation (the
// verdict's is the first), all in one NCCL group: a kernel that waits for a
// lost rank occupies the device, so the others could not end either. An error
// that NCCL reports does the same. A stream that waits for an operation goes on
// when its kernels have ended, since they may write until then. A completed
// event does not mean success: the streams' errors are set first.
//
// Operations that are captured into a graph (graph.h) do not run; launches of
// the graph are operations like the others. Before communicators are freed, the
// graphs that contain their operations are destroyed. During a capture, another
// thread's operation of a communicator that takes part waits for its end.
//
// Threads: any; the threads are "ls-watch" and, for an end, "ls-reclaim".
// End:     members must be closed before the launcher is destroyed.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_LAUNCHER_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_LAUNCHER_H_

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "client/transport/nccl/capture_state.h"
#include "client/transport/nccl/comm_state.h"
#include "client/transport/nccl/reclaimer.h"
#include "client/transport/nccl/stop_words.h"

namespace lockstep::transport::nccl {

class Launcher {
 public:
  explicit Launcher(const Tables& tables);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  const Tables& tables() const { return tables_; }

  // Blocks until all ranks have connected, and their first operations, which
  // connect more, have run. DeadlineExceeded; the error of `aborted`, which any
  // thread may cause; errors of NCCL. An error has ended the member.
  absl::Status Connect(const std::shared_ptr<CommState>& member,
                       const NcclUniqueId& id, const Deadline& deadline,
                       absl::AnyInvocable<absl::Status()> aborted);

  // Enqueues the operations behind the work of `stream`, which then waits for
  // them. Errors are the stream's.
  void Launch(const std::shared_ptr<CommState>& member,
              std::span<const CollectiveOp> calls, CudaStream& stream);

  // Ends all members; does not block. The caller must have called member->Fail.
  void Abort(const CommState& member);

  // Ends one member and waits until none of its work runs: by ncclCommFinalize
  // if all its operations have run, else by an abort of only that member. NCCL
  // may still be freeing it afterwards.
  void Close(const std::shared_ptr<CommState>& member);

  // --- Registered memory ---

  // All ranks of the group call it together; blocks until they have. An error
  // has ended the member.
  absl::StatusOr<std::shared_ptr<Window>> Register(
      const std::shared_ptr<CommState>& member, void* memory, size_t bytes,
      absl::Duration timeout);
  // Call before the memory is freed; the member may have ended. Blocks while
  // another call of the member is in progress.
  void Deregister(CommState& member, Window& window);

  // --- Graphs (launcher_graphs.cc) ---

  // FailedPrecondition while another capture is open.
  absl::Status OpenCapture(const std::shared_ptr<CaptureState>& capturing);
  // The capture that operations may be part of; 0: none.
  CudaCaptureId open_capture() const { return open_capture_; }
  void SetOpenCapture(CudaCaptureId id) { open_capture_ = id; }
  // The same for a capture of the program, which `stream` is part of, and
  // CloseCapture ends its part.
  absl::StatusOr<std::shared_ptr<const GraphLifetime>> JoinCapture(
      CudaStream& stream);
  // Ends the open capture with its status. OK: keeps the graph; else destroys
  // it and returns why.
  absl::Status CloseCapture();
  // As LaunchableGraph::Launch.
  absl::StatusOr<Event> LaunchGraph(const std::shared_ptr<CaptureState>& graph,
                                    CudaStream& stream);
  void DestroyGraph(const std::shared_ptr<CaptureState>& graph);

  // Set before any communicator is aborted.
  StopWords& stop_words() { return stop_words_; }

  // Whether a communicator of this process was ever aborted.
  bool has_aborted() const { return has_aborted_; }

 private:
  using Members = std::vector<std::shared_ptr<CommState>>;
  class Await;

  Members members();
  // Ends those that have not ended. Their errors are set.
  void End(const Members& members);
  void Fail(CommState& member, const absl::Status& error);
  void Forget(const CommState& member);
  // Blocks until none of the member's work runs; gives up after a while.
  void AwaitQuiet(CommState& member);

  absl::Status WarmUp(CommState& member, const Await& await);

  void Run();
  bool HasWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Watch();
  void WatchAwaited();
  // Wakes the watching thread, if it sleeps because nothing runs.
  void NoteRunning();

  absl::StatusOr<std::shared_ptr<CudaEvent>> Enqueue(
      const std::shared_ptr<CommState>& member,
      std::span<const CollectiveOp> calls, const CudaEvent* after,
      CudaCaptureId capture, CudaStream& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(order_);
  // Makes the operation of a capture part of it, and lets others wait for its
  // end.
  absl::Status AddToCapture(const std::shared_ptr<CommState>& member,
                            CudaCaptureId capture)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(order_);
  absl::StatusOr<Event> EnqueueGraph(const CaptureState& graph,
                                     CudaGraphExecHandle exec,
                                     CudaStream& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(order_);
  // An error: nothing was enqueued.
  absl::Status EnqueueLaunch(const CaptureState& graph,
                             CudaGraphExecHandle exec, CudaStream& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(order_);
  // The event behind it. `failed`: a record was refused, even if the next was
  // not.
  absl::StatusOr<std::shared_ptr<CudaEvent>> RecordLaunch(
      const CaptureState& graph, CudaStream& stream, absl::Status* failed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(order_);

  const Tables tables_;
  StopWords stop_words_;
  std::atomic<bool> has_aborted_{false};
  // Used by threads of the reclaimer that may outlive this object.
  const std::shared_ptr<GraphList> graphs_ = std::make_shared<GraphList>();

  // Held while an operation is enqueued; an abort does not take it.
  Mutex order_;
  CondVar capture_closed_;
  CommState::LaunchSlot launch_slot_ ABSL_GUARDED_BY(order_);
  std::shared_ptr<CaptureState> open_ ABSL_GUARDED_BY(order_);
  std::thread::id capturer_ ABSL_GUARDED_BY(order_);  // of open_
  std::atomic<CudaCaptureId> open_capture_{0};

  Mutex mutex_;
  CondVar changed_;
  Members members_ ABSL_GUARDED_BY(mutex_);  // in order of creation
  std::vector<Await*> awaits_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> asleep_{false};

  Reclaimer reclaimer_;
  std::thread thread_;  // last: uses all of the above
};

// The launcher of a transport made by MakeTransport (nccl.h); null for others.
std::shared_ptr<Launcher> LauncherOf(const Transport& transport);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_LAUNCHER_H_
