// One epoch's gradient synchronisation: combines tracker, buckets, comm queue
// and verdict. It depends on neither session nor coordinator; GradientSync
// connects it to them.
//
//   Submit ─▶ tracker ─▶ writer ─(pack)─▶ bucket ─ready─▶ Executor: MarkReady
//   Finish ─▶ zeros for the rest ─▶ Executor: MarkReady(verdict) ─▶ verdict
//   ─▶ pass? ─▶ switch to the next layout, if all ranks have staged it
//   ─▶ gate (closed by a pause) ─▶ Wait returns
//
// A revision is prepared while steps run (Stage). It replaces everything that
// depends on the old one at once, on the thread that judges the verdict, after
// it has passed and before any waiter for it resumes (layout_versions.h).
//
// On the host a helper thread runs the queue, or the thread that closes the
// step runs it once the step is closed: whichever takes less time
// (overlap_choice.h). In the second case Finish blocks. On a device the calls
// enqueue themselves what they make ready, so that a step's work is on the
// device when they return; in negotiated mode a helper does.
//
// Only a DeviceContext (device_context.h) accesses gradient bytes, since they
// may be in device memory. Submit then only enqueues its work, and the bucket's
// reduction waits for that work.
//
// Threads: as in gradient_sync.h for the calls that it forwards. Reductions,
//          norms and the judging of the verdict run on the comm queue's thread
//          or on the thread that closes the step; where the device decides, its
//          verdicts are awaited and acted on by a thread of their own
//          (verdict_watch.h). Abort and position() may be called from any
//          thread.
// Errors:  wrong calls are InvalidArgument or FailedPrecondition and change
//          nothing. After Abort or a failed transfer, every call and every
//          pending verdict returns the first such error; after the last step of
//          all ranks, Cancelled; after a step with which the job grows,
//          Aborted. A step that passed while the job is paused stays passed,
//          whatever fails later.

#ifndef LOCKSTEP_CLIENT_GRADIENT_ENGINE_H_
#define LOCKSTEP_CLIENT_GRADIENT_ENGINE_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
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
#include "client/gradient/decision_reader.h"
#include "client/gradient/engine_options.h"
#include "client/gradient/gradient_tracker.h"
#include "client/gradient/gradient_writer.h"
#include "client/gradient/layout_versions.h"
#include "client/gradient/overlap_choice.h"
#include "client/gradient/parameter_store.h"
#include "client/gradient/pass_lane.h"
#include "client/gradient/pending.h"
#include "client/gradient/record_lane.h"
#include "client/gradient/replays.h"
#include "client/gradient/step_agreement.h"
#include "client/gradient/step_gate.h"
#include "client/gradient/step_summary.h"
#include "client/gradient/step_times.h"
#include "client/gradient/steps_in_flight.h"
#include "client/gradient/unsubmitted.h"
#include "client/gradient/verdict_lane.h"
#include "client/transport/device_context.h"
#include "lockstep/communicator.h"
#include "lockstep/gradient_sync.h"
#include "protocol/evidence.h"
#include "protocol/negotiation.h"
#include "protocol/progress.h"
#include "protocol/types.h"

namespace lockstep::gradient {

class Engine {
 public:
  // InvalidArgument if the plan lacks one of the parameters, or has operations
  // on this rank's gradient lane that the engine does not support.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(EngineOptions options);

  // Aborts unless the engine was aborted or no step is in progress; waits for
  // the comm queue.
  ~Engine();

  // In the step in progress or, once this rank has rolled a step forward, in
  // that step. With run_ahead it may wait for a verdict, and is an error once
  // the epoch has ended, or the last step.
  absl::StatusOr<absl::Span<std::byte>> View(int parameter);
  DType DTypeOf(int parameter) const { return facts_[parameter].dtype; }
  uint32_t PlanIndexOf(int parameter) const {
    return facts_[parameter].plan_index;
  }
  // Whether the host can read gradients and values.
  bool IsInHostMemory() const { return !compute_.NeedsOneOrder(); }
  // InvalidArgument for a parameter that is not registered.
  absl::Status CheckKnown(int parameter) const;
  // InvalidArgument for a view whose elements have another size than the
  // parameter's dtype, and for integers that are not raw halves (`is_count`).
  absl::Status CheckView(int parameter, size_t element_bytes,
                         bool is_count) const;

