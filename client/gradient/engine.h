// One epoch's gradient synchronisation: tally, buckets, lane and verdict put
// together. It knows no session and no coordinator; GradientSync joins the two.
//
//   Submit ─▶ Tally ─(pack)─▶ Layout's store ─complete─▶ Executor: MarkReady
//   Finish ─▶ zeros for the rest ─▶ Executor: MarkReady(verdict) ─▶ verdict
//   ─▶ pass? ─▶ switch to the next layout, if all ranks hold it
//   ─▶ gate (a pause holds it) ─▶ Wait returns
//
// A revision is prepared beside the steps (Hold), and replaces everything that
// depends on it at once, on the comm queue's thread, after a verdict has
// passed and before anybody who waits for it goes on (layouts.h).
//
// The queue is run by a helper thread, or by who closes the step, once it is
// closed: whichever takes less time (overlap_choice.h). Then Finish blocks.
//
// Bytes are touched by a Compute alone (compute.h): gradients may lie in a
// device's memory. There a Submit's work is done in the call, and the bucket's
// reduction waits for what it has enqueued.
//
// Threads: as gradient_sync.h says for the calls it forwards. Reductions, norms
//          and the judging of the verdict run on the comm queue's thread, or on
//          that of who closes the step; Abort and position() may be called from
//          any.
// Errors:  wrong calls are InvalidArgument or FailedPrecondition and change
//          nothing. After Abort, or when a transfer failed, every call and
//          every pending verdict has the first such error; after the step that
//          is the last of all ranks, Cancelled. A step that passed while an
//          operator pauses the job stays passed, whatever comes.

#ifndef LOCKSTEP_CLIENT_GRADIENT_ENGINE_H_
#define LOCKSTEP_CLIENT_GRADIENT_ENGINE_H_

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "client/executor/executor.h"
#include "client/gradient/captured.h"
#include "client/gradient/command_gate.h"
#include "client/gradient/data_supply.h"
#include "client/gradient/gradient_tracker.h"
#include "client/gradient/layout_versions.h"
#include "client/gradient/overlap_choice.h"
#include "client/gradient/parameter_store.h"
#include "client/gradient/pass_lane.h"
#include "client/gradient/pending.h"
#include "client/gradient/step_state.h"
#include "client/gradient/step_summary.h"
#include "client/gradient/step_times.h"
#include "client/gradient/unsubmitted.h"
#include "client/gradient/verdict_lane.h"
#include "client/transport/device_context.h"
#include "lockstep/communicator.h"
#include "lockstep/gradient_sync.h"
#include "plan/words/protocol.h"

namespace lockstep::gradient {

struct EngineOptions {
  EpochId epoch;
  uint64_t first_step = 0;
  Uneven uneven = Uneven::kStop;
  // On a device and in negotiated mode there is always a helper.
  Overlap overlap = Overlap::kThread;
  plan::Plan plan;
  int rank = 0;
  // Runs the plan; has its communicators, and the compute that works on the
  // gradients. The engine gives it its program, and closes it.
  std::shared_ptr<executor::Executor> executor;
  // The rank's parameters in registration order, and their uses.
  std::vector<std::string> names;
  std::vector<int> uses;
  // Memory for gradients, that the executor's compute works on.
  std::function<absl::StatusOr<ArenaBuffer>(size_t)> allocate;
  // Tells a communicator of memory that it will move in every step, together
  // with its other ranks; may be empty.
  BucketStore::Enlist enlist;
  const Clock* clock = nullptr;
  // Called once, from any thread, with the first thing that went wrong: in
  // which communicator of the plan, or -1 for a failure of this rank alone.
  std::function<void(int communicator, const absl::Status&)> on_failure;
  // As GradientSync::OnMoved; may be empty.
  std::function<void()> on_moved;
  // sync: reduce_scatter; the plan's buckets are sharded.
  bool sharded = false;
  // Whether progress() names parameters that nobody, or only others, submit.
  OnUnsubmitted on_unsubmitted = OnUnsubmitted::kIgnore;
  // Negotiated mode: what tells the coordinator what this rank will submit in a
  // pass, and then each that it has, by index in the plan. Both null: static.
  // They must not block.
  std::function<void(protocol::Announce)> announce;
  std::function<void(uint64_t pass, uint32_t parameter)> submitted;
  // Called once a step has passed that is the last of all ranks, before anybody
  // who waits for it goes on.
  std::function<void(Ending)> on_last;
  // Turns that error, in who waits for a verdict, into the reason behind it.
  std::function<absl::Status(const absl::Status&)> explain;
};

class Engine {
 public:
  // InvalidArgument if the plan does not have the parameters, or asks of this
  // rank's gradient lane what it cannot do.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(EngineOptions options);

