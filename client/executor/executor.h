// Runs a rank's plan: launches every transfer of every lane, in the plan's
// order, as soon as everything that it waits for is ready.
//
//   Submit ─────────────┐
//   pipeline task done ─┼─▶ MarkReady(transfer) ─┬─▶ comm queue    gradients,
//   decision ───────────┘                        │                 verdict
//                                                └─▶ a stream each pipeline,
//                                                                  halo, state
//
// Lanes are independent of each other, except for Unit::after (program.h).
// Queued lanes share the comm queue, which runs the operations of a step one
// after the other, with their local operations. The verdict is the last; its
// launch begins the next step of these lanes. Each other lane has a stream. Its
// step begins with EndStep, when Finish was called, or, for a pipeline, with
// BeginRun. A lane whose owner does not run it in a step is skipped: nothing
// waits for it in that step.
//
// The comm queue runs on its own thread, on the thread that launches the
// verdict, or on each that makes something ready (QueueRuns). In the last case
// a call returns once all that it launched is on the device.
//
// Threads: any. Queued operations are put on the comm queue under the lock, and
//          run without it. Transfers on streams are launched without it, one at
//          a time, by a thread that calls MarkReady or Advance. Owners are
//          called as lane_owner.h says.
// Errors:  a failed transfer is reported to its lane's owner. Abort unblocks
//          every transfer.

#ifndef LOCKSTEP_CLIENT_EXECUTOR_EXECUTOR_H_
#define LOCKSTEP_CLIENT_EXECUTOR_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/executor/lane_traffic.h"
#include "client/executor/pipeline_run.h"
#include "client/executor/program.h"
#include "client/transport/device_context.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"
#include "plan/ir.h"

namespace lockstep::executor {

// Where the comm queue runs what is launched.
enum class QueueRuns {
  kOnThread,  // its own
  kOnClose,   // on the thread that launches the verdict, then all at once
  kInCall,    // on the thread that calls MarkReady or Run, before it returns
};

class Executor {
 public:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  // `communicators`: by index in the plan; null where this rank is not a
  // member. Errors of the DeviceContext.
  static absl::StatusOr<std::shared_ptr<Executor>> Create(
      std::vector<std::unique_ptr<Communicator>> communicators,
      std::shared_ptr<transport::DeviceContext> compute);
  // Runs everything that was launched: abort first if peers may be lost.
  ~Executor();

  // Null where this rank is not a member.
  Communicator* communicator(int c) const { return communicators_[c].get(); }
  int communicators() const { return static_cast<int>(communicators_.size()); }
  // Why communicators have failed, and the index of one that says so. Those
  // that were aborted because of another one come last.
  absl::Status FirstError(int* communicator) const;
  transport::DeviceContext& compute() const { return *compute_; }

  // Sets the program. Call again for a later revision of the plan, between the
  // verdict of a step and the first MarkReady of the next. Lanes with streams
  // are the same in all revisions and keep their state. Errors of the
  // DeviceContext.
  absl::Status Adopt(std::shared_ptr<const Program> program);

  // Counts what is launched from now on. A captured step is counted once.
  void CountTraffic(std::shared_ptr<LaneTraffic> traffic) {
    traffic_ = std::move(traffic);
  }

  // --- Readiness ---

  // One of the inputs that the transfer waits for in this step is ready once
  // `event` completes. FailedPrecondition if the transfer waits for none: the
  // previous step is not over. The verdict may replace the plan before this
  // call returns.
  absl::Status MarkReady(plan::TransferRef ref, Event event = Event());
  // The transfer must not begin before `event`; does not mark it ready.
  void AddEvent(plan::TransferRef ref, Event event);

  // --- Steps ---

  // Finish was called: ends the step of lanes with streams.
  void EndStep();
  // Restarts the step of the queued lanes. What it launched must never have run
  // (a capture that was given up).
  void RestartStep();

  // kOnThread is the default. Call between a verdict and the first launch after
  // it. kInCall: no operation may call MarkReady or Run.
  void SetQueueRuns(QueueRuns runs);
  // Runs `work` on the comm queue, after everything launched before.
  void Run(absl::AnyInvocable<void(KernelQueue&)> work,
           std::vector<Event> after = {});
  // Returns once everything launched on the comm queue has been enqueued on its
  // communicators; for host memory, once it is complete.
  void Drain() { queue_->Drain(); }
  // As Queue::IsCapturedWithout, of the comm queue.
  bool IsCapturedWithout(const Stream* stream) const {
    return queue_->IsCapturedWithout(stream);
  }