  // Negotiated mode: the parameters that this step submits. FailedPrecondition
  // in static mode.
  absl::Status BeginPass(const std::vector<int>& parameters);
  // The coordinator's decisions, in order; from any thread, does not block.
  void Decide(std::vector<protocol::Decision> decisions);

  // `gradient` null: it is in its view. `stream` null: it is complete already.
  absl::Status Submit(int parameter, const void* gradient, size_t bytes,
                      Stream* stream);
  // A gradient in a buffer of the caller.
  struct Buffer {
    int parameter = -1;
    const void* gradient = nullptr;
    size_t bytes = 0;
  };
  // As a Submit of each, in order; those of a bucket are copied at once. An
  // error ends the call at its gradient: those before are submitted.
  absl::Status SubmitAll(absl::Span<const Buffer> gradients, Stream& stream);
  absl::Status BeginNoSync();
  void EndNoSync();
  void SetMicroBatchWeight(double weight) {
    weight_.store(weight, std::memory_order_relaxed);
  }
  // Zeros only gradients that no transfer can be reading or writing.
  void ZeroGradients();

  // `stream` null: all Submits were without a stream, or the work on their
  // streams has run or will run. The caller waits for the result. `enqueued` is
  // called with the step's launch once it is enqueued, before any wait for its
  // verdict: a step that fails here may be rolled forward.
  absl::StatusOr<std::shared_ptr<PendingVerdict::State>> Finish(
      const FinishOptions& options, double max_norm, Stream* stream,
      absl::FunctionRef<void(uint64_t)> enqueued = [](uint64_t) {});

  // --- A step as a CUDA graph (captured.h, engine_capture.cc) ---

  // Captures the one step that `body` submits and finishes on `stream`.
  // FailedPrecondition in the middle of a step, in a job whose steps cannot be
  // captured, and for a `body` that does not finish; errors of `body`.
  absl::StatusOr<std::shared_ptr<Captured>> Capture(
      Stream& stream, absl::FunctionRef<absl::Status()> body);
  // Runs one step, as Finish on `stream`. Waits until the host work of the
  // previous step is done. FailedPrecondition if the step is stale.
  absl::StatusOr<std::shared_ptr<PendingVerdict::State>> Launch(
      const std::shared_ptr<Captured>& step, const FinishOptions& options,
      Stream& stream);
  // Whether its buckets will not be in effect in the next step. Waits for what
  // that depends on.
  bool IsStale(const Captured& step);

  // --- Steps in graphs of the program (replays.h, engine_replays.cc) ---

  // From now on the program may launch steps. FailedPrecondition in a job whose
  // steps cannot be captured, or with run_ahead; errors of memory.
  absl::Status BeginReplays();
  // What is submitted from now on, up to Finish, is a step in the graph that
  // the program captures `stream` into.
  absl::Status JoinCapture(Stream& stream);
  // The step that has joined a capture is given up.
  void LeaveCapture();
  // For a launch that the device has not decided.
  absl::Status SetReplayInput(uint64_t replay, const FinishOptions& options);
  Replays& replays() { return *replays_; }
  // FailedPrecondition while graphs of the program have steps of this engine.
  absl::Status CheckNoGraphs();

  // --- Slices; FailedPrecondition unless options.sharded ---

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

  // The operator's commands, as received; from any thread.
  void Receive(const protocol::DesiredCommands& word) {
    gate_.Receive(word);
    if (Replays* const replays = replaying_; replays != nullptr) {
      replays->Post();
    }
  }

  uint64_t step() const { return agreement_.steps(); }
  // The form of the step in progress.
  Overlap overlap() {
    MutexLock lock(&mutex_);
    return overlap_.form();
  }
  double exposed_seconds() {
    MutexLock lock(&mutex_);
    return absl::ToDoubleSeconds(times_.exposed());
  }

  // --- The loss scale on the device; FailedPrecondition without one ---

