// From the launch of a step's reductions to the effects of its verdict.

#include <utility>

#include "absl/time/time.h"
#include "client/gradient/ending.h"
#include "client/gradient/engine.h"

namespace lockstep::gradient {

using protocol::Phase;

std::shared_ptr<PendingVerdict::State> Engine::TakeClosing() {
  MutexLock lock(&mutex_);
  return steps_.TakeWaiting();
}

void Engine::EnterVerdict(PendingVerdict::State& verdict,
                          StepSummary* summary) {
  EnterRecord(verdict, summary);
  // Last: readers of this phase rely on the summary being complete.
  agreement_.Enter(Phase::kVerdict);
}

void Engine::EnterRecord(PendingVerdict::State& verdict, StepSummary* summary) {
  // On the host a program may have finished later steps already, on a stream
  // that has not reached them; a switch comes before they run.
  if (gate_of_steps_ == nullptr) verdict.layout = &versions_->current();
  verdict.is_prepared = versions_->Prepare();
  summary->holds_next_revision = verdict.is_prepared;
  gate_.Enter(summary);
  summary->step_seconds = SecondsTaken();
  verdict.step_id = {.epoch = options_.epoch,
                     .revision = versions_->revision(),
                     .step = options_.first_step + verdict.launch};
}

void Engine::Judge(const std::shared_ptr<PendingVerdict::State>& verdict,
                   absl::StatusOr<Verdict> reduced) {
  if (!reduced.ok()) Fail(WorldFailed() ? 0 : -1, reduced.status());
  const bool passed = reduced.ok() && Passes(*verdict, &*reduced);
  Conclude(verdict, std::move(reduced), passed);
}

// --- Where the device decides ------------------------------------------------

void Engine::DeviceEnded(const std::shared_ptr<PendingVerdict::State>& verdict,
                         const absl::Status& ran) {
  ActOn(verdict, decisions_->Read(*verdict, ran));
}

void Engine::EndUnseen(const std::shared_ptr<PendingVerdict::State>& verdict,
                       const absl::Status& why) {
  Fail(-1, why);
  auto decision = decisions_->Await(*verdict, why, kDrainTimeout);
  if (!decision) return Conclude(verdict, why, /*passed=*/false);
  ActOn(verdict, *std::move(decision));
}

void Engine::ActOn(const std::shared_ptr<PendingVerdict::State>& verdict,
                   DeviceDecision decision) {
  if (decision.contributed) agreement_.Enter(Phase::kVerdict);
  if (decision.is_void && failure().ok()) {
    NoteDecided();
    return EndVoid(*verdict);
  }
  absl::StatusOr<Verdict>& decided = decision.verdict;
  if (!decided.ok()) Fail(decision.communicator, decided.status());
  const bool passed = decided.ok() && Passes(*verdict, &*decided);
  NoteDecided();
  Conclude(verdict, std::move(decided), passed);
}

void Engine::NoteDecided() {
  MutexLock lock(&mutex_);
  steps_.Decided();
  decided_.NotifyAll();
}

void Engine::EndVoid(PendingVerdict::State& verdict) {
  {
    MutexLock lock(&mutex_);
    steps_.End();
  }
  verdict.CompleteVoid(ended());
}

// --- Judging -----------------------------------------------------------------

bool Engine::Passes(const PendingVerdict::State& verdict, Verdict* reduced) {
  {
    MutexLock lock(&mutex_);
    steps_.effects().Apply(verdict.launch, reduced);
  }
  const bool passes = agreement_.Pass(verdict.step_id.step, verdict.vectors,
                                      EndsEpoch(*reduced));
  if (passes) AdvanceLossScale(verdict, reduced);
  return passes;
}

void Engine::Conclude(const std::shared_ptr<PendingVerdict::State>& verdict,
                      absl::StatusOr<Verdict> reduced, bool passed) {
  if (!passed) {
    versions_->ReleaseAll();
    verdict->Complete(failure());
    return;
  }
  Publish(verdict, *std::move(reduced));
}

VerdictScalars Engine::ScalarsOf(const Verdict& judged, double max_norm) {
  return {.commit = 1,
          .finite = judged.finite ? 1.0 : 0.0,
          .clip = judged.UpdateFactor(max_norm),
          .samples = judged.samples};
}

void Engine::Publish(const std::shared_ptr<PendingVerdict::State>& verdict,
                     Verdict judged) {
  const int parameters = static_cast<int>(options_.names.size());
  BucketStore& store = verdict->layout->store();
  // The next replay may be writing the reduced flags already.
  const bool has_flags = !verdict->is_replay;
  if (has_flags) judged.contributed.resize(parameters);
  for (int p = 0; has_flags && p < parameters; ++p)
    judged.contributed[p] = store.Contributed(p);
  verdict->set_scalars(ScalarsOf(judged, verdict->max_norm));
  if (has_flags && verdict->options.more_data)
    NoteUnsubmitted(*verdict, judged);

  // Before any thread can begin the next step.
  if (judged.finite) store.KeepResiduals();
  SwitchIfDue(*verdict);
  const absl::Time passed = options_.clock->Now();
  NoteTimes(*verdict, passed);
  if (EndsEpoch(judged)) EndAfter(judged);
  bool ends = false;
  {
    MutexLock lock(&mutex_);
    ends = steps_.effects().ends_soon() || !after_the_last_.ok();
  }
  gate_.Pass(judged, ends, [this, verdict, passed, judged] {
    {
      MutexLock lock(&mutex_);
      times_.Paused(options_.clock->Now() - passed);
      steps_.End();
    }
    verdict->Complete(judged);
  });
}

void Engine::NoteUnsubmitted(const PendingVerdict::State& verdict,
                             const Verdict& judged) {
  if (options_.on_unsubmitted == OnUnsubmitted::kIgnore) return;
  const BucketStore& store = verdict.layout->store();
  MutexLock lock(&mutex_);
  for (int p = 0; p < static_cast<int>(judged.contributed.size()); ++p) {
    const bool here = verdict.gave ? (*verdict.gave)[p] : store.Gave(p);
    unsubmitted_.Note(p, here, judged.contributed[p]);
  }
}

double Engine::SecondsTaken() {
  MutexLock lock(&mutex_);
  return absl::ToDoubleSeconds(times_.Taken(options_.clock->Now()));
}

void Engine::NoteTimes(const PendingVerdict::State& verdict,
                       absl::Time passed) {
  Overlap next = Overlap::kThread;
  {
    MutexLock lock(&mutex_);
    times_.Held(passed - verdict.closed + writer_->TakeCopyTime());
    times_.Passed(passed);
    overlap_.Passed(
        MeanStepSeconds(executor_.communicator(0)->size(), verdict.vectors));
    next = overlap_.form();
  }
  executor_.SetQueueRuns(QueueRunsOf(next));
}

void Engine::EndAfter(const Verdict& last) {
  const absl::Status over = AfterTheLast(last);
  std::deque<std::shared_ptr<PendingVerdict::State>> given_up;
  std::optional<uint64_t> last_launch;
  const protocol::EpochReport report{.position = agreement_.position(),
                                     .verdict = agreement_.LastVerdict()};
  {
    MutexLock lock(&mutex_);
    after_the_last_ = over;
    // Steps in flight are void where the device decides: all ranks launch them.
    if (run_ahead_ == 0) given_up = steps_.GiveUpWaiting();
    last_launch = steps_.effects().last_launch();
  }
  if (last.IsLast()) {
    if (options_.on_last) options_.on_last(last.ending);
  } else if (options_.on_grow) {
    options_.on_grow(over, report);
  }
  for (const auto& verdict : given_up) verdict->Complete(over);
  if (Replays* const replays = replaying_; replays != nullptr) replays->Wake();
  if (run_ahead_ > 0) {
    versions_->ReleaseAll();
    LaunchVoidSteps(last_launch.value_or(0));
  }
}

void Engine::SwitchIfDue(const PendingVerdict::State& verdict) {
  std::optional<uint64_t> after;
  {
    MutexLock lock(&mutex_);
    after = steps_.effects().switches_after();
  }
  versions_->ForgetFormer();
  if (after != verdict.launch) {
    // The step that all ranks hold the next revision in keeps it until then.
    const bool keeps = after == verdict.launch + run_ahead_;
    if (verdict.is_prepared && !keeps) versions_->Release();
    return;
  }
  Switch();
  // Last: until then whoever begins the next step waits for this one.
  MutexLock lock(&mutex_);
  steps_.effects().Switched();
}

void Engine::Switch() {
  const absl::StatusOr<bool> switched = versions_->Switch();
  // Where a stream follows the device, it may still read the former buckets.
  if (gate_of_steps_ == nullptr) versions_->ForgetFormer();
  if (!switched.ok()) return Fail(-1, switched.status());
  if (!*switched) return;
  // All ranks are here and none has begun the next step.
  absl::Status registered = RegisterBuckets();
  if (!registered.ok()) return Fail(-1, registered);
  absl::Status adopted = executor_.Adopt(versions_->current().program());
  if (!adopted.ok()) Fail(-1, adopted);
}

}  // namespace lockstep::gradient
