#include "client/gradient/decision_reader.h"

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "client/gradient/disagreement.h"
#include "client/gradient/step_summary.h"

namespace lockstep::gradient {
namespace {

// How long a device may take to answer whether it runs anything.
constexpr absl::Duration kPatience = absl::Milliseconds(100);

}  // namespace

DeviceDecision DecisionReader::Read(PendingVerdict::State& step,
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
  decision.verdict =
      decision.is_void
          ? absl::AbortedError(absl::StrFormat(
                "step %d was enqueued behind the last one", step.step_id.step))
          : VerdictOf(step, outcome, &decision.communicator);
  return decision;
}

std::optional<DeviceDecision> DecisionReader::Await(PendingVerdict::State& step,
                                                    const absl::Status& why,
                                                    absl::Duration timeout) {
  // The journal does not have it.
  if (gate_failed_) return Read(step, why);
  const Deadline deadline(timeout);
  while (!gate_.Find(step.launch, step.step_id)) {
    if (deadline.Passed() || !LostDevice(kPatience).ok()) return std::nullopt;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return Read(step, absl::OkStatus());
}

absl::Status DecisionReader::LostDevice(absl::Duration patience) {
  const absl::Status probed = gate_.Probe(compute_, patience);
  return absl::IsDeadlineExceeded(probed) ? absl::OkStatus() : probed;
}

absl::StatusOr<Verdict> DecisionReader::VerdictOf(
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

absl::Status DecisionReader::WhyNot(
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
