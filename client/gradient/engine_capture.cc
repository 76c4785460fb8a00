// A step as a CUDA graph: captured once, then launched many times.

#include <utility>

#include "absl/strings/str_format.h"
#include "client/gradient/engine.h"

namespace lockstep::gradient {

using protocol::Phase;

// --- Capturing ---------------------------------------------------------------

absl::Status Engine::CheckCapture() {
  if (IsInHostMemory()) {
    return absl::FailedPreconditionError(
        "this job's gradients are in the host's memory: there is no CUDA graph "
        "to capture a step into");
  }
  if (record_lane_ == nullptr) {
    return absl::FailedPreconditionError(
        "the host decides the steps of this plan, which it cannot do in a CUDA "
        "graph: a worker of another version, or reproducible.leaves");
  }
  if (negotiates()) {
    return absl::FailedPreconditionError(
        "sync: negotiated is for graphs that change from step to step; a CUDA "
        "graph does not");
  }
  if (options_.uneven == Uneven::kJoin) {
    return absl::FailedPreconditionError(
        "uneven: join lets ranks without data give zeros, which a CUDA graph "
        "with gradients in it cannot: capture in a job with uneven: stop");
  }
  if (absl::Status fixed = CheckNothingMoves(); !fixed.ok()) {
    return fixed;
  }
  return CheckBetweenSteps(/*in_flight_max=*/0);
}

absl::Status Engine::IsBeingCaptured() {
  return absl::FailedPreconditionError(
      "a step is being captured: finish it, or leave the program's capture "
      "(ReplayedSteps::LeaveCapture)");
}

absl::Status Engine::CaptureError() {
  MutexLock lock(&mutex_);
  return capturing_.load()->error;
}

// A graph fixes the addresses and the number of its operations.
absl::Status Engine::CheckNothingMoves() const {
  if (values_ != nullptr) {
    return absl::FailedPreconditionError(
        "sync: reduce_scatter gathers parameters outside of the step that "
        "would be captured");
  }
  if (leaves_ > 0) {
    return absl::FailedPreconditionError(
        "reproducible.leaves are counted by the host, which a CUDA graph "
        "leaves out");
  }
  if (versions_->current().store().FeedsBack()) {
    return absl::FailedPreconditionError(
        "buckets.error_feedback changes its memory from step to step, which a "
        "CUDA graph cannot");
  }
  return absl::OkStatus();
}

absl::Status Engine::CheckBetweenSteps(int in_flight_max) {
  if (absl::Status over = ended(); !over.ok()) return over;
  if (capturing_ != nullptr) {
    return IsBeingCaptured();
  }
  MutexLock lock(&mutex_);
  if (steps_.count() > in_flight_max) return NotWaitedFor();
  if (!tracker_.is_in_step()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the step in progress has gradients already: finish it first");
}

absl::StatusOr<std::shared_ptr<Captured>> Engine::Capture(
    Stream& stream, absl::FunctionRef<absl::Status()> body) {
  if (absl::Status right = CheckStream(&stream); !right.ok()) return right;
  if (absl::Status able = CheckCapture(); !able.ok()) return able;
  auto step = std::make_shared<Captured>();
  if (absl::Status made = MakeParts(step.get()); !made.ok()) return made;
  absl::Status captured;
  for (int i = 0; i < bucket_sets_; ++i) {
    step->part = versions_->turn();
    if (captured.ok()) captured = CapturePart(step.get(), stream, body);
    if (absl::Status begun = BeginNext(); !begun.ok()) return begun;
  }
  if (!captured.ok()) return captured;
  return step;
}

absl::Status Engine::CapturePart(Captured* step, Stream& stream,
                                 absl::FunctionRef<absl::Status()> body) {
  auto graph = CaptureGraph(step, stream, body);
  if (!graph.ok()) return graph.status();
  step->capturing().graph = *std::move(graph);
  step->completed = std::move(step->capturing().completed);
  step->gave.clear();
  for (size_t p = 0; p < options_.names.size(); ++p) {
    const BucketStore& store = versions_->current().store();
    step->gave.push_back(store.Gave(static_cast<int>(p)));
  }
  if (run_ahead_ == 0) return absl::OkStatus();
  graph = CaptureGraph(step, stream, [&] {
    return FinishCaptured({}, step->max_norm, stream).status();
  });
  if (!graph.ok()) return graph.status();
  step->capturing().void_graph = *std::move(graph);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<transport::DeviceContext::Graph>>
Engine::CaptureGraph(Captured* step, Stream& stream,
                     absl::FunctionRef<absl::Status()> body) {
  Captured::Part& part = step->capturing();
  part.finished = false;
  part.verdict_captured = {};
  capturing_ = step;
  auto graph = compute_.Capture(stream, [&]() -> absl::Status {
    absl::Status done = body();
    done.Update(CaptureError());
    if (!done.ok() || part.finished) return done;
    return absl::FailedPreconditionError(
        "the step was captured without FinishAsync");
  });
  capturing_ = nullptr;
  if (!part.finished) ForgetCapture();
  return graph;
}

absl::Status Engine::MakeParts(Captured* step) {
  step->revision = versions_->revision();
  step->parts.resize(static_cast<size_t>(bucket_sets_));
  if (run_ahead_ > 0) {
    auto stream = compute_.MakeStream("ls-void");
    if (!stream.ok()) return stream.status();
    step->void_stream = *std::move(stream);
  }
  for (Captured::Part& part : step->parts) {
    absl::StatusOr<ArenaBuffer> scalars =
        options_.allocate(sizeof(VerdictScalars));
    if (!scalars.ok()) return scalars.status();
    part.scalars = scalars->as<VerdictScalars>().data();
    graph_scalars_.push_back(*std::move(scalars));
  }
  return absl::OkStatus();
}

// Drops the Submits of a failed capture: they belong to no graph and no step.
void Engine::ForgetCapture() {
  {
    MutexLock lock(&mutex_);
    (void)tracker_.Finish();
  }
  executor_.RestartStep();
}

absl::StatusOr<std::shared_ptr<PendingVerdict::State>> Engine::FinishCaptured(
    const FinishOptions& options, double max_norm, Stream& stream) {
  const VerdictScalars* const scalars = capturing_.load()->capturing().scalars;
  const bool joined = joined_ != nullptr;
  if (joined) {
    const StepSummary usual{.samples = options.samples,
                            .more_data = options.more_data,
                            .terms = {.inverse_scale = options.inverse_scale,
                                      .per_sample = options.per_sample,
                                      .max_norm = max_norm}};
    joined_->replay = gate_of_steps_->ReplayContextOf(usual);
  }
  // A gradient that was not enqueued would be waited for.
  absl::Status captured = CaptureError();
  const bool is_second = capturing_.load()->capturing().finished;
  if (captured.ok()) captured = CaptureEnd(max_norm, stream);
  // What it has enqueued is forgotten.
  if (!captured.ok() && !is_second) {
    capturing_.load()->capturing().finished = false;
  }
  if (joined) LeaveCapture();
  if (!captured.ok()) return captured;
  auto verdict = std::make_shared<PendingVerdict::State>(options_.explain);
  verdict->set_device_scalars(scalars);
  verdict->Complete(absl::FailedPreconditionError(
      "the step was captured and has not run: its launches have verdicts"));
  return verdict;
}

absl::Status Engine::CaptureEnd(double max_norm, Stream& stream) {
  Captured& step = *capturing_;
  Captured::Part& part = step.capturing();
  GradientTracker::Incomplete incomplete;
  {
    MutexLock lock(&mutex_);
    if (std::exchange(part.finished, true)) {
      return absl::FailedPreconditionError("a second step in one capture");
    }
    part.completed = tracker_.completed();
    incomplete = tracker_.Finish();
  }
  executor_.EndStep();
  step.max_norm = max_norm;
  const Event closing = stream.Record();
  std::future<absl::StatusOr<Event>> captured =
      part.verdict_captured.get_future();
  record_lane_->Capture(&step);
  executor_.AddEvent(versions_->current().verdict(), closing);
  absl::Status closed = RunOn(&stream, [&](KernelQueue& kernel_queue) {
    return CloseStep(incomplete, kernel_queue);
  });
  const absl::StatusOr<Event> written =
      closed.ok() ? captured.get() : absl::StatusOr<Event>(closed);
  record_lane_->Capture(nullptr);
  if (!written.ok()) return written.status();
  absl::Status waits = WaitOn(stream, *written);
  return waits.ok() ? CaptureError() : waits;
}

// --- Launching ---------------------------------------------------------------

bool Engine::IsStale(const Captured& step) {
  // With steps in flight a switch may come before the next one begins.
  if (run_ahead_ > 0) AwaitStepBefore();
  return IsStaleNow(step);
}

absl::StatusOr<std::shared_ptr<PendingVerdict::State>> Engine::Launch(
    const std::shared_ptr<Captured>& step, const FinishOptions& options,
    Stream& stream) {
  if (absl::Status right = CheckStream(&stream); !right.ok()) return right;
  if (absl::Status may = AwaitReplays(&stream); !may.ok()) return may;
  // The verdict of the step before may make this graph stale.
  AwaitStepBefore();
  absl::Status free = CheckBetweenSteps(run_ahead_);
  if (free.ok()) free = CheckFinish(options);
  if (!free.ok()) return free;
  if (IsStale(*step)) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the step was captured with revision %d of the plan, and revision %d "
        "is in effect: capture it again",
        step->revision.value, versions_->revision().value));
  }
  auto verdict = std::make_shared<PendingVerdict::State>(options_.explain);
  verdict->options = options;
  verdict->max_norm = step->max_norm;
  verdict->gave = {step, &step->gave};
  verdict->has_scalars = true;
  verdict->closed = options_.clock->Now();
  const Captured::Part& part = step->parts[versions_->turn()];
  verdict->set_device_scalars(part.scalars);
  absl::AnyInvocable<void()> tell_order = [] {};
  StepCall call(this);
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    if (!after_the_last_.ok()) return after_the_last_;
    call.Begin();
    if (absl::Status has = supply_.CheckSubmit(); !has.ok()) return has;
    supply_.Finish(options);
    steps_.Launch(verdict, &versions_->current());
    tell_order = TakeOrderWatch(step->completed);
  }
  tell_order();
  LaunchGraph(verdict, step, *part.graph, stream);
  if (absl::Status begun = BeginNext(); !begun.ok()) return begun;
  // As Finish: the program may launch graphs of its own behind it.
  if (replays_ != nullptr) verdict->AwaitResult().IgnoreError();
  return verdict;
}

