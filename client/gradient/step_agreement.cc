#include "client/gradient/step_agreement.h"

#include <cstring>

#include "absl/strings/str_format.h"
#include "client/gradient/ending.h"

namespace lockstep::gradient {

using protocol::Phase;

bool StepAgreement::Pass(uint64_t step, const SummaryVectors& reduced,
                         bool last) {
  {
    MutexLock lock(&mutex_);
    verdicts_[(step + 1) % verdicts_.size()].assign(
        reinterpret_cast<const char*>(&reduced), sizeof reduced);
  }
  return state_.Pass(step, last);
}

protocol::EpochReport StepAgreement::Report() {
  protocol::EpochReport report;
  report.position = state_.Quiesce();
  MutexLock lock(&mutex_);
  report.verdict = verdicts_[report.position.step % verdicts_.size()];
  return report;
}

std::string StepAgreement::LastVerdict() {
  const uint64_t steps = state_.steps();
  MutexLock lock(&mutex_);
  return verdicts_[steps % verdicts_.size()];
}

absl::StatusOr<Verdict> StepAgreement::RollForward(const std::string& verdict,
                                                   const StepId& step_id,
                                                   int world_size,
                                                   const UpdateTerms& mine,
                                                   Uneven uneven) const {
  const protocol::Position at = state_.position();
  if (at.phase != Phase::kVerdict || at.step != step_id.step) {
    return absl::FailedPreconditionError(
        "a rank rolls forward when it waits for a verdict in an epoch that "
        "has ended");
  }
  SummaryVectors vectors;
  if (verdict.size() != sizeof vectors) {
    return absl::DataLossError(
        absl::StrFormat("a verdict has %d bytes, the one to roll forward with "
                        "has %d",
                        sizeof vectors, verdict.size()));
  }
  std::memcpy(&vectors, verdict.data(), sizeof vectors);
  absl::StatusOr<Verdict> passed = Decode(step_id, world_size, mine, vectors);
  if (!passed.ok()) {
    return absl::DataLossError(absl::StrFormat(
        "step %d cannot be rolled forward with another rank's verdict: %s",
        at.step, passed.status().message()));
  }
  passed->ending = EndingOf(*passed, uneven);
  return passed;
}

}  // namespace lockstep::gradient
