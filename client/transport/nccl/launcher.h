// The thread of a device that makes all calls of NCCL, except for ends; all
// other threads post to it.
//
//   Communicator calls ──PostOperation──▶ [op][op][op]   one order over all
//   Abort, any thread  ──PostAbort──────▶ [!]            lanes of the device
//                                          │
//      loop:  aborts first ─▶ tasks ─▶ poll the first operation ─▶
//             check running operations for errors ─▶ sleep
//
// NCCL requires all ranks to launch on all communicators in compatible order,
// from one thread. So operations are launched in the order of posting, one
// after the other. Each is polled until it is queued; only then is its event
// recorded and published. Each communicator has its own stream. An operation
// may begin there once the previous operation may, so that a device with room
// for only one operation also begins them in this order.
//
// An abort ends every communicator of the device, in the order of creation (the
// verdict's is the first), all in one NCCL group: a kernel that waits for a
// lost rank occupies the device, so the others could not end either. An error
// that NCCL reports does the same. Waiters are released by an event after the
// work still on the stream, since kernels may write until then. A completed
// event does not mean success: the streams' errors are set first. Aborting and
// destroying wait for the device, so other threads do it (reclaimer.h).
//
// This thread may itself wait for the device, where a stream's queue is full,
// and so for a lost peer. An abort that it has not begun after kStuck is made
// without it; it finds the communicators ended when it goes on.
//
// Operations that are captured into a graph (graph.h) overtake the others,
// because they do not run; launches of the graph are operations like the
// others. Before communicators end, the graphs that contain their operations
// are destroyed. While a capture is open, an abort waits for its end.
//
// Threads: any; the threads are "ls-launch" and, for an end, "ls-reclaim".
// End:     members must be closed before the launcher is destroyed.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_LAUNCHER_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_LAUNCHER_H_

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "client/transport/nccl/capture_state.h"
#include "client/transport/nccl/comm_state.h"
#include "client/transport/nccl/reclaimer.h"
#include "client/transport/nccl/stop_words.h"

namespace lockstep::transport::nccl {

// The result of work that the launch thread does for a waiting thread.
class LaunchResult {
 public:
  void Set(absl::Status status);
  // Moves the status out: call once.
  absl::Status Wait();

 private:
  Mutex mutex_;
  CondVar changed_;
  bool set_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// A connection in progress: where to report its outcome, and how to cancel it.
struct Connecting {
  std::shared_ptr<CommState> member;
  NcclUniqueId id;
  Deadline deadline;
  // Not OK: give up with this status. Any thread may cause it.
  absl::AnyInvocable<absl::Status()> aborted;
  std::shared_ptr<LaunchResult> outcome;
  enum class WarmUpPhase {
    kConnects,
    kWarmsUp,
    kWarm
  } phase = WarmUpPhase::kConnects;
};

class Launcher {
 public:
  explicit Launcher(const Tables& tables);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  const Tables& tables() const { return tables_; }

  // Calls `task` on the launch thread and waits for it.
  absl::Status Do(absl::AnyInvocable<absl::Status(NcclApi&)> task);

  // Begins to connect; sets the outcome once all ranks have connected and their
  // first operations, which connect more, have run, or on an error.
  void Connect(Connecting connecting);

  void PostOperation(std::shared_ptr<CommState> member, QueuedOp posted);

  // Ends all members. The caller must have called member->Fail.
  void PostAbort(std::shared_ptr<CommState> member);

  // Ends one member and waits until none of its work runs: by ncclCommFinalize
  // if all its operations have run, else by an abort of only that member. NCCL
  // may still be freeing it afterwards.
  void Close(std::shared_ptr<CommState> member);

  // --- Registered memory (launcher_windows.cc) ---

  // All ranks of the group call it together; blocks until they have. An error
  // has ended the member.
  absl::StatusOr<std::shared_ptr<Window>> Register(
      std::shared_ptr<CommState> member, void* memory, size_t bytes,
      absl::Duration timeout);
  // Call before the memory is freed; the member may have ended. Blocks while
  // another call of the member is in progress.
  void Deregister(std::shared_ptr<CommState> member,
                  std::shared_ptr<Window> window);

  // --- Graphs (launcher_graphs.cc) ---

  // FailedPrecondition while another capture is open.
  absl::Status OpenCapture(std::shared_ptr<CaptureState> capturing);
  // The capture that operations may be part of; 0: none.
  CudaCaptureId open_capture() const { return open_capture_; }
  void SetOpenCapture(CudaCaptureId id) { open_capture_ = id; }
  // Blocks until all posted operations of the open capture are captured.
  void AwaitCaptured();
  // Ends the open capture with its status. OK: keeps the graph; else destroys
  // it and returns why.
  absl::Status CloseCapture();
  void PostGraph(std::shared_ptr<CaptureState> graph,
                 CudaStream::Ticket ticket);
  void DestroyGraph(std::shared_ptr<CaptureState> graph);

  // Set before any communicator is aborted.
  StopWords& stop_words() { return stop_words_; }

  // Whether a communicator of this process was ever aborted.
  bool has_aborted() const { return has_aborted_; }