void Engine::LaunchGraph(const std::shared_ptr<PendingVerdict::State>& verdict,
                         const std::shared_ptr<Captured>& step,
                         transport::DeviceContext::Graph& graph,
                         Stream& stream) {
  agreement_.Enter(Phase::kTransfer);
  StepSummary summary = verdict->OwnSummary();
  EnterRecord(*verdict, &summary);
  gate_of_steps_->Seal(verdict->launch, step->revision, summary);
  // Behind the whole graph, not only the gate: it ends after the caller's
  // kernels.
  const absl::StatusOr<Event> ran = graph.Launch(stream);
  record_lane_->Watch(verdict, ran, step);
  MutexLock lock(&mutex_);
  steps_.Launched({step, ran});
}

void Engine::LaunchVoidGraph(
    const std::shared_ptr<PendingVerdict::State>& verdict,
    const StepsInFlight::GraphLaunch& last) {
  const Captured::Part& part = last.graph->parts[versions_->turn()];
  Stream& stream = *last.graph->void_stream;
  const absl::Status waits =
      last.ran.ok() ? WaitOn(stream, *last.ran) : last.ran.status();
  if (waits.ok()) {
    return LaunchGraph(verdict, last.graph, *part.void_graph, stream);
  }
  record_lane_->Watch(verdict, waits, last.graph);
}

}  // namespace lockstep::gradient
