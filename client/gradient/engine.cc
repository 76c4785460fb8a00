#include "client/gradient/engine.h"

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/deadline.h"
#include "client/gradient/ending.h"
#include "client/gradient/loss_scale.h"
#include "client/gradient/summary_lane.h"
#include "plan/records.h"

namespace lockstep::gradient {

using protocol::Phase;

namespace {

// Steps without a gradient before it is reported. In negotiated mode a graph
// may legitimately omit a parameter for longer.
constexpr int kSteps = 3;
constexpr int kPassesUnannounced = 20;

// How long the device may take to end the step in progress once its
// communicators are aborted.
constexpr absl::Duration kDrainTimeout = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(EngineOptions options) {
  std::unique_ptr<Engine> engine(new Engine(std::move(options)));
  if (absl::Status status = engine->Prepare(); !status.ok()) return status;
  return engine;
}

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      run_ahead_(options_.run_ahead),
      executor_(*options_.executor),
      compute_(executor_.compute()),
      agreement_(options_.first_step),
      tracker_(options_.names, options_.uses,
               negotiates() ? GradientTracker::Expects::kAnnounced
                            : GradientTracker::Expects::kAll),
      steps_(plan::EndsByRecords(options_.plan), run_ahead_, options_.uneven),
      loss_scale_(options_.loss_scale
                      ? std::optional(options_.loss_scale->first)
                      : std::nullopt),
      times_(options_.clock->Now()),
      overlap_(options_.overlap),
      unsubmitted_(options_.names, negotiates() ? kPassesUnannounced : kSteps,
                   /*here_too=*/!negotiates()) {}

// Between two steps there is nothing to abort, and a peer may still be reading
// this rank's contribution to the last verdict.
Engine::~Engine() {
  Rest();
  gate_.Open();
  if (record_lane_ != nullptr) {
    executor_.Drain();
    record_lane_->FinishWatching();  // it uses the communicators
  }
  executor_.Close();  // its work uses everything here
}

void Engine::Rest() {
  const bool rests = AwaitVoidSteps() && failure().ok() &&
                     agreement_.position().phase == Phase::kIdle &&
                     (values_ == nullptr || values_->idle());
  if (rests) return;
  Abort(absl::CancelledError("gradient synchronisation was destroyed"));
  Report().IgnoreError();
}

// Other ranks have launched them, and communicate with this one.
bool Engine::AwaitVoidSteps() {
  if (run_ahead_ == 0) return true;
  const Deadline deadline(kDrainTimeout);
  MutexLock lock(&mutex_);
  const auto is_over = [this] {
    return after_the_last_.ok() || !failure_.ok() || steps_.are_over();
  };
  while (!is_over() && !deadline.Passed()) {
    decided_.WaitFor(&mutex_, deadline.Left());
  }
  return is_over();
}

int Engine::MoreDataMin() const {
  if (run_ahead_ == 0) return 0;
  return options_.uneven == Uneven::kStop ? executor_.communicator(0)->size()
                                          : 1;
}

absl::Status Engine::Prepare() {
  absl::StatusOr<LayoutVersions::Layouts> first =
      MakeLayouts(std::move(options_.plan));
  if (!first.ok()) return first.status();
  const Layout& layout = *(*first)[0];
  for (int p = 0; p < static_cast<int>(options_.names.size()); ++p) {
    facts_.push_back({.dtype = layout.DTypeOf(p),
                      .op = layout.OpOf(p),
                      .bytes = layout.store().View(p).size(),
                      .plan_index = layout.PlanIndexOf(p)});
  }
  if (absl::Status counted = CountLeaves(layout); !counted.ok()) {
    return counted;
  }
  if (absl::Status can = CheckRunAhead(layout); !can.ok()) return can;
  versions_ = std::make_unique<LayoutVersions>(*std::move(first),
                                               std::move(options_.on_moved));
  if (options_.sharded) {
    auto values =
        ParameterStore::Create(versions_->current(), options_.allocate);
    if (!values.ok()) return values.status();
    values_ = *std::move(values);
  }
  if (absl::Status made = MakeVerdictLane(); !made.ok()) return made;
  absl::Status programs = versions_->ForEach(
      [this](Layout& layout) { return MakeProgram(layout); });
  if (!programs.ok()) return programs;
  if (values_ != nullptr) {
    absl::Status registered = values_->RegisterBuffers(
        [this](int c) { return executor_.communicator(c); },
        options_.register_buffer);
    if (!registered.ok()) return registered;
  }
  if (absl::Status registered = RegisterBuckets(); !registered.ok())
    return registered;
  BeginOverlap();
  if (negotiates()) MakePassLane();
  return executor_.Adopt(versions_->current().program());
}

absl::StatusOr<LayoutVersions::Layouts> Engine::MakeLayouts(plan::Plan plan) {
  const auto shared = std::make_shared<const plan::Plan>(std::move(plan));
  LayoutVersions::Layouts layouts;
  for (int i = 0; i <= run_ahead_; ++i) {
    auto layout = Layout::Create(shared, options_.rank, options_.names,
                                 &compute_, options_.allocate);
    if (!layout.ok()) return layout.status();
    layouts.push_back(*std::move(layout));
  }
  return layouts;
}

// What a step would share with the one before it, or waits for the host.
absl::Status Engine::CheckRunAhead(const Layout& layout) const {
  if (run_ahead_ == 0) return absl::OkStatus();
  const char* what = nullptr;
  if (!plan::EndsByRecords(layout.plan()))
    what = "a plan whose steps the host decides";
  if (negotiates()) what = "sync: negotiated";
  if (options_.sharded) what = "sync: reduce_scatter";
  if (layout.store().FeedsBack()) what = "buckets.error_feedback";
  for (const plan::Lane& lane : layout.plan().ranks[options_.rank].lanes) {
    if (lane.kind == plan::LaneKind::kPipeline) what = "a pipeline";
    if (lane.kind == plan::LaneKind::kHalo) what = "halo exchanges";
  }
  if (what == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "run_ahead is %d, and with %s no step can be enqueued before the one "
      "before it has ended: it must be 0",
      run_ahead_, what));
}

absl::Status Engine::MakeVerdictLane() {
  return plan::EndsByRecords(versions_->current().plan()) ? MakeRecordLane()
                                                          : MakeSummaryLane();
}

absl::Status Engine::MakeRecordLane() {
  auto gate = StepGate::Create({.epoch = options_.epoch,
                                .first_step = options_.first_step,
                                .rank = options_.rank,
                                .world = executor_.communicator(0)->size(),
                                .more_data_min = MoreDataMin(),
                                .run_ahead = run_ahead_,
                                .loss_scale = options_.loss_scale},
                               compute_, options_.allocate);
  if (!gate.ok()) return gate.status();
  gate_of_steps_ = *std::move(gate);
  auto lane = std::make_unique<RecordLane>(RecordLane::Options{
      .executor = &executor_,
      .gate = gate_of_steps_.get(),
      .take = [this] { return TakeClosing(); },
      .enter = [this](PendingVerdict::State& verdict,
                      StepSummary* summary) { EnterRecord(verdict, summary); },
      .enqueued = [](const VerdictLane::Pending& verdict,
                     const Event& decided) { verdict->Enqueued(decided); },
      .contributed = [this] { agreement_.Enter(Phase::kVerdict); },
      .ended = [this](const VerdictLane::Pending& verdict,
                      const absl::Status& ran) { DeviceEnded(verdict, ran); },
      .on_failure = [this](int c,
                           const absl::Status& error) { Fail(c, error); }});
  record_lane_ = lane.get();
  verdict_lane_ = std::move(lane);
  return absl::OkStatus();
}

absl::Status Engine::MakeSummaryLane() {
  if (options_.loss_scale) return NoDeviceScalesLoss();
  absl::StatusOr<std::unique_ptr<SummaryLane>> lane = SummaryLane::Create(
      {.executor = &executor_,
       .leaves = leaves_,
       .take = [this] { return TakeClosing(); },
       .enter = [this](
                    PendingVerdict::State& verdict,
                    StepSummary* summary) { EnterVerdict(verdict, summary); },
       .judge =
           [this](const VerdictLane::Pending& verdict,
                  absl::StatusOr<Verdict> reduced) {
             Judge(verdict, std::move(reduced));
           },
       .on_failure = [this](int c,
                            const absl::Status& error) { Fail(c, error); }},
      options_.allocate);
  if (!lane.ok()) return lane.status();
  verdict_lane_ = *std::move(lane);
  return absl::OkStatus();
}

absl::Status Engine::MakeProgram(Layout& layout) {
  return layout.MakeProgram(
      {.executor = &executor_,
       .verdict = verdict_lane_.get(),
       .norm = [this](int leaf) { return verdict_lane_->norm(leaf); },
       .values = values_.get(),
       .is_decided = negotiates(),
       .on_failure = [this](int c,
                            const absl::Status& error) { Fail(c, error); }});
}

void Engine::MakePassLane() {
  std::vector<uint32_t> plan_indices;
  for (const Fact& fact : facts_) plan_indices.push_back(fact.plan_index);
  pass_lane_ = std::make_unique<PassLane>(
      plan_indices,
      PassLane::Launches{
          .reduction =
              [this](int parameter, const BucketStore::Share& share) {
                LaunchDecided(parameter, share);
              },
          .verdict =
              [this](std::vector<int> untouched) {
                CloseDecided(std::move(untouched));
              }});
}

// Decisions arrive during the backward pass, gathers are waited for in the
// forward pass, and a device runs asynchronously: all three need a helper.
void Engine::BeginOverlap() {
  MutexLock lock(&mutex_);
  const bool needs_helper =
      negotiates() || values_ != nullptr || compute_.NeedsOneOrder();
  if (needs_helper) overlap_ = OverlapChoice(Overlap::kThread);
  executor_.SetQueueRuns(QueueRunsOf(overlap_.form()));
}

executor::QueueRuns Engine::QueueRunsOf(Overlap form) const {
  using executor::QueueRuns;
  // A decision arrives on a thread that must not block.
  if (negotiates()) return QueueRuns::kOnThread;
  if (compute_.NeedsOneOrder()) return QueueRuns::kInCall;
  return form == Overlap::kInline ? QueueRuns::kOnClose : QueueRuns::kOnThread;
}

// All ranks register the same buffers at the same point.
absl::Status Engine::RegisterBuckets() {
  std::vector<transport::RegistrationKind> kinds;
  absl::Status registered = versions_->ForEach([&](Layout& layout) {
    absl::Status registers = layout.RegisterBuffer(
        [this](int c) { return executor_.communicator(c); },
        options_.register_buffer);
    if (registers.ok()) layout.store().AddRegistrationKinds(&kinds);
    return registers;
  });
  if (values_ != nullptr) values_->AddRegistrationKinds(&kinds);
  MutexLock lock(&mutex_);
  memory_ = transport::Describe(kinds);
  return registered;
}

// --- Submitting -------------------------------------------------------------

absl::Status Engine::Submit(int parameter, const void* gradient, size_t bytes,
                            Stream* stream) {
  if (absl::Status right = CheckStream(stream); !right.ok()) return right;
  if (stream != nullptr) AwaitStepBefore();
  GradientTracker::Submission submission;
  StepCall call(this);
  {
    MutexLock lock(&mutex_);
    if (absl::Status may = MayStep(); !may.ok()) return may;
    call.Begin();
    if (stream == nullptr && steps_.count() > 0) return NotWaitedFor();
    const auto noted = Note(parameter, gradient, bytes);
    if (!noted.ok()) return noted.status();
    submission = *noted;
  }
  Enter(Phase::kCompute);
  const Delivery delivery{.parameter = parameter,
                          .gradient = gradient,
                          .weight = weight_.load(std::memory_order_relaxed),
                          .submission = submission,
                          .caller_waits = stream == nullptr};
  // The work runs within the call, so the closure need not own the delivery.
  if (stream == nullptr) {
    return RunOn(nullptr, [this, &delivery](KernelQueue& kernel_queue) {
      return Deliver(delivery, kernel_queue);
    });
  }
  absl::Status enqueued =
      RunOn(stream, [this, delivery](KernelQueue& kernel_queue) {
        return Deliver(delivery, kernel_queue);
      });
  if (enqueued.ok() && capturing_ == nullptr) NoteLazy(*stream);
  return enqueued;
}

absl::Status Engine::SubmitAll(absl::Span<const Buffer> gradients,
                               Stream& stream) {
  if (absl::Status right = CheckStream(&stream); !right.ok()) return right;
  AwaitStepBefore();
  StepCall call(this);
  absl::Status noted;
  // By bucket, in the order of their first gradients.
  std::vector<std::vector<Delivery>> groups;
  {
    MutexLock lock(&mutex_);
    if (absl::Status may = MayStep(); !may.ok()) return may;
    call.Begin();
    const BucketStore& store = versions_->current().store();
    const double weight = weight_.load(std::memory_order_relaxed);
    std::map<int, size_t> group_of;
    for (const Buffer& each : gradients) {
      const auto submission = Note(each.parameter, each.gradient, each.bytes);
      noted = submission.status();
      if (!noted.ok()) break;
      const int bucket = store.PlaceOf(each.parameter).bucket;
      const auto [group, is_new] = group_of.emplace(bucket, groups.size());
      if (is_new) groups.emplace_back();
      groups[group->second].push_back({.parameter = each.parameter,
                                       .gradient = each.gradient,
                                       .weight = weight,
                                       .submission = *submission});
    }
  }
  if (groups.empty()) return noted;
  Enter(Phase::kCompute);
  absl::Status enqueued = RunOn(
      &stream, [this, groups = std::move(groups)](KernelQueue& kernel_queue) {
        absl::Status done;
        for (const auto& group : groups) {
          if (done.ok()) done = DeliverTogether(group, kernel_queue);
        }
        return done;
      });
  if (enqueued.ok() && capturing_ == nullptr) NoteLazy(stream);
  return enqueued.ok() ? noted : enqueued;
}

absl::Status Engine::MayStep() const {
  return failure_.ok() ? after_the_last_ : failure_;
}

absl::StatusOr<GradientTracker::Submission> Engine::Note(int parameter,
                                                         const void* gradient,
                                                         size_t bytes) {
  absl::Status may = CheckSubmit(parameter, gradient, bytes);
  if (may.ok()) may = supply_.CheckSubmit();
  if (!may.ok()) return may;
  auto noted = tracker_.Submit(parameter, gradient != nullptr);
  if (noted.ok()) uses_views_ |= gradient == nullptr;
  return noted;
}

void Engine::NoteLazy(Stream& stream) {
  Event driver = compute_.Driver(stream);
  if (driver.state() == nullptr) return;
  MutexLock lock(&mutex_);
  lazy_.push_back(std::move(driver));
}

absl::Status Engine::CheckStream(Stream* stream) const {
  const bool capturing = capturing_ != nullptr;
  bool captured = false;
  if (stream != nullptr) {
    absl::Status right = compute_.CheckStream(*stream);
    if (!right.ok()) return right;
    captured = compute_.Captures(*stream);
  }
  if (captured == capturing) return absl::OkStatus();
  return capturing ? absl::FailedPreconditionError(
                         "a step is being captured: it is submitted and "
                         "finished on streams of the capture only")
                   : absl::InvalidArgumentError(
                         "the stream is being captured, but not by "
                         "GradientSync::Capture");
}

absl::Status Engine::CheckKnown(int parameter) const {
  if (parameter >= 0 && parameter < static_cast<int>(options_.names.size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("no parameter %d is registered: there are %d", parameter,
                      options_.names.size()));
}

absl::Status Engine::CheckView(int parameter, size_t element_bytes,
                               bool is_count) const {
  if (absl::Status known = CheckKnown(parameter); !known.ok()) return known;
  const DType dtype = facts_[parameter].dtype;
  if (element_bytes == SizeOf(dtype) && !is_count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s is %s, of %d bytes an element; a view of %s of %d "
                      "bytes was asked for",
                      options_.names[parameter], Name(dtype), SizeOf(dtype),
                      is_count ? "integers" : "elements", element_bytes));
}

absl::Status Engine::CheckSubmit(int parameter, const void* gradient,
                                 size_t bytes) const {
  absl::Status may = CheckKnown(parameter);
  if (may.ok() && values_ != nullptr) may = values_->CheckBegun();
  if (!may.ok()) return may;
  if (leaves_ > 0 && gradient == nullptr && tracker_.HasSumInView(parameter)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a leaf of %s is said to be in its view, which holds the sum of those "
        "that this step submitted from buffers",
        options_.names[parameter]));
  }
  const size_t expected = facts_[parameter].bytes;
  if (gradient == nullptr || bytes == expected) {
    return CheckIsFinal(parameter, gradient);
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("the gradient of %s has %d bytes, %d were submitted",
                      options_.names[parameter], expected, bytes));
}