  absl::StatusOr<const LossScale*> DeviceAddressOfLossScale() const;
  absl::StatusOr<LossScale> loss_scale();
  // Between two steps.
  absl::Status SetLossScale(const LossScale& scale);

  // --- Later revisions; from any thread ---

  void OnMoved(std::function<void()> handler) {
    versions_->OnMoved(std::move(handler));
  }
  bool CanMove() const { return versions_->CanMove(); }
  Revision revision() const { return versions_->revision(); }

  // Prepares and stages the revision after the current one. The verdict that
  // shows that every rank has staged it switches to it. Allocates memory; slow.
  // Errors of Layout::Create and LayoutVersions::Stage.
  absl::Status Stage(plan::Plan plan);
  bool HasStaged() const { return versions_->HasStaged(); }

  // Calls `tell` once, in the next Finish of a step in which this rank
  // submitted anything, with the order in which its parameters (indices of the
  // plan) became complete; it must not block.
  void WatchOrder(std::function<void(std::vector<uint32_t>)> tell);

  // Whether no transfer has failed and the engine was not aborted.
  bool healthy() { return failure().ok(); }

  // The progress report to the coordinator; cheap, called a few times a second.
  protocol::Progress progress();

  // Ends the engine: no later step passes, and all communicators are aborted,
  // the verdict's first. Does not block.
  void Abort(const absl::Status& cause) { BeginFailure(cause); }
  // After Abort: this rank's final position. Where the device decides, this
  // waits until it has ended the step in progress, which may still pass.
  // DeadlineExceeded, or an error of the device: the position is not known, and
  // this rank is lost.
  absl::StatusOr<protocol::EpochReport> Report();
  // Gives up a step in progress: afterwards the position does not change.
  void Rest();
  // Whether Report may wait.
  bool decides_on_device() const { return gate_of_steps_ != nullptr; }

  // The bytes of the verdict of the last step that passed here; empty: none.
  std::string last_verdict() { return agreement_.LastVerdict(); }
  // After Abort, in the verdict of a step: the step passes with these bytes of
  // another rank's verdict. DataLoss if they are of another step.
  // FailedPrecondition if this rank waits for no verdict.
  absl::StatusOr<Verdict> RollForward(const std::string& verdict);

 private:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  // How long the device may take to end the step in progress once its
  // communicators are aborted.
  static constexpr absl::Duration kDrainTimeout = absl::Seconds(5);
  // How often it is asked meanwhile whether it still runs anything.
  static constexpr absl::Duration kProbePeriod = absl::Milliseconds(200);
  static constexpr absl::Duration kProbePatience = absl::Milliseconds(100);

  explicit Engine(EngineOptions options);
  absl::Status Prepare();
  std::unique_ptr<GradientWriter> MakeWriter();
  // The layouts of a revision, one for each step in flight.
  absl::StatusOr<LayoutVersions::Layouts> MakeLayouts(plan::Plan plan);
  // InvalidArgument for what needs run_ahead 0.
  absl::Status CheckRunAhead(const Layout& layout) const;
  // Fewer ranks with more data: the steps in flight behind it are void.
  int MoreDataMin() const;
  absl::Status MakeVerdictLane();
  absl::Status MakeSummaryLane();
  absl::Status MakeRecordLane();
  absl::Status MakeProgram(Layout& layout);
  void MakePassLane();
  void BeginOverlap();
  executor::QueueRuns QueueRunsOf(Overlap form) const;
  // Computes how many Submits each parameter takes if its sums have leaves.
  absl::Status CountLeaves(const Layout& layout);
  absl::Status RegisterBuckets();

  // Waits for the verdict of the step before, on the host refuses to run before
  // that was waited for. Errors: their cause.
  absl::Status MayRunPipeline();
  // Until the host has acted on the verdict of the last step.
  void AwaitLastVerdict();
  static absl::Status NotWaitedFor();
  bool negotiates() const { return options_.announce != nullptr; }
  // Announces an empty pass if the caller began none.
  absl::Status BeginPassIfNone();
  absl::Status ForgetUnannounced(const std::vector<int>& announced);

