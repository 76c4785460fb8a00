// Runs a rank's plan: launches every transfer of every lane, in the plan's
// order, as soon as all that it waits for is ready.
//
//   Submit ─────────────┐
//   pipeline task done ─┼─▶ MarkReady(transfer) ─┬─▶ comm queue    gradients,
//   decision ───────────┘                        │                 verdict
//                                                └─▶ a stream each pipeline,
//                                                                  halo, state
//
// Lanes are independent of each other, but for what Unit::after says
// (program.h). Queued lanes share the comm queue, where the operations of a
// step run one after the other, with their local operations; the verdict is the
// last, and with its launch the next step of these lanes begins. The other
// lanes have a stream each; their step begins with EndStep, when Finish was
// called, or, of a pipeline, with BeginRun. A lane whose owner does not run it
// in a step is skipped: then nothing waits for it.
//
// Each step chooses the thread that runs the comm queue: the queue's own, or
// the one that launches the verdict (SetOnClose).
//
// Threads: any. Queued operations are launched under the lock, and only
//          enqueued. Transfers on streams are launched without it, one at a
//          time, by a thread that marks something ready or calls Advance.
//          Owners are called as lane_owner.h says.
// Errors:  a transfer that fails is told to its lane's owner. Abort unblocks
//          every transfer.

#ifndef LOCKSTEP_CLIENT_EXECUTOR_EXECUTOR_H_
#define LOCKSTEP_CLIENT_EXECUTOR_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/executor/pipeline_run.h"
#include "client/executor/program.h"
#include "client/transport/device_context.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"
#include "plan/ir.h"

namespace lockstep::executor {

class Executor {
 public:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  // `communicators`: by index in the plan; null where this rank is not a
  // member. Errors of the compute.
  static absl::StatusOr<std::shared_ptr<Executor>> Create(
      std::vector<std::unique_ptr<Communicator>> communicators,
      std::shared_ptr<transport::DeviceContext> compute);
  // Runs what was launched: abort first if peers may not come.
  ~Executor();

  // Null where this rank is not a member.
  Communicator* communicator(int c) const { return communicators_[c].get(); }
  int communicators() const { return static_cast<int>(communicators_.size()); }
  transport::DeviceContext& compute() const { return *compute_; }

  // What is run from now on. Again for a later revision of the plan: between
  // the verdict of a step and the first MarkReady of the next; lanes that have
  // streams are the same in all revisions, and go on. Errors of the compute.
  absl::Status Adopt(std::shared_ptr<const Program> program);

  // --- Readiness ---

  // One of the things that the transfer waits for in this step is there, once
  // `event` has come. FailedPrecondition if it waits for none: the step before
  // is not over. The verdict may replace the plan before this has returned.
  absl::Status MarkReady(plan::TransferRef ref, Event event = Event());
  // The transfer must not begin before `event`; nothing becomes ready.
  void AddEvent(plan::TransferRef ref, Event event);

  // --- Steps ---

  // Finish was called: the step of lanes that have streams is over.
  void EndStep();
  // The step of the queued lanes begins anew: what was launched of it never ran
  // (a capture that was given up).
  void RestartStep();

  // Lets RunIfClosed run the comm queue, or its own thread, which is the
  // default. Between a verdict and the first launch after it.
  void SetOnClose(bool on_close);
  // Runs `work` on the comm queue, behind what was launched.
  void Run(absl::AnyInvocable<void(KernelQueue&)> work,
           std::vector<Event> after = {}) {
    queue_->Run(std::move(work), std::move(after));
  }
  // Returns once all that was launched on the comm queue has been enqueued on
  // its communicators; in the host's memory, once it is over.
  void Drain() { queue_->Drain(); }

  // --- Lanes that have streams ---

  // Before the first MarkReady or Advance for one of them; null: the owner is
  // gone, and nothing is launched any more.
  void SetOwner(plan::LaneKind kind, LaneOwner* owner);

  // The pipeline is being run: between BeginRun and EndRun. What was launched
  // by the run before does not count.
  void BeginRun();
  void EndRun();
  // Who may run it when, and where the run is.
  PipelineRun& pipeline_run() { return pipeline_run_; }

  // Launches what is ready.
  void Advance();
  // Advances; then the moment when the transfer is over. FailedPrecondition if
  // it has not been launched in this step, with what it comes behind; the error
  // of its launch, if that failed.
  absl::StatusOr<Event> Launched(plan::TransferRef ref);
  // The stream of the lane has run all that was launched.
  void Synchronize(int lane);

  // Does the plan name transfers of lanes with streams that come before this
  // one and are not launched in this step? Not: those before it in a launch
  // order.
  bool IsBehindStreams(plan::TransferRef ref) const;

  // --- The end ---

  // Ends every communicator, the verdict's first. Does not block.
  void Abort(const absl::Status& cause);

  // Runs what was launched on the comm queue. Then no lane is run any more, and
  // the communicators of queued lanes are gone.
  void Close();

 private:
  struct UnitState {
    int pending = 0;
    std::vector<Event> events;  // that it must not begin before
    Event done;                 // of a stream, once it was launched
  };
  struct LaneState {
    uint64_t step = 0;
    size_t next = 0;  // the unit that is launched next in this step
    std::vector<UnitState> units;
    std::unique_ptr<Stream> stream;
    LaneOwner* owner = nullptr;  // with a stream
    Event last;                  // the newest on the stream since a verdict
    absl::Status failure;        // of a launch on the stream
  };
  // What Advance launches without the lock.
  struct Launch {
    std::shared_ptr<const Program> program;
    UnitRef unit;
    std::vector<Event> after;
    LaneOwner* owner = nullptr;
    Stream* stream = nullptr;
    bool drains = false;  // the comm queue first
  };

  Executor(std::vector<std::unique_ptr<Communicator>> communicators,
           std::shared_ptr<transport::DeviceContext> compute)
      : communicators_(std::move(communicators)),
        compute_(std::move(compute)) {}

  absl::StatusOr<std::vector<std::unique_ptr<Stream>>> MakeStreams(
      const Program& program);
  void BeginStep(size_t lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasPassed(const UnitRef& unit, uint64_t step) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayLaunch(size_t lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LaunchQueued() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LaunchOnQueue(const UnitRef& unit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All that the unit must not begin before.
  std::vector<Event> TakeEvents(const UnitRef& unit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayLaunchOnStream(size_t lane) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasLaunchableStream() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Launch> TakeLaunch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Event> LaunchOnStream(const Launch& launch);
  void EndLaunch(const UnitRef& unit, const absl::StatusOr<Event>& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string WhatHolds(const UnitRef& unit) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunIfClosed();

  std::vector<std::unique_ptr<Communicator>> communicators_;
  const std::shared_ptr<transport::DeviceContext> compute_;
  PipelineRun pipeline_run_;
  std::atomic<bool> on_close_{false};
  std::atomic<bool> closed_{false};  // the verdict was launched, and not run

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