// A gradient submitted in its view is read when it is sent, after other lanes
// have changed it; a buffer or a leaf is read now.
absl::Status Engine::CheckIsFinal(int parameter, const void* gradient) const {
  const Layout& layout = versions_->current();
  const bool is_read_now = gradient != nullptr || leaves_ > 0;
  if (!is_read_now || !layout.FollowsOthers(parameter) ||
      !executor_.IsBehindStreams(layout.TransferOf(parameter))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s is submitted before its gradients of the first and the last stage "
      "were added up (pipeline.shared): submit it when on_stage_done is told "
      "of that stage, after Pipeline::Run, or in its view",
      options_.names[parameter]));
}

absl::Status Engine::RunOn(Stream* stream,
                           transport::DeviceContext::Work work) {
  if (stream == nullptr) {
    // On return the work is done, and the caller owns its buffers again.
    return compute_.Perform(nullptr, [&work](KernelQueue& kernel_queue) {
      absl::Status status = work(kernel_queue);
      return status.ok() ? kernel_queue.Done().Wait() : status;
    });
  }
  // An error on the stream fails this rank; no caller can receive it.
  return compute_.Perform(stream, [this, work = std::move(work)](
                                      KernelQueue& kernel_queue) mutable {
    // Steps that were begun before the last step passed are not needed, unless
    // other ranks have launched them.
    absl::Status over = run_ahead_ > 0 ? failure() : ended();
    if (!over.ok()) return over;
    absl::Status status = work(kernel_queue);
    if (!status.ok() && capturing_ == nullptr) Fail(-1, status);
    return status;
  });
}