  // Records a stream that runs only when waited for; Finish waits for it.
  void NoteLazy(Stream& stream);
  // DeviceContext::Perform, but the end of the epoch cancels the work, and an
  // error on a stream fails this rank.
  absl::Status RunOn(Stream* stream, transport::DeviceContext::Work work);
  // InvalidArgument for a stream that this engine cannot enqueue work on.
  absl::Status CheckStream(Stream* stream) const;
  absl::Status CheckNothingMoves() const;
  absl::Status CheckSubmit(int parameter, const void* gradient,
                           size_t bytes) const;
  // FailedPrecondition if another lane still changes the gradient that this
  // Submit would copy.
  absl::Status CheckIsFinal(int parameter, const void* gradient) const;
  absl::Status CheckFinish(const FinishOptions& options);
  // Zeros the gradients; complete when it returns.
  absl::Status ZeroNow(const std::vector<int>& parameters);
  // What Submit may do with the gradient in the step in progress.
  absl::StatusOr<GradientTracker::Submission> Note(int parameter,
                                                   const void* gradient,
                                                   size_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the WatchOrder callback, bound to this step's order; null if none.
  absl::AnyInvocable<void()> TakeOrderWatch(const std::vector<int>& completed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<uint32_t> ReadyOrder(const std::vector<int>& completed) const;
  // Ends a step in stream order: fills in gradients that were not submitted,
  // then marks the verdict ready.
  absl::Status CloseStep(const GradientTracker::Incomplete& incomplete,
                         KernelQueue& kernel_queue);
  // Work on the stream that the caller enqueues from now on runs behind the
  // verdict. Blocks until that is so. An error: the step has not passed, and
  // the caller must not write to its gradients.
  absl::Status JoinVerdict(Stream& stream, PendingVerdict::State& verdict);
  // The stream waits for `event`, or the call does where the device refuses it.
  // If that fails, too, this rank fails, or the capture in progress.
  absl::Status WaitOn(Stream& stream, const Event& event);
  absl::Status GateStream(Stream& stream, PendingVerdict::State& verdict);
  // Where the device decides: blocks until the host knows what was decided of
  // the step before, and has acted on it.
  void AwaitStepBefore();
  // Steps of the program's graphs: `stream` has run what it has, and the host
  // knows of all that were decided. In a step, or without replays, at once.
  absl::Status AwaitReplays(Stream* stream);
  // The same without a stream: for launches that the device has begun.
  absl::Status AwaitReplaysRead();
  // Behind a call of Finish that failed: whether the device decides that the
  // step passes. Then Finish has to say so, for the sake of the update.
  bool PassesNevertheless(PendingVerdict::State& verdict);
  // Everything of the step is launched: the next one begins.
  absl::Status BeginNext();
  // A call that launches a part of a step, from Begin to destruction: no void
  // step begins meanwhile.
  class StepCall {
   public:
    explicit StepCall(Engine* engine) : engine_(*engine) {}
    ~StepCall();
    void Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_.mutex_);

   private:
    Engine& engine_;
    bool has_begun_ = false;
  };
  // Behind a step that ran out of data: what other ranks have launched, this
  // rank launches too.
  void LaunchVoidSteps(uint64_t last);
  void LaunchVoidGraph(const std::shared_ptr<PendingVerdict::State>& verdict,
                       const StepsInFlight::GraphLaunch& last);
  // Launches a step that has its number.
  void LaunchGraph(const std::shared_ptr<PendingVerdict::State>& verdict,
                   const std::shared_ptr<Captured>& step,
                   transport::DeviceContext::Graph& graph, Stream& stream);
  // Negotiated mode, on the comm queue's thread: launches a decided reduction,
  // and ends a pass, with the parameters that no reduction covered.
  void LaunchDecided(int parameter, const BucketStore::Share& share);
  void CloseDecided(std::vector<int> untouched);
  // The oldest step that Finish was called for; null if it was given up.
  std::shared_ptr<PendingVerdict::State> TakeClosing();
  // Sets the step, and adds the engine's fields to the summary, when this rank
  // reaches the verdict.
  void EnterVerdict(PendingVerdict::State& verdict, StepSummary* summary);
  // The same where the device decides: before it is known whether the transfers
  // complete.
  void EnterRecord(PendingVerdict::State& verdict, StepSummary* summary);
  void DeviceEnded(const std::shared_ptr<PendingVerdict::State>& verdict,
                   const absl::Status& ran);
  // A graph with the update of the step may still run: ends the epoch, and asks
  // the journal. If that does not tell, the position is not known.
  void EndUnseen(const std::shared_ptr<PendingVerdict::State>& verdict,
                 const absl::Status& why);
  // What the device has decided takes effect on the host.
  void ActOn(const std::shared_ptr<PendingVerdict::State>& verdict,
             DeviceDecision decision);
  void Judge(const std::shared_ptr<PendingVerdict::State>& verdict,
             absl::StatusOr<Verdict> reduced);
  // Whether the verdict could not be exchanged.
  bool WorldFailed() const { return !executor_.communicator(0)->status().ok(); }
  // Commits the verdict on this rank, unless the step was already given up,
  // which where the device decides it is not.
  bool Passes(const PendingVerdict::State& verdict, Verdict* reduced);
  // The step has passed: the next one's loss scale follows from its own.
  void AdvanceLossScale(const PendingVerdict::State& verdict, Verdict* passed);
  absl::Status CheckScalesLoss() const;
  void Conclude(const std::shared_ptr<PendingVerdict::State>& verdict,
                absl::StatusOr<Verdict> reduced, bool passed);
  static VerdictScalars ScalarsOf(const Verdict& judged, double max_norm);
  void Publish(const std::shared_ptr<PendingVerdict::State>& verdict,
               Verdict judged);
  // Elapsed seconds of the current step.
  double SecondsTaken();
  // After a verdict: records the step's times and chooses the thread that runs
  // the next step.
  void NoteTimes(const PendingVerdict::State& verdict, absl::Time passed);
  // After a verdict entered with more_data: which gradients were missing.
  void NoteUnsubmitted(const PendingVerdict::State& verdict,
                       const Verdict& judged);
  // Before the step's tracker is closed: which leaves were missing.
  void NoteLeaves(const FinishOptions& options)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After a verdict: switches to the next revision if it takes effect now.
  void SwitchIfDue(const PendingVerdict::State& verdict);
  void Switch();
  void NoteDecided();
  // The step is void: neither an update nor a failure.
  void EndVoid(PendingVerdict::State& verdict);

  absl::Status CheckCapture();
  bool IsStaleNow(const Captured& step) const {
    return step.revision != versions_->revision();
  }
  absl::Status CheckBetweenSteps(int in_flight_max);
  absl::Status MakeParts(Captured* step);
  absl::Status CapturePart(Captured* step, Stream& stream,
                           absl::FunctionRef<absl::Status()> body);
  absl::StatusOr<std::unique_ptr<transport::DeviceContext::Graph>> CaptureGraph(
      Captured* step, Stream& stream, absl::FunctionRef<absl::Status()> body);
  void ForgetCapture();
  // The first error of a call that was captured.
  absl::Status CaptureError();
  static absl::Status IsBeingCaptured();
  // A capture of the program, which a step has joined.
  static absl::Status CaptureHasNotEnded();
  absl::StatusOr<std::shared_ptr<PendingVerdict::State>> FinishCaptured(
      const FinishOptions& options, double max_norm, Stream& stream);
  absl::Status CaptureEnd(double max_norm, Stream& stream);

  absl::Status CheckReplays() const;
  // The step of a replay that the device has decided.
  std::shared_ptr<PendingVerdict::State> BeginReplay(uint64_t entry);
  bool AwaitProgramGraphs(absl::Duration timeout);
  // Keeps what graphs of the program may still use until the process ends.
  void LeaveMemoryToGraphs();
  // Sets the phase of the step in progress. Does nothing during a capture,
  // since no step is in progress then.
  void Enter(protocol::Phase phase) {
    if (capturing_ == nullptr) agreement_.Enter(phase);
  }
  // Rejects later steps and cancels those already begun.
  void EndAfter(const Verdict& last);
  // The first error ends the engine and is reported to its owner.
  void Fail(int communicator, const absl::Status& error);
  // A failure of this rank alone. What fails in a capture has not run: it is an
  // error of the capture (CaptureError), and the epoch goes on.
  void FailHere(const absl::Status& error);
  // False if it had failed before.
  bool BeginFailure(const absl::Status& error);
  // Waits until the device has ended all steps that are launched. Ends early
  // with the error of a device that runs nothing more.
  absl::Status Drain();
  // DeadlineExceeded, in words for the whole drain: a step or a launch of the
  // program has not ended yet.
  absl::Status AwaitLaunches(absl::Duration timeout);
  // Behind the last step, until the void steps that other ranks have launched
  // have ended here too. False: a rank has not launched them in time.
  bool AwaitVoidSteps();
  absl::Status failure();
  // Why no step can begin: a failure, or the last step has passed.
  absl::Status ended();
  absl::Status MayStep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Properties of a parameter that no revision changes.
  struct Fact {
    DType dtype;
    ReduceOp op;
    size_t bytes;
    uint32_t plan_index;
  };

  EngineOptions options_;
  const int run_ahead_;
  const int bucket_sets_;  // which steps use in turn
  executor::Executor& executor_;
  transport::DeviceContext& compute_;
  std::vector<Fact> facts_;  // by parameter
  std::unique_ptr<LayoutVersions> versions_;
  std::unique_ptr<GradientWriter> writer_;
  std::unique_ptr<ParameterStore> values_;  // null unless sharded
  CommandGate gate_;
  StepAgreement agreement_;
  std::atomic<double> weight_{1};
  std::atomic<Captured*> capturing_{nullptr};
  std::vector<ArenaBuffer> graph_scalars_;  // of all captures

  Mutex mutex_;
  GradientTracker tracker_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // Once the last step of the epoch has passed.
  absl::Status after_the_last_ ABSL_GUARDED_BY(mutex_);
  DataSupply supply_ ABSL_GUARDED_BY(mutex_);
  StepsInFlight steps_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<PendingVerdict::State> rolled_forward_
      ABSL_GUARDED_BY(mutex_);
  // Behind the newest step that has passed here.
  std::optional<LossScale> loss_scale_ ABSL_GUARDED_BY(mutex_);
  CondVar decided_;
  int step_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  CondVar no_step_calls_;
  // A gradient was submitted in its view: the next backward pass may write
  // there.
  bool uses_views_ ABSL_GUARDED_BY(mutex_) = false;
  StepTimes times_ ABSL_GUARDED_BY(mutex_);
  OverlapChoice overlap_ ABSL_GUARDED_BY(mutex_);
  Unsubmitted unsubmitted_ ABSL_GUARDED_BY(mutex_);
  std::string memory_ ABSL_GUARDED_BY(mutex_);  // how transfers reach it
  std::function<void(std::vector<uint32_t>)> watch_order_
      ABSL_GUARDED_BY(mutex_);

  // Submits of this step on streams that run only when waited for.
  std::vector<Event> lazy_ ABSL_GUARDED_BY(mutex_);
  Event gather_driver_;  // of the newest gather; training thread only

  int leaves_ = 0;  // of the job, 0: not reproducible; fixed by Prepare
  std::vector<int> announced_;  // in the last pass; training thread only

  std::unique_ptr<StepGate> gate_of_steps_;    // null: the host decides
  std::unique_ptr<DecisionReader> decisions_;  // likewise
  std::unique_ptr<VerdictLane> verdict_lane_;
  RecordLane* record_lane_ = nullptr;    // verdict_lane_ if the device decides
  std::unique_ptr<PassLane> pass_lane_;  // negotiated mode only

  std::unique_ptr<Captured> joined_;  // in the program's capture
  std::vector<std::shared_ptr<transport::DeviceContext::ProgramGraph>>
      program_graphs_;
  std::unique_ptr<Replays> replays_;  // null before BeginReplays
  std::atomic<Replays*> replaying_{nullptr};
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_ENGINE_H_
