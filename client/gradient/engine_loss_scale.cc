// The host's side of the loss scale on the device: what it was in each step
// that has passed, from the journal, and how it begins.

#include "client/gradient/engine.h"
#include "client/gradient/loss_scale.h"

namespace lockstep::gradient {

absl::Status Engine::CheckScalesLoss() const {
  if (options_.loss_scale) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the loss is not scaled on the device: call ScaleLossOnDevice before "
      "Seal");
}

absl::StatusOr<const LossScale*> Engine::DeviceAddressOfLossScale() const {
  if (absl::Status scales = CheckScalesLoss(); !scales.ok()) return scales;
  return gate_of_steps_->loss_scale();
}

absl::StatusOr<LossScale> Engine::loss_scale() {
  if (absl::Status scales = CheckScalesLoss(); !scales.ok()) return scales;
  MutexLock lock(&mutex_);
  return *loss_scale_;
}

absl::Status Engine::SetLossScale(const LossScale& scale) {
  absl::Status may = CheckScalesLoss();
  if (may.ok()) may = CheckLossScale(options_.loss_scale->rule, scale);
  if (may.ok()) may = AwaitReplaysRead();
  if (may.ok()) may = CheckBetweenSteps(/*in_flight_max=*/0);
  if (!may.ok()) return may;
  if (absl::Status set = gate_of_steps_->SetLossScale(compute_, scale);
      !set.ok()) {
    Fail(-1, set);
    return set;
  }
  MutexLock lock(&mutex_);
  loss_scale_ = scale;
  return absl::OkStatus();
}

// Whatever the program has done to the memory, the gate continued with what the
// records say.
void Engine::AdvanceLossScale(const PendingVerdict::State& verdict,
                              Verdict* passed) {
  if (!verdict.loss_scale) return;
  passed->next_loss_scale = kernels::NextLossScale(
      options_.loss_scale->rule, *verdict.loss_scale, passed->finite);
  MutexLock lock(&mutex_);
  loss_scale_ = passed->next_loss_scale;
}

}  // namespace lockstep::gradient
