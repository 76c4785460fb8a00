#include "client/gradient/record_lane.h"

namespace lockstep::gradient {

absl::Status RecordLane::Write(KernelQueue& kernel_queue) {
  if (Captured* const step = capturing_; step != nullptr) {
    options_.gate->WriteRecord(kernel_queue, step->revision);
    return kernel_queue.status();
  }
  verdict_ = options_.take();
  if (verdict_ == nullptr) {
    return absl::CancelledError("the step was given up");
  }
  StepSummary summary = verdict_->OwnSummary();
  verdict_->step_id = options_.enter(&summary);
  const Revision revision = verdict_->step_id.revision;
  options_.gate->Seal(verdict_->launch, revision, summary);
  options_.gate->WriteRecord(kernel_queue, revision);
  written_ = kernel_queue.Done();
  return kernel_queue.status();
}

absl::Status RecordLane::Read(KernelQueue& kernel_queue) {
  if (Captured* const step = capturing_; step != nullptr) {
    options_.gate->Decide(kernel_queue, step->revision,
                          &step->scalars.as<VerdictScalars>()[0]);
    if (!kernel_queue.status().ok()) return kernel_queue.status();
    step->verdict_captured.set_value(kernel_queue.Done());
    return absl::OkStatus();
  }
  options_.gate->Decide(kernel_queue, verdict_->step_id.revision,
                        options_.gate->ScalarsOf(verdict_->launch));
  const Event decided = kernel_queue.Done();
  // A program that does not wait for the next step before it launches its
  // update finds that it may not update.
  kernel_queue.Zero(options_.gate->ScalarsOf(verdict_->launch + 1),
                    sizeof(VerdictScalars));
  if (!kernel_queue.status().ok()) return kernel_queue.status();
  Await(std::exchange(verdict_, nullptr), decided);
  return absl::OkStatus();
}

// A completed wait does not mean success: a stream continues after an abort.
void RecordLane::Await(const Pending& verdict, const Event& decided) {
  options_.enqueued(verdict, decided);
  if (written_.Wait().ok()) {
    int communicator = -1;
    const absl::Status sent = FirstError(*options_.executor, &communicator);
    if (!sent.ok()) options_.on_failure(communicator, sent);
    // It was not set when the record was written, either.
    if (sent.ok() && !options_.gate->stopped()) options_.contributed();
  }
  options_.ended(verdict, decided.Wait());
}

void RecordLane::Failed(const plan::Transfer&, int communicator,
                        const absl::Status& error) {
  if (Captured* const step = capturing_; step != nullptr) {
    return step->verdict_captured.set_value(error);
  }
  // No pending verdict: the step was given up.
  const Pending verdict = std::exchange(verdict_, nullptr);
  if (verdict == nullptr) return;
  options_.on_failure(communicator, error);
  options_.ended(verdict, written_.Wait());
}

}  // namespace lockstep::gradient