  // Aborts, unless that was done before or no step is in progress; waits for
  // the comm queue.
  ~Engine();

  absl::Span<std::byte> View(int parameter) {
    return versions_->View(parameter);
  }
  DType DTypeOf(int parameter) const { return facts_[parameter].dtype; }
  uint32_t PlanIndexOf(int parameter) const {
    return facts_[parameter].plan_index;
  }
  // Can this thread read gradients and values?
  bool IsInHostMemory() const { return !compute_.NeedsOneOrder(); }
  // InvalidArgument for a parameter that is not registered ...
  absl::Status CheckKnown(int parameter) const;
  // ... and for views of elements of another size than its dtype's, or of
  // integers that are no half's bits (`is_count`).
  absl::Status CheckView(int parameter, size_t element_bytes,
                         bool is_count) const;

  // Negotiated mode: what this step submits. FailedPrecondition in static mode.
  absl::Status BeginPass(const std::vector<int>& parameters);
  // What the coordinator decided, in order; from any thread, does not block.
  void Decide(std::vector<protocol::Decision> decisions);

  // `gradient` null: it is in its view. `stream` null: it is complete now.
  absl::Status Submit(int parameter, const void* gradient, size_t bytes,
                      Stream* stream);
  absl::Status BeginNoSync();
  void EndNoSync();
  void SetMicroBatchWeight(double weight) {
    weight_.store(weight, std::memory_order_relaxed);
  }
  // Only of what no transfer can be reading or writing.
  void ZeroGradients();

  // `stream` null: all Submits were without a stream, or their streams' work
  // has run or will. The caller waits for the result.
  absl::StatusOr<std::shared_ptr<PendingVerdict::State>> Finish(
      const FinishOptions& options, double max_norm, Stream* stream);

  // --- A step as a CUDA graph (captured.h, engine_capture.cc) ---

  // Captures the one step that `body` submits and finishes on `stream`.
  // FailedPrecondition in the middle of a step, in a job whose steps cannot be
  // captured, and for a `body` that does not finish; errors of `body`.
  absl::StatusOr<std::shared_ptr<Captured>> Capture(
      Stream& stream, absl::FunctionRef<absl::Status()> body);
  // One step; as Finish on `stream`. Waits until the host has let go of the
  // step before. FailedPrecondition if it is stale.
  absl::StatusOr<std::shared_ptr<PendingVerdict::State>> Launch(
      const std::shared_ptr<Captured>& step, const FinishOptions& options,
      Stream& stream);
  // Its buckets are not in effect any more.
  bool IsStale(const Captured& step) const;

  // --- Slices; FailedPrecondition but with options.sharded ---

  // As GradientSync::GatherParameters and AwaitParameter.
  absl::Status GatherParameters(Stream* stream);
  absl::Status AwaitParameter(int parameter, Stream* stream);
  absl::Status CheckSharded(const char* call) const;
  absl::Span<std::byte> Value(int parameter) {
    return values_->View(parameter);
  }
  // The part of the parameter that this rank updates: all of it, unless
  // sharded.
  plan::Slice SliceOf(int parameter) const;

  // What an operator wants, as it was heard; from any thread.
  void Hear(const protocol::DesiredCommands& word) { gate_.Hear(word); }

  uint64_t step() const { return step_state_.steps(); }
  // Of the step in progress.
  Overlap overlap() {
    MutexLock lock(&mutex_);
    return overlap_.form();
  }
  double exposed_seconds() {
    MutexLock lock(&mutex_);
    return absl::ToDoubleSeconds(times_.exposed());
  }

  // --- Later revisions; from any thread ---

  void OnMoved(std::function<void()> handler) {
    versions_->OnMoved(std::move(handler));
  }
  bool CanMove() const { return versions_->CanMove(); }
  Revision revision() const { return versions_->revision(); }

  // Prepares the revision after the one in effect and holds it from then on:
  // the verdict that shows that every rank does switches to it. Takes memory;
  // slow. Errors of Layout::Create and LayoutVersions::Hold.
  absl::Status Stage(plan::Plan plan);
  bool HasStaged() const { return versions_->HasStaged(); }