absl::Status Engine::Deliver(const Delivery& delivery,
                             KernelQueue& kernel_queue) {
  Enter(Phase::kCompute);  // the stream may have been in the previous step
  BucketStore& store = versions_->current().store();
  if (delivery.gradient != nullptr) {
    if (absl::Status s = Copy(delivery, kernel_queue); !s.ok()) return s;
  } else if (store.LeavesOf(delivery.parameter) > 0) {
    store.AddLeaf(kernel_queue, delivery.parameter, nullptr, 1);
  }
  return Delivered(delivery, kernel_queue);
}

// A parameter that is submitted twice is packed, then added to.
absl::Status Engine::DeliverTogether(absl::Span<const Delivery> deliveries,
                                     KernelQueue& kernel_queue) {
  Enter(Phase::kCompute);  // the stream may have been in the previous step
  BucketStore& store = versions_->current().store();
  const auto is_packed = [&](const Delivery& one) {
    return one.submission.first && store.LeavesOf(one.parameter) == 0;
  };
  std::vector<BucketStore::PackedGradient> packed;
  for (const Delivery& each : deliveries) {
    if (is_packed(each)) packed.push_back({each.parameter, each.gradient});
  }
  const absl::Time begin = options_.clock->Now();
  store.PackTogether(kernel_queue, packed, deliveries[0].weight);
  copying_ += absl::ToInt64Nanoseconds(options_.clock->Now() - begin);
  for (const Delivery& each : deliveries) {
    if (is_packed(each)) continue;
    if (absl::Status s = Copy(each, kernel_queue); !s.ok()) return s;
  }
  for (const Delivery& each : deliveries) {
    if (absl::Status s = Delivered(each, kernel_queue); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Engine::Delivered(const Delivery& delivery,
                               KernelQueue& kernel_queue) {
  Event done = kernel_queue.Mark();
  if (!kernel_queue.status().ok()) return kernel_queue.status();
  if (delivery.submission.complete) {
    return MarkReady(delivery.parameter, true, std::move(done));
  }
  executor_.AddEvent(versions_->current().TransferOf(delivery.parameter),
                     std::move(done));
  return absl::OkStatus();
}

absl::Status Engine::Copy(const Delivery& delivery, KernelQueue& kernel_queue) {
  const absl::Time begin = options_.clock->Now();
  BucketStore& store = versions_->current().store();
  if (store.LeavesOf(delivery.parameter) > 0) {
    store.AddLeaf(kernel_queue, delivery.parameter, delivery.gradient,
                  delivery.weight);
  } else {
    store.Pack(kernel_queue, delivery.parameter, delivery.gradient,
               delivery.weight,
               /*add=*/!delivery.submission.first);
  }
  absl::Status copied = kernel_queue.status();
  if (copied.ok() && delivery.caller_waits) copied = kernel_queue.Done().Wait();
  copying_ += absl::ToInt64Nanoseconds(options_.clock->Now() - begin);
  return copied;
}

absl::Status Engine::MarkReady(int parameter, bool contributed, Event done) {
  Layout& layout = versions_->current();
  layout.store().SetFlag(parameter, contributed);
  const plan::TransferRef transfer = layout.TransferOf(parameter);
  if (!negotiates()) return executor_.MarkReady(transfer, std::move(done));
  executor_.AddEvent(transfer, std::move(done));
  options_.submitted(agreement_.steps(), facts_[parameter].plan_index);
  return absl::OkStatus();
}

absl::Status Engine::BeginNoSync() {
  if (leaves_ > 0) {
    return absl::FailedPreconditionError(
        "NoSync in a job with reproducible.leaves: each Submit is a leaf");
  }
  MutexLock lock(&mutex_);
  return tracker_.BeginNoSync();
}

void Engine::EndNoSync() {
  MutexLock lock(&mutex_);
  tracker_.EndNoSync();
}

void Engine::ZeroGradients() {
  std::vector<int> resting;
  {
    MutexLock lock(&mutex_);
    if (steps_.count() > 0) return;
    resting = tracker_.Resting();
    std::erase_if(resting, [&](int p) { return tracker_.HasSumInView(p); });
  }
  if (absl::Status s = ZeroNow(resting); !s.ok()) Fail(-1, s);
}

absl::Status Engine::ZeroNow(const std::vector<int>& parameters) {
  BucketStore& store = versions_->current().store();
  return RunOn(nullptr, [&](KernelQueue& kernel_queue) {
    for (const int parameter : parameters) store.Zero(kernel_queue, parameter);
    return kernel_queue.status();
  });
}

absl::Status Engine::NotWaitedFor() {
  return absl::FailedPreconditionError(
      "the verdict of the step before was not waited for");
}

// --- Later revisions --------------------------------------------------------

absl::Status Engine::Stage(plan::Plan plan) {
  absl::StatusOr<LayoutVersions::Layouts> next = MakeLayouts(std::move(plan));
  if (!next.ok()) return next.status();
  for (const auto& layout : *next) {
    if (absl::Status made = MakeProgram(*layout); !made.ok()) return made;
  }
  return versions_->Stage(*std::move(next));
}

void Engine::WatchOrder(std::function<void(std::vector<uint32_t>)> tell) {
  MutexLock lock(&mutex_);
  watch_order_ = std::move(tell);
}

// --- Watching and ending ----------------------------------------------------

protocol::Progress Engine::progress() {
  MutexLock lock(&mutex_);
  protocol::Progress progress;
  progress.position = agreement_.position();
  progress.submitted = static_cast<uint32_t>(tracker_.completed().size());
  const executor::PipelineRun::RunPosition run =
      executor_.pipeline_run().position();
  if (run.is_running) {
    progress.position.phase =
        std::max(progress.position.phase, Phase::kCompute);
    progress.task = run.task;
    progress.awaits = run.awaits;
  }
  if (progress.position.phase == Phase::kCompute) {
    progress.missing = tracker_.MissingNames(8);
  }
  const StepTimes::Means means = times_.TakeMeans();
  progress.step_seconds = means.step_seconds;
  progress.exposed_seconds = means.exposed_seconds;
  progress.overlap = overlap_.form();
  progress.revision = versions_->revision();
  progress.paused = gate_.shut();
  progress.memory = memory_;
  progress.unsubmitted_by_all = unsubmitted_.by_all();
  progress.unsubmitted_here = unsubmitted_.here();
  return progress;
}

absl::Status Engine::failure() {
  MutexLock lock(&mutex_);
  return failure_;
}

absl::Status Engine::ended() {
  MutexLock lock(&mutex_);
  return MayStep();
}

void Engine::Fail(int communicator, const absl::Status& error) {
  if (!BeginFailure(error)) return;
  options_.on_failure(communicator, error);
}

absl::StatusOr<protocol::EpochReport> Engine::Report() {
  if (gate_of_steps_ != nullptr) {
    if (absl::Status drained = Drain(); !drained.ok()) return drained;
  }
  return agreement_.Report();
}

absl::Status Engine::Drain() {
  const Deadline deadline(kDrainTimeout);
  {
    MutexLock lock(&mutex_);
    while (steps_.undecided() > 0 && !deadline.Passed()) {
      decided_.WaitFor(&mutex_, deadline.Left());
    }
    if (steps_.undecided() > 0) {
      return absl::DeadlineExceededError(absl::StrFormat(
          "the device has not ended step %d within %s of the end of the epoch",
          agreement_.steps(), absl::FormatDuration(kDrainTimeout)));
    }
  }
  return gate_of_steps_->Probe(compute_, deadline.Left());
}

// Once the epoch has ended, the views of the next step may be those of the one
// that is to be rolled forward.
absl::StatusOr<absl::Span<std::byte>> Engine::View(int parameter) {
  if (run_ahead_ == 0) return versions_->View(parameter);
  AwaitStepBefore();
  {
    MutexLock lock(&mutex_);
    if (rolled_forward_ != nullptr) {
      return rolled_forward_->layout->store().View(parameter);
    }
    if (!failure_.ok()) return failure_;
    if (!after_the_last_.ok()) return after_the_last_;
  }
  return versions_->View(parameter);
}

absl::StatusOr<Verdict> Engine::RollForward(const std::string& verdict) {
  std::shared_ptr<PendingVerdict::State> pending;
  std::optional<LateEffects> effects;
  {
    MutexLock lock(&mutex_);
    pending = steps_.Find(agreement_.steps() - options_.first_step);
    effects.emplace(steps_.effects());
  }
  if (failure().ok() || pending == nullptr) {
    return absl::FailedPreconditionError(
        "a rank rolls forward when it waits for a verdict in an epoch that "
        "has ended");
  }
  {
    // The device may not have ended the step: it used what the step before, the
    // newest that has passed here, made of the scale.
    MutexLock lock(&mutex_);
    pending->loss_scale = loss_scale_;
  }
  absl::StatusOr<Verdict> passed = agreement_.RollForward(
      verdict, {options_.epoch, versions_->revision(), agreement_.steps()},
      executor_.communicator(0)->size(), pending->terms(), options_.uneven);
  if (!passed.ok()) return passed;
  effects->Apply(pending->launch, &*passed);
  AdvanceLossScale(*pending, &*passed);
  for (size_t p = 0; p < options_.names.size(); ++p) {
    passed->contributed.push_back(
        pending->layout->store().Contributed(static_cast<int>(p)));
  }
  if (passed->IsLast() && options_.on_last) options_.on_last(passed->ending);
  MutexLock lock(&mutex_);
  rolled_forward_ = std::move(pending);
  return passed;
}

bool Engine::BeginFailure(const absl::Status& error) {
  std::deque<std::shared_ptr<PendingVerdict::State>> given_up;
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return false;
    failure_ = error;
    given_up = steps_.GiveUpWaiting();
  }
  // Judge completes a verdict that was launched, and may still find that it
  // passed; an unlaunched verdict is completed here.
  if (gate_of_steps_ != nullptr) {
    gate_of_steps_->Stop();
  } else {
    agreement_.Quiesce();
  }
  executor_.Abort(error);
  if (values_ != nullptr) values_->Fail(error);
  gate_.Open();
  for (const auto& verdict : given_up) verdict->Complete(error);
  return true;
}

}  // namespace lockstep::gradient
