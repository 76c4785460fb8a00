#include "client/gradient/captured_step.h"

namespace lockstep {

CapturedStep::CapturedStep(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
CapturedStep::~CapturedStep() = default;

absl::StatusOr<PendingVerdict> CapturedStep::Launch(
    const FinishOptions& options, Stream& stream) {
  return state_->Launch(options, stream);
}

bool CapturedStep::stale() const { return state_->stale(); }

}  // namespace lockstep
