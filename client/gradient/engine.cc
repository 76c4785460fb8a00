#include "client/gradient/engine.h"

#include <algorithm>
#include <cstring>
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

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(EngineOptions options) {
  std::unique_ptr<Engine> engine(new Engine(std::move(options)));
  if (absl::Status status = engine->Prepare(); !status.ok()) return status;
  return engine;
}

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      run_ahead_(options_.run_ahead),
      bucket_sets_(options_.run_ahead + 1 + options_.spare_sets),
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
  executor_.pipeline_run().SetMayBegin(nullptr);
  Rest();
  gate_.Open();
  if (replays_ != nullptr) replays_->Stop();
  if (record_lane_ != nullptr) {
    executor_.Drain();
    record_lane_->FinishWatching();  // it uses the communicators
  }
  executor_.Close();  // its work uses everything here
  LeaveMemoryToGraphs();
}

void Engine::Rest() {
  const bool rests =
      AwaitVoidSteps() && failure().ok() &&
      (replays_ == nullptr || replays_->AwaitIdle(kDrainTimeout)) &&
      agreement_.position().phase == Phase::kIdle &&
      (values_ == nullptr || values_->idle());
  if (rests) return;
  Abort(absl::CancelledError("gradient synchronisation was destroyed"));
  if (!Report().ok()) agreement_.Quiesce();
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
  writer_ = MakeWriter();
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
  executor_.pipeline_run().SetMayBegin([this] { return MayRunPipeline(); });
  return executor_.Adopt(versions_->current().program());
}

std::unique_ptr<GradientWriter> Engine::MakeWriter() {
  GradientWriter::Options options{.versions = versions_.get(),
                                  .executor = &executor_,
                                  .clock = options_.clock};
  if (negotiates()) {
    options.submitted = [this](int parameter) {
      options_.submitted(agreement_.steps(), facts_[parameter].plan_index);
    };
  }
  return std::make_unique<GradientWriter>(std::move(options));
}

absl::StatusOr<LayoutVersions::Layouts> Engine::MakeLayouts(plan::Plan plan) {
  const auto shared = std::make_shared<const plan::Plan>(std::move(plan));
  LayoutVersions::Layouts layouts;
  for (int i = 0; i < bucket_sets_; ++i) {
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
  decisions_ = std::make_unique<DecisionReader>(gate_of_steps_.get(), &compute_,
                                                &executor_);
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
      .unseen = [this](const VerdictLane::Pending& verdict,
                       const absl::Status& why) { EndUnseen(verdict, why); },
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
       .on_failure =
           [this](int c, const absl::Status& error) {
             c < 0 ? FailHere(error) : Fail(c, error);
           }});
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
  const bool is_plain = !options_.register_buffer && compute_.NeedsOneOrder();
  MutexLock lock(&mutex_);
  memory_ = is_plain ? Name(transport::RegistrationKind::kPlain)
                     : transport::Describe(kinds);
  return registered;
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

void Engine::FailHere(const absl::Status& error) {
  Captured* const capturing = capturing_;
  if (capturing == nullptr) return Fail(-1, error);
  MutexLock lock(&mutex_);
  capturing->error.Update(error);
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
  for (;;) {
    const absl::Status ended =
        AwaitLaunches(std::min(deadline.Left(), kProbePeriod));
    if (ended.ok()) break;
    // What a lost device has not ended, it never ends.
    if (absl::Status lost = decisions_->LostDevice(kProbePatience);
        !lost.ok()) {
      return lost;
    }
    if (deadline.Passed()) return ended;
  }
  return gate_of_steps_->Probe(compute_, deadline.Left());
}

absl::Status Engine::AwaitLaunches(absl::Duration timeout) {
  const Deadline deadline(timeout);
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
  Replays* const replays = replaying_;
  if (replays != nullptr && !replays->AwaitDecided(deadline.Left())) {
    return absl::DeadlineExceededError(absl::StrFormat(
        "the device has not ended a launch of the program's graph within %s of "
        "the end of the epoch",
        absl::FormatDuration(kDrainTimeout)));
  }
  return absl::OkStatus();
}

// Once the epoch has ended, the views of the next step may be those of the one
// that is to be rolled forward.
absl::StatusOr<absl::Span<std::byte>> Engine::View(int parameter) {
  if (bucket_sets_ == 1) return versions_->View(parameter);
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
  if (pending->is_replay) {
    // Later launches have used the buckets.
    if (!replays_->AwaitIdle(kDrainTimeout)) {
      return absl::FailedPreconditionError(
          "launches of the program's graph are running: wait for them first");
    }
    absl::Status restored = pending->layout->store().RestoreCopies();
    if (!restored.ok()) return restored;
  }
  {
    // The device may not have ended the step: it used what the step before, the
    // newest that has passed here, made of the scale. A second call has moved
    // on from it already.
    MutexLock lock(&mutex_);
    if (rolled_forward_ != pending) pending->loss_scale = loss_scale_;
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
    no_step_calls_.NotifyAll();
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
  if (Replays* const replays = replaying_; replays != nullptr) replays->Wake();
  return true;
}

}  // namespace lockstep::gradient
