#include "client/gradient/record_lane.h"

namespace lockstep::gradient {

kernels::GateContext RecordLane::ContextOf(const Captured& step) const {
  return step.replay ? *step.replay : options_.gate->ContextOf(step.revision);
}

absl::Status RecordLane::Write(KernelQueue& kernel_queue) {
  if (Captured* const step = capturing_; step != nullptr) {
    options_.gate->WriteRecord(kernel_queue, ContextOf(*step));
    return kernel_queue.status();
  }
  written_ = Event();
  verdict_ = options_.take();
  if (verdict_ == nullptr) {
    return absl::CancelledError("the step was given up");
  }
  StepSummary summary = verdict_->OwnSummary();
  options_.enter(*verdict_, &summary);
  const Revision revision = verdict_->step_id.revision;
  options_.gate->Seal(verdict_->launch, revision, summary);
  options_.gate->WriteRecord(kernel_queue, options_.gate->ContextOf(revision));
  written_ = kernel_queue.Done();
  return kernel_queue.status();
}

absl::Status RecordLane::Read(KernelQueue& kernel_queue) {
  if (Captured* const step = capturing_; step != nullptr) {
    options_.gate->Decide(kernel_queue, ContextOf(*step),
                          step->capturing().scalars);
    const Event decided = kernel_queue.Done();
    if (!kernel_queue.status().ok()) return kernel_queue.status();
    step->capturing().verdict_captured.set_value(decided);
    return absl::OkStatus();
  }
  options_.gate->Decide(kernel_queue,
                        options_.gate->ContextOf(verdict_->step_id.revision),
                        options_.gate->ScalarsOf(verdict_->launch));
  const Event decided = kernel_queue.Done();
  options_.gate->ClearLaterScalars(kernel_queue, verdict_->launch);
  if (!kernel_queue.status().ok()) return kernel_queue.status();
  const Pending verdict = std::exchange(verdict_, nullptr);
  // First: once its stream is released, the caller may launch a graph, whose
  // step is watched behind this one.
  watch_.Add({verdict, written_, decided});
  options_.enqueued(verdict, decided);
  return absl::OkStatus();
}

// A completed wait does not mean success: a stream continues after an abort.
void RecordLane::Await(const VerdictWatch::EnqueuedStep& step) {
  const bool is_eager = step.written.state() != nullptr;
  const absl::Status written = is_eager            ? step.written.Wait()
                               : step.decided.ok() ? step.decided->Wait()
                                                   : step.decided.status();
  if (written.ok()) {
    int communicator = -1;
    const absl::Status sent = options_.executor->FirstError(&communicator);
    if (!sent.ok()) options_.on_failure(communicator, sent);
    // It was not set when the record was written, either.
    if (sent.ok() && !options_.gate->stopped()) options_.contributed();
  }
  if (!step.decided.ok()) {
    // The gate may be enqueued, and have run.
    options_.on_failure(step.communicator, step.decided.status());
    return options_.ended(step.verdict, written);
  }
  const absl::Status ran = step.decided->Wait();
  const bool is_unseen = !ran.ok() && !is_eager;
  (is_unseen ? options_.unseen : options_.ended)(step.verdict, ran);
}

void RecordLane::Failed(const plan::Transfer&, int communicator,
                        const absl::Status& error) {
  if (Captured* const step = capturing_; step != nullptr) {
    return step->capturing().verdict_captured.set_value(error);
  }
  // No pending verdict: the step was given up.
  const Pending verdict = std::exchange(verdict_, nullptr);
  if (verdict == nullptr) return;
  // The watch ends the epoch, once it knows whether this rank has contributed:
  // peers may pass with its record.
  watch_.Add({.verdict = verdict,
              .written = written_,
              .decided = error,
              .communicator = communicator});
}

}  // namespace lockstep::gradient