  // Calls `tell` once, in the next Finish of a step in which this rank
  // submitted something, with the order in which its parameters (as indices of
  // the plan's) became complete; it must not block.
  void WatchOrder(std::function<void(std::vector<uint32_t>)> tell);

  // No transfer has failed and nobody has aborted it.
  bool healthy() { return failure().ok(); }

  // What the coordinator gets to know; cheap, called a few times a second.
  protocol::Progress progress();

  // Ends it: no step passes any more, all communicators are aborted, the
  // verdict's first. Where this rank stands for good.
  protocol::EpochReport Abort(const absl::Status& cause);

 private:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  explicit Engine(EngineOptions options);
  absl::Status Prepare();
  absl::Status MakeVerdictLane();
  absl::Status MakeProgram(Layout& layout);
  void MakePassLane();
  void BeginOverlap();
  // How many Submits each parameter takes, if they are leaves.
  absl::Status CountLeaves(const Layout& layout);
  absl::Status EnlistBuckets();

  static absl::Status NotWaitedFor();
  bool negotiates() const { return options_.announce != nullptr; }
  // A pass that was not begun announces nothing.
  absl::Status BeginPassIfNone();
  absl::Status ForgetUnannounced(const std::vector<int>& announced);

  // A stream that has to be waited for before Finish waits.
  void NoteLazy(Stream& stream);
  // Compute::Perform: the end of the step while it waits ends the work too, and
  // a failure on a stream is this rank's.
  absl::Status RunOn(Stream* stream, transport::DeviceContext::Work work);
  // InvalidArgument for a stream that this engine cannot enqueue work on.
  absl::Status CheckStream(Stream* stream) const;
  absl::Status CheckNothingChangesHands() const;
  absl::Status CheckSubmit(int parameter, const void* gradient,
                           size_t bytes) const;
  // FailedPrecondition if another lane still changes the gradient that this
  // Submit would copy.
  absl::Status CheckIsFinal(int parameter, const void* gradient) const;
  absl::Status CheckFinish(const FinishOptions& options);
  // They are zeros when it returns.
  absl::Status ZeroNow(const std::vector<int>& parameters);
  // A gradient on its way into its bucket.
  struct Delivery {
    int parameter = -1;
    const void* gradient = nullptr;  // null: it is in its view
    double weight = 1;
    GradientTracker::Submission submission;
    bool caller_waits = false;  // for the copy
  };
  absl::Status Deliver(const Delivery& delivery, KernelQueue& kernel_queue);
  // Out of the caller's buffer.
  absl::Status Copy(const Delivery& delivery, KernelQueue& kernel_queue);
  // What tells the order of this step to who watches for it, if anybody does.
  absl::AnyInvocable<void()> TakeOrderWatch(const std::vector<int>& completed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<uint32_t> ReadyOrder(const std::vector<int>& completed) const;
  // Its flag, then its bucket: the gradient is in place.
  absl::Status MarkReady(int parameter, bool contributed, Event done);
  // The end of a step, in stream order: what was not submitted, then the
  // verdict.
  absl::Status CloseStep(const GradientTracker::Incomplete& incomplete,
                         KernelQueue& kernel_queue);
  // The caller's stream stands until the verdict lets it go on.
  absl::Status GateStream(Stream& stream, PendingVerdict::State& verdict);
  // Negotiated mode, on the comm queue's thread: the decision of a reduction,
  // and the end of a pass with parameters that no reduction touched.
  void LaunchDecided(int parameter, const BucketStore::Share& share);
  void CloseDecided(std::vector<int> untouched);
  // The next step that Finish was called for; null if it was given up.
  std::shared_ptr<PendingVerdict::State> TakeClosing();
  // This rank is at the verdict: what only the engine knows of it.
  StepId EnterVerdict(StepSummary* summary);
  void Judge(const std::shared_ptr<PendingVerdict::State>& verdict,
             absl::StatusOr<Verdict> reduced);
  // Could the verdict not be exchanged?
  bool WorldFailed() const { return !executor_.communicator(0)->status().ok(); }
  // Takes the verdict for this rank, unless the step was given up before.
  bool Passes(const PendingVerdict::State& verdict, Verdict* reduced);
  void Conclude(const std::shared_ptr<PendingVerdict::State>& verdict,
                absl::StatusOr<Verdict> reduced, bool passed);
  static VerdictScalars ScalarsOf(const Verdict& judged, double max_norm);
  // What Abort reports if this verdict has passed.
  void KeepForAbort(const PendingVerdict::State& verdict);
  void Publish(const std::shared_ptr<PendingVerdict::State>& verdict,
               Verdict judged);
  // That the step in progress has taken.
  double SecondsTaken();
  // After a verdict: takes note of the step's times, and says who runs the
  // next.
  void NoteTimes(const PendingVerdict::State& verdict, absl::Time passed);
  // After a verdict that this rank gave data to: which gradients it lacked.
  void NoteUnsubmitted(const Verdict& judged);
  // Before the step's tally is closed: which leaves it lacked.
  void NoteLeaves(const FinishOptions& options)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After a verdict: to the next layout, if it says so.
  void SwitchIfAllHold(const Verdict& judged);

  absl::Status CheckCapture();
  absl::Status CheckBetweenSteps();
  absl::Status MakeParts(Captured* step);
  void ForgetCapture();
  absl::StatusOr<std::shared_ptr<PendingVerdict::State>> FinishCaptured(
      double max_norm, Stream& stream);
  // Concludes the step once its graph has ended.
  void AwaitGraph(const std::shared_ptr<Captured>& step,
                  const std::shared_ptr<PendingVerdict::State>& verdict,
                  Event graph);
  void EnterCaptured(Captured& step);
  void JudgeCaptured(Captured& step);
  void ConcludeCaptured(Captured& step,
                        const std::shared_ptr<PendingVerdict::State>& verdict,
                        const absl::Status& ended);

  // The step has got to this phase; not the one that is being captured, for
  // none is in progress then.
  void Enter(protocol::Phase phase) {
    if (capturing_ == nullptr) step_state_.Enter(phase);
  }
  // No step is begun after this one, and none that was goes on.
  void EndAfter(const Verdict& last);
  // The first error ends the engine and is told to its owner.
  void Fail(int communicator, const absl::Status& error);
  // False if it had failed before.
  bool BeginFailure(const absl::Status& error);
  absl::Status failure();
  // Why no step can be begun: a failure, or the last step has passed.
  absl::Status ended();

  // What a parameter is in every revision.
  struct Fact {
    DType dtype;
    ReduceOp op;
    size_t bytes;
    uint32_t plan_index;
  };

  EngineOptions options_;
  executor::Executor& executor_;
  transport::DeviceContext& compute_;
  std::vector<Fact> facts_;  // by parameter
  std::unique_ptr<LayoutVersions> versions_;
  std::unique_ptr<ParameterStore> values_;  // null unless sharded
  CommandGate gate_;
  StepState step_state_;
  std::atomic<double> weight_{1};
  std::atomic<Captured*> capturing_{nullptr};

  Mutex mutex_;
  GradientTracker tracker_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  absl::Status after_the_last_ ABSL_GUARDED_BY(mutex_);  // once it has passed
  DataSupply supply_ ABSL_GUARDED_BY(mutex_);
  // What came of the verdicts, by the parity of the steps passed with them: the
  // last that passed, and the one that is being judged, for Abort may come the
  // moment it has passed.
  std::array<std::string, 2> verdicts_ ABSL_GUARDED_BY(mutex_);
  // Steps that Finish was called for, until their verdicts are launched ...
  std::deque<std::shared_ptr<PendingVerdict::State>> closing_
      ABSL_GUARDED_BY(mutex_);
  // ... and until they have passed.
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  StepTimes times_ ABSL_GUARDED_BY(mutex_);
  OverlapChoice overlap_ ABSL_GUARDED_BY(mutex_);
  Unsubmitted unsubmitted_ ABSL_GUARDED_BY(mutex_);
  std::string memory_ ABSL_GUARDED_BY(mutex_);  // how transfers reach it
  std::function<void(std::vector<uint32_t>)> watch_order_
      ABSL_GUARDED_BY(mutex_);

  // Submits of this step on streams that nobody runs until they are waited for.
  std::vector<Event> lazy_ ABSL_GUARDED_BY(mutex_);
  Event gather_driver_;  // of the newest gather; by the training thread

  int leaves_ = 0;  // of a reproducible job's sums; fixed by Prepare
  std::vector<int> announced_;  // in the last pass; by the training thread
  // Nanoseconds that copies held the training thread, in this step.
  std::atomic<int64_t> copying_{0};

  std::unique_ptr<VerdictLane> verdict_lane_;
  std::unique_ptr<PassLane> pass_lane_;  // negotiated mode only
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_ENGINE_H_