  // --- Lanes with streams ---

  // Call before the first MarkReady or Advance for such a lane. Null: the owner
  // is destroyed, and nothing more is launched.
  void SetOwner(plan::LaneKind kind, LaneOwner* owner);

  // The pipeline runs between BeginRun and EndRun. BeginRun resets what the
  // previous run launched. No message begins before `free`.
  void BeginRun(const Event& free = Event());
  void EndRun();
  // When the pipeline may run, and its position.
  PipelineRun& pipeline_run() { return pipeline_run_; }

  // Launches every transfer that is ready.
  void Advance();
  // Advances, then returns the completion event of the transfer.
  // FailedPrecondition, naming what blocks it, if it was not launched in this
  // step; the error of its launch, if that failed.
  absl::StatusOr<Event> Launched(plan::TransferRef ref);
  // Blocks until the lane's stream has run everything that was launched.
  void Synchronize(int lane);

  // Whether the plan names transfers of lanes with streams that precede this
  // one and are not launched in this step. Ignores the launch order.
  bool IsBehindStreams(plan::TransferRef ref) const;

  // --- The end ---

  // Aborts every communicator, the verdict's first. Does not block.
  void Abort(const absl::Status& cause);

  // Runs everything launched on the comm queue. Afterwards no lane runs, and
  // the communicators of queued lanes are destroyed.
  void Close();

 private:
  struct UnitState {
    int pending = 0;
    std::vector<Event> events;  // the unit must not begin before these
    Event done;                 // of a unit launched on a stream
  };
  struct LaneState {
    uint64_t step = 0;
    size_t next = 0;  // the next unit to launch in this step
    std::vector<UnitState> units;
    std::unique_ptr<Stream> stream;
    LaneOwner* owner = nullptr;  // of a lane with a stream
    Event last;                  // the newest on the stream since a verdict
    absl::Status failure;        // of a launch on the stream
  };
  // A launch that Advance makes without the lock.
  struct PendingLaunch {
    std::shared_ptr<const Program> program;
    UnitRef unit;
    std::vector<Event> after;
    LaneOwner* owner = nullptr;
    Stream* stream = nullptr;
    bool drains = false;  // drains the comm queue first
  };

  Executor(std::vector<std::unique_ptr<Communicator>> communicators,
           std::shared_ptr<transport::DeviceContext> compute)
      : communicators_(std::move(communicators)),
        compute_(std::move(compute)) {}

  absl::StatusOr<std::vector<std::unique_ptr<Stream>>> MakeStreams(
      const Program& program);
  static void Add(Event event, std::vector<Event>* events);
  void BeginStep(size_t lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasPassed(const UnitRef& unit, uint64_t step) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayLaunch(size_t lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LaunchQueued() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LaunchOnQueue(const UnitRef& unit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes all events that the unit must not begin before.
  std::vector<Event> TakeEvents(const UnitRef& unit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayLaunchOnStream(size_t lane) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasLaunchableStream() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<PendingLaunch> TakeLaunch()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Event> LaunchOnStream(const PendingLaunch& launch);
  void EndLaunch(const UnitRef& unit, const absl::StatusOr<Event>& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(const Program& program, const UnitRef& unit) const;
  // The failure of a lane, or FailedPrecondition that says what is not ready.
  absl::Status WhyHeld(const UnitRef& unit) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunIfDue();

  std::vector<std::unique_ptr<Communicator>> communicators_;
  const std::shared_ptr<transport::DeviceContext> compute_;
  std::shared_ptr<LaneTraffic> traffic_;  // or null
  PipelineRun pipeline_run_;
  std::atomic<QueueRuns> runs_{QueueRuns::kOnThread};
  std::atomic<bool> due_{
      false};  // this thread, or another, is to run the queue

  mutable Mutex mutex_;
  CondVar advanced_;
  std::shared_ptr<const Program> program_ ABSL_GUARDED_BY(mutex_);
  std::vector<LaneState> lanes_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;    // a pipeline
  bool advancing_ ABSL_GUARDED_BY(mutex_) = false;  // a thread in Advance
  bool undrained_ ABSL_GUARDED_BY(mutex_) = false;  // launches on the queue

  std::unique_ptr<transport::DeviceContext::Queue>
      queue_;  // last: its work uses all of the above
};

}  // namespace lockstep::executor

#endif  // LOCKSTEP_CLIENT_EXECUTOR_EXECUTOR_H_
