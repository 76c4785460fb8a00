// From the launch of a step's reductions to the effects of its verdict.

#include <utility>

#include "client/gradient/ending.h"
#include "client/gradient/engine.h"

namespace lockstep::gradient {

using protocol::Phase;

std::shared_ptr<PendingVerdict::State> Engine::TakeClosing() {
  MutexLock lock(&mutex_);
  if (closing_.empty()) return nullptr;
  auto verdict = std::move(closing_.front());
  closing_.pop_front();
  launched_ = verdict;
  return verdict;
}

StepId Engine::EnterVerdict(StepSummary* summary) {
  summary->holds_next_revision = versions_->Prepare();
  gate_.Enter(summary);
  summary->step_seconds = SecondsTaken();
  // Last: readers of this phase rely on the summary being complete.
  agreement_.Enter(Phase::kVerdict);
  return {.epoch = options_.epoch,
          .revision = versions_->revision(),
          .step = agreement_.steps()};
}

void Engine::Judge(const std::shared_ptr<PendingVerdict::State>& verdict,
                   absl::StatusOr<Verdict> reduced) {
  if (!reduced.ok()) Fail(WorldFailed() ? 0 : -1, reduced.status());
  const bool passed = reduced.ok() && Passes(*verdict, &*reduced);
  Conclude(verdict, std::move(reduced), passed);
}

bool Engine::Passes(const PendingVerdict::State& verdict, Verdict* reduced) {
  reduced->ending = EndingOf(*reduced, options_.uneven);
  return agreement_.Pass(verdict.step_id.step, verdict.vectors,
                         EndsEpoch(*reduced));
}

void Engine::Conclude(const std::shared_ptr<PendingVerdict::State>& verdict,
                      absl::StatusOr<Verdict> reduced, bool passed) {
  if (!passed) {
    (void)versions_->Commit(/*everyone=*/false);
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
  judged.contributed.resize(parameters);
  for (int p = 0; p < parameters; ++p)
    judged.contributed[p] = versions_->current().store().Contributed(p);
  verdict->set_scalars(ScalarsOf(judged, verdict->max_norm));
  if (verdict->options.more_data) NoteUnsubmitted(judged);

  // Before any thread can begin the next step.
  if (judged.finite) versions_->current().store().KeepResiduals();
  SwitchIfAllHold(judged);
  const absl::Time passed = options_.clock->Now();
  NoteTimes(*verdict, passed);
  if (EndsEpoch(judged)) EndAfter(judged);
  gate_.Pass(judged, [this, verdict, passed, judged] {
    {
      MutexLock lock(&mutex_);
      times_.Paused(options_.clock->Now() - passed);
      in_flight_ -= 1;
    }
    verdict->Complete(judged);
  });
}

void Engine::NoteUnsubmitted(const Verdict& judged) {
  if (options_.on_unsubmitted == OnUnsubmitted::kIgnore) return;
  const BucketStore& store = versions_->current().store();
  MutexLock lock(&mutex_);
  for (size_t p = 0; p < judged.contributed.size(); ++p) {
    unsubmitted_.Note(static_cast<int>(p), store.Gave(static_cast<int>(p)),
                      judged.contributed[p]);
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
    times_.Held(passed - verdict.closed +
                absl::Nanoseconds(copying_.exchange(0)));
    times_.Passed(passed);
    overlap_.Passed(
        MeanStepSeconds(executor_.communicator(0)->size(), verdict.vectors));
    next = overlap_.form();
  }
  executor_.SetOnClose(next == Overlap::kInline);
}

void Engine::EndAfter(const Verdict& last) {
  const absl::Status over = AfterTheLast(last);
  std::deque<std::shared_ptr<PendingVerdict::State>> given_up;
  const protocol::EpochReport report{.position = agreement_.position(),
                                     .verdict = agreement_.LastVerdict()};
  {
    MutexLock lock(&mutex_);
    after_the_last_ = over;
    given_up = std::exchange(closing_, {});
  }
  if (last.IsLast()) {
    if (options_.on_last) options_.on_last(last.ending);
  } else if (options_.on_grow) {
    options_.on_grow(over, report);
  }
  for (const auto& verdict : given_up) verdict->Complete(over);
}

void Engine::SwitchIfAllHold(const Verdict& judged) {
  const bool everyone = judged.revision_holders == judged.world_size;
  const absl::StatusOr<bool> switched = versions_->Commit(everyone);
  if (!switched.ok()) return Fail(-1, switched.status());
  if (!*switched) return;
  // All ranks are here and none has begun the next step.
  absl::Status registered = RegisterBuckets();
  if (!registered.ok()) return Fail(-1, registered);
  absl::Status adopted = executor_.Adopt(versions_->current().program());
  if (!adopted.ok()) Fail(-1, adopted);
}

}  // namespace lockstep::gradient
