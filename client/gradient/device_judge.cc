#include "client/gradient/device_judge.h"

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "client/gradient/disagreement.h"

namespace lockstep::gradient {

DeviceDecision DeviceJudge::Read(PendingVerdict::State& step,
                                 const absl::Status& ran) {
  DeviceDecision decision;
  if (!ran.ok()) {
    decision.verdict = ran;
    return decision;
  }
  const auto outcome = gate_.Find(step.launch, step.step_id);
  if (outcome) {
    decision.is_void = outcome->is_void;
    decision.contributed = outcome->contributed;
    if (!outcome->passed && !outcome->is_void) gate_failed_ = true;
  }
  decision.verdict = VerdictOf(step, outcome, &decision.communicator);
  return decision;
}

std::optional<DeviceDecision> DeviceJudge::Await(PendingVerdict::State& step,
                                                 const absl::Status& why,
                                                 absl::Duration timeout) {
  // No gate behind one that fails passes, and the journal does not have it.
  if (gate_failed_) return Read(step, why);
  const Deadline deadline(timeout);
  while (!gate_.Find(step.launch, step.step_id)) {
    if (deadline.Passed() || !LostDevice().ok()) return std::nullopt;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return Read(step, absl::OkStatus());
}

absl::Status DeviceJudge::LostDevice() {
  const absl::Status probed = gate_.Probe(compute_, absl::Milliseconds(100));
  return absl::IsDeadlineExceeded(probed) ? absl::OkStatus() : probed;
}

absl::StatusOr<Verdict> DeviceJudge::VerdictOf(
    PendingVerdict::State& step,
    const std::optional<StepGate::Outcome>& outcome, int* communicator) {
  const bool all_spoke = outcome && outcome->invalid_rank < 0;
  if (all_spoke) {
    if (!outcome->ranks_differ.ok()) return outcome->ranks_differ;
    step.vectors = outcome->summaries;
    step.loss_scale = outcome->loss_scale;
    absl::StatusOr<Verdict> judged =
        Decode(step.step_id, executor_.communicator(0)->size(), step.terms(),
               step.vectors);
    if (outcome->passed || !judged.ok()) return judged;
  }
  int failed = -1;
  if (const absl::Status sent = executor_.FirstError(&failed); !sent.ok()) {
    *communicator = failed;
    return sent;
  }
  return WhyNot(step, outcome, communicator);
}

absl::Status DeviceJudge::WhyNot(
    const PendingVerdict::State& step,
    const std::optional<StepGate::Outcome>& outcome, int* communicator) {
  const StepId& id = step.step_id;
  *communicator = -1;
  if (outcome && outcome->out_of_step) {
    return OfAllRanks(absl::AbortedError(absl::StrFormat(
        "ranks are out of step: this rank ends step %d of epoch %d, revision "
        "%d, and rank %d does not",
        id.step, id.epoch.value, id.revision.value, outcome->invalid_rank)));
  }
  if (outcome && outcome->tile_is_damaged) {
    return absl::AbortedError(absl::StrFormat(
        "step %d: this rank's device has lost what it had verified of the "
        "records from rank %d on; check the GPU's memory",
        id.step, outcome->invalid_rank));
  }
  *communicator = 0;
  if (outcome && outcome->invalid_rank >= 0) {
    return absl::AbortedError(
        absl::StrFormat("rank %d has ended the epoch in step %d",
                        outcome->invalid_rank, id.step));
  }
  return absl::AbortedError(
      absl::StrFormat("the device did not decide step %d", id.step));
}

}  // namespace lockstep::gradient
