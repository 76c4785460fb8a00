// Session::Recover: from the end of an epoch to the decision how training goes
// on, and to what this rank must do for it.

#include "plan/state/recovery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/session/cause.h"
#include "client/session/recovery_part.h"
#include "client/session/session_impl.h"
#include "plan/state/elastic.h"

namespace lockstep {

using session::RecoveryPart;
using session::SessionPhase;
using session::StatusOf;
using session::View;
using session::WhyOver;

void Session::Impl::SetStepOwner(std::shared_ptr<const StepOwner> owner) {
  MutexLock lock(&mutex_);
  step_owner_ = std::move(owner);
}

void Session::Impl::RemoveStepOwner() {
  MutexLock lock(&mutex_);
  last_verdict_ = step_owner_->last_verdict();
  step_owner_ = nullptr;
}

bool Session::Impl::resized() const {
  const int before = formed_->previous_world;
  return before != 0 && before != static_cast<int>(members().size());
}

// Once the state is agreed on; before, only what the job's mode says.
bool Session::Impl::FitsAnyWorld() const {
  const absl::StatusOr<RegisteredState> state = state_.Agreed();
  if (!state.ok()) return spec().sync != SyncMode::kReduceScatter;
  return plan::CheckReplicasHoldAll(*state->tensors, spec()).ok();
}

bool Session::Impl::HoldsStateAt(uint64_t step) const {
  return session::HoldsStateAt(step, {.holders = holders(),
                                      .rank = rank(),
                                      .first_step = first_step(),
                                      .fits = !resized() || FitsAnyWorld(),
                                      .loaded = state_.loaded()});
}

void Session::Impl::Quiesced(protocol::EpochReport report) {
  report.holds_state = HoldsStateAt(report.position.step);
  {
    MutexLock lock(&mutex_);
    if (report_) return;
    report_ = report;
  }
  event_loop_->Post(session::Quiesced{std::move(report)});
  event_loop_->Notify();
}

void Session::Impl::NoteGrowth(const absl::Status& why,
                               protocol::EpochReport report) {
  {
    MutexLock lock(&mutex_);
    growth_ = why;
  }
  report.grows = true;
  Quiesced(std::move(report));
}

absl::StatusOr<std::shared_ptr<const View>> Session::Impl::AwaitEnd() {
  auto ended = event_loop_->view();
  const absl::Status grows = growth();
  if (!IsOver(*ended) && !grows.ok()) {
    ended = event_loop_->Await([](const View& v) { return IsOver(v); },
                               clock_->Now() + spec().timeouts.join);
    if (!IsOver(*ended)) {
      return absl::DeadlineExceededError(absl::StrFormat(
          "epoch %d of job %s has not ended within %s: %s. The coordinator %s",
          epoch().value, spec().name,
          absl::FormatDuration(spec().timeouts.join), grows.message(),
          ended->connected ? "waits for other ranks" : "is not heard"));
    }
  }
  if (ended->phase == SessionPhase::kEnded) return ended;
  return absl::FailedPreconditionError(
      absl::StrFormat("Recover is for an epoch that has ended: epoch %d %s",
                      epoch().value, IsOver(*ended) ? "was left" : "lives"));
}

absl::StatusOr<Recovery> Session::Impl::Recover() {
  const auto ended = AwaitEnd();
  if (!ended.ok()) return ended.status();
  std::shared_ptr<const StepOwner> owner;
  {
    MutexLock lock(&mutex_);
    owner = step_owner_;
  }
  const bool has_owner = owner != nullptr;
  if (has_owner) {
    if (absl::Status may = owner->may_recover(); !may.ok()) return may;
  }
  // Without an owner, or after it, no step is in progress.
  if (!has_owner)
    Quiesced({.position = {.step = std::max(step(), first_step())}});

  const auto view = event_loop_->Await(
      [](const View& v) {
        return v.recovery || v.job_over || !v.fenced.ok() ||
               !v.forgotten.ok() || v.phase != SessionPhase::kEnded;
      },
      clock_->Now() + spec().timeouts.join);
  // The coordinator's cause also says why nobody goes on.
  if (view->job_over) return StatusOf({view->cause, /*final=*/true});
  if (view->phase != SessionPhase::kEnded) return WhyOver(*view);
  if (!view->recovery && !view->forgotten.ok()) {
    return absl::NotFoundError(
        absl::StrFormat("epoch %d of job %s ended, and nobody can say how "
                        "training goes on: %s. "
                        "The epoch ended because: %s",
                        epoch().value, spec().name, view->forgotten.message(),
                        view->status.message()));
  }
  Recovery recovery{.kind = RecoveryKind::kRestore, .epoch = epoch().value};
  if (view->recovery) {
    recovery.steps = view->recovery->steps;
    auto carried_out = CarryOut(*view->recovery, std::move(recovery));
    if (!carried_out.ok()) return carried_out;
    recovery = *std::move(carried_out);
  } else if (view->fenced.ok()) {
    return absl::DeadlineExceededError(absl::StrFormat(
        "epoch %d of job %s ended, and within %s the coordinator has not said "
        "how training goes on: %s. The epoch ended because: %s",
        epoch().value, spec().name, absl::FormatDuration(spec().timeouts.join),
        view->connected ? "it waits for other ranks" : "it is not heard",
        view->status.message()));
  }
  // Also for a newcomer: if nobody has passed a step, all begin as they are.
  state_.RestoreStepScoped(recovery.steps);
  MutexLock lock(&mutex_);
  recovered_ = true;
  return recovery;
}

absl::StatusOr<Recovery> Session::Impl::CarryOut(
    const protocol::RecoveryDecision& decision, Recovery recovery) {
  protocol::Position position;
  std::shared_ptr<const StepOwner> owner;
  {
    MutexLock lock(&mutex_);
    if (report_) position = report_->position;
    owner = step_owner_;
  }
  const RecoveryPart part = session::PartOf(decision, rank(), position.step);
  if (part == RecoveryPart::kNewcomer) return recovery;
  if (part == RecoveryPart::kStartAgain) {
    // A newcomer that has passed no step may have received some of the state.
    const std::string what =
        position.step > first_step()
            ? absl::StrCat("has passed step ", position.step - 1)
            : absl::StrCat("joined before step ", position.step);
    return absl::FailedPreconditionError(absl::StrFormat(
        "this process %s, and training does not go on from there: job %s "
        "begins with step 0 again, and so must the process",
        what, spec().name));
  }
  recovery.holds_state = true;
  recovery.kind = RecoveryKind::kReplay;
  if (part == RecoveryPart::kRollForward) {
    if (owner == nullptr) {
      return absl::FailedPreconditionError(
          "the GradientSync is to apply one more step, and was destroyed "
          "before Recover");
    }
    auto verdict = owner->roll_forward(decision.verdict);
    if (!verdict.ok()) return verdict.status();
    recovery.kind = RecoveryKind::kRollForward;
    recovery.verdict = *std::move(verdict);
  }
  if (!IsHeld(decision.holders)) recovery.kind = RecoveryKind::kRestore;
  return recovery;
}

// The ranks hold all of the registered state together.
bool Session::Impl::IsHeld(const std::vector<uint32_t>& holders) const {
  const absl::StatusOr<RegisteredState> state = state_.Agreed();
  if (!state.ok()) return true;  // none is registered
  std::vector<int> healthy(holders.begin(), holders.end());
  std::vector<int> lost;
  for (int rank = 0; rank < static_cast<int>(members().size()); ++rank) {
    if (!std::binary_search(healthy.begin(), healthy.end(), rank)) {
      lost.push_back(rank);
    }
  }
  return plan::PlanRecovery(*state->tensors, spec().mesh, lost, healthy).ok();
}

}  // namespace lockstep
