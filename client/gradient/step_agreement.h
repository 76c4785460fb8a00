// What one rank does so that all ranks apply the same steps: it passes
// verdicts, or quiesces and reports; and it passes a step with the verdict that
// another rank reports.
//
//   Enter(kVerdict) ─▶ Pass(step, reduced) ─▶ Enter ... ─▶ Quiesce
//                                                            │ Report
//                      RollForward(bytes of another rank) ◀──┘
//
// The gradients, the transfers and the threads are the engine's (engine.h). The
// simulation (tests/sim) runs this class, too.
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_CLIENT_GRADIENT_STEP_AGREEMENT_H_
#define LOCKSTEP_CLIENT_GRADIENT_STEP_AGREEMENT_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/gradient/step_state.h"
#include "client/gradient/step_summary.h"
#include "lockstep/job_options.h"
#include "lockstep/verdict.h"
#include "protocol/evidence.h"
#include "protocol/types.h"

namespace lockstep::gradient {

class StepAgreement {
 public:
  explicit StepAgreement(uint64_t steps) : state_(steps) {}

  // As StepState.
  uint64_t steps() const { return state_.steps(); }
  protocol::Position position() const { return state_.position(); }
  void Enter(protocol::Phase phase) { state_.Enter(phase); }
  void Quiesce() { state_.Quiesce(); }

  // The verdict of `step`, whose reduced vectors are `reduced`, passes: see
  // StepState::Pass. Its bytes are kept for Report.
  bool Pass(uint64_t step, const SummaryVectors& reduced, bool last);

  // Quiesces. The position does not change any more; `holds_state` is not set.
  protocol::EpochReport Report();

  // The bytes of the verdict of the last step that passed here; empty: none.
  std::string LastVerdict();

  // The verdict of the step in progress from the bytes that another rank
  // reported; `step_id` and `mine` are those that this rank contributed. The
  // gradients of the step are reduced. FailedPrecondition unless this rank
  // waits for a verdict; DataLoss if the bytes are of another step.
  absl::StatusOr<Verdict> RollForward(const std::string& verdict,
                                      const StepId& step_id, int world_size,
                                      const UpdateTerms& mine,
                                      Uneven uneven) const;

 private:
  StepState state_;
  Mutex mutex_;
  // By the parity of the steps passed with them: the last one that passed and
  // the one being judged, since Report may run as soon as it has passed.
  std::array<std::string, 2> verdicts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_STEP_AGREEMENT_H_