 private:
  // An operation of a member, or the launch of a graph.
  struct Operation {
    std::shared_ptr<CommState> member;
    QueuedOp posted;
    std::shared_ptr<CaptureState> graph = {};
    bool enqueued = false;

    bool Holds(const CommState& one) const {
      return graph != nullptr ? graph->Has(one) : member.get() == &one;
    }
  };
  struct Closing {
    std::shared_ptr<CommState> member;
    std::shared_ptr<LaunchResult> outcome;
    Deadline deadline;
    bool begun = false;
    bool finalized = false;
  };
  struct Registering {
    std::shared_ptr<CommState> member;
    std::shared_ptr<Window> window;
    std::shared_ptr<LaunchResult> outcome;
    Deadline deadline;
    bool begun = false;
  };
  struct Deregistering {
    std::shared_ptr<CommState> member;
    std::shared_ptr<Window> window;
    std::shared_ptr<LaunchResult> outcome;
  };
  struct Inbox {
    std::vector<std::shared_ptr<CommState>> aborts;
    std::vector<absl::AnyInvocable<void()>> tasks;
    std::vector<Operation> operations;

    bool empty() const {
      return aborts.empty() && tasks.empty() && operations.empty();
    }
  };

  void Post(absl::FunctionRef<void(Inbox&)> put);
  void Run();
  // Waits for work; false once stopped.
  bool Collect(Inbox* inbox);

  void Abort(const std::vector<std::shared_ptr<CommState>>& members);
  void EndNow(const std::vector<std::shared_ptr<CommState>>& living);
  void Destroy(const std::shared_ptr<CommState>& member);
  // Ends the member's use; true with `*ending` unless it was taken away before.
  bool End(const std::shared_ptr<CommState>& member,
           Reclaimer::ReclaimedComm* ending);
  // On ls-reclaim: waits until the launch thread has begun this abort, and
  // makes it otherwise.
  void WatchAbort(const std::shared_ptr<CommState>& culprit);
  void AbortWithoutLaunchThread(
      const CommState& culprit,
      const std::vector<std::shared_ptr<CommState>>& living);
  bool IsLiving(const CommState& member) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether it has ended, or will be aborted when the capture is closed.
  bool GivenUp(const CommState& member) const;
  bool IsGivenUp(const Operation& operation) const;
  bool MayStillBeQueued(const Operation& operation) const;
  void AbortAllFor(const CommState& culprit);
  void Fail(CommState& member, const absl::Status& error);
  void ReleaseWaiters();
  void Release(Operation& operation);

  void PollRegistering();
  bool Registered(Registering& registering);
  absl::Status BeginRegistering(Registering* registering);
  bool Deregistered(Deregistering& deregistering);
  // Whether no call of the member is in progress, and none half made.
  absl::StatusOr<bool> IsBetweenCalls(CommState& member);
  void PollConnecting();
  bool Connected(Connecting& connecting);
  absl::StatusOr<bool> IsWarm(Connecting& connecting);
  void Launch();
  bool LaunchFirst(Operation& operation, CommState::LaunchSlot* launch_slot);

  void LaunchCaptured();
  absl::Status StatusOf(const CaptureState& graph) const;
  bool LaunchGraph(Operation& operation);
  absl::Status EnqueueGraph(Operation& operation);
  bool MustWaitForCapture(const Operation& operation) const;
  void EndGraphsOf(const CommState& member, const absl::Status& why);
  void Watch();
  void PollClosing();
  bool Closed(Closing& closing);
  void BeginClosing(Closing& closing);

  bool AnythingToPoll() const;
  // Whether an operation is being queued, which is polled often.
  bool IsLaunching() const;

  const Tables tables_;
  StopWords stop_words_;
  std::atomic<bool> has_aborted_{false};

  Mutex mutex_;
  CondVar changed_;
  Inbox posted_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Those of members_ that have not ended.
  std::vector<std::shared_ptr<CommState>> living_ ABSL_GUARDED_BY(mutex_);
  bool watching_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<CudaCaptureId> open_capture_{0};

  // Used by the launch thread only.
  std::vector<std::shared_ptr<CommState>> members_;  // in order of creation
  std::vector<Connecting> connecting_;
  const CommState* warming_ = nullptr;  // its round is being enqueued
  std::vector<Registering> registering_;
  std::vector<Deregistering> deregistering_;
  std::deque<Operation> operations_;
  std::shared_ptr<CaptureState> open_;     // the open capture, or null
  std::deque<Operation> captured_;         // its operations still to capture
  std::shared_ptr<LaunchResult> drained_;  // set once captured_ is empty
  std::vector<std::shared_ptr<CommState>> to_abort_;  // when it is closed
  std::vector<std::shared_ptr<CaptureState>> graphs_;
  std::vector<Closing> closing_;
  CommState::LaunchSlot launch_slot_;
  int idle_turns_ = 0;

  Reclaimer reclaimer_;  // its threads use the above
  std::thread thread_;   // last: uses all of the above
};

// The launcher of a transport made by MakeTransport (nccl.h); null for others.
std::shared_ptr<Launcher> LauncherOf(const Transport& transport);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_LAUNCHER_H_
