// What the device has decided of a step, as the step gate's journal tells it
// (step_gate.h), and what it means for this rank: the step's verdict, or why it
// has none.
//
//   the launch has ended        ─▶ Read  ─▶ its decision
//   nothing tells when it does  ─▶ Await ─▶ its decision, or none: this rank
//                                           does not know its position
//
// Threads: Read and Await on ls-verdict, and on ls-replay for launches by the
//          program; an eager step waits until those are read, so that they are
//          called by one at a time. LostDevice any.

#ifndef LOCKSTEP_CLIENT_GRADIENT_DECISION_READER_H_
#define LOCKSTEP_CLIENT_GRADIENT_DECISION_READER_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/executor/executor.h"
#include "client/gradient/pending.h"
#include "client/gradient/step_gate.h"
#include "client/transport/device_context.h"
#include "lockstep/gradient_sync.h"

namespace lockstep::gradient {

struct DeviceDecision {
  // Behind a step that ran out of data: it changes nothing.
  bool is_void = false;
  // This rank's record was valid: peers may pass the step with it.
  bool contributed = false;
  absl::StatusOr<Verdict> verdict;
  // The communicator that failed; -1: none (this rank, or ranks differ).
  int communicator = -1;
};

class DecisionReader {
 public:
  // All outlive it.
  DecisionReader(StepGate* gate, transport::DeviceContext* compute,
                 executor::Executor* executor)
      : gate_(*gate), compute_(*compute), executor_(*executor) {}

  // The device has ended the launch, or `ran` says why its end is not known.
  DeviceDecision Read(PendingVerdict::State& step, const absl::Status& ran);
  // The launch may run, and no event tells when it has ended, because of
  // `why`. Asks the journal until `timeout`, or until the device is lost.
  std::optional<DeviceDecision> Await(PendingVerdict::State& step,
                                      const absl::Status& why,
                                      absl::Duration timeout);
  // Why every later call of the device fails. OK: it has answered within
  // `patience`, or it has not, or there was no memory to ask it.
  absl::Status LostDevice(absl::Duration patience);

 private:
  absl::StatusOr<Verdict> VerdictOf(
      PendingVerdict::State& step,
      const std::optional<StepGate::Outcome>& outcome, int* communicator);
  static absl::Status WhyNot(const PendingVerdict::State& step,
                             const std::optional<StepGate::Outcome>& outcome,
                             int* communicator);

  StepGate& gate_;
  transport::DeviceContext& compute_;
  executor::Executor& executor_;
  bool gate_failed_ = false;  // no gate behind it passes
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_DECISION_READER_H_
