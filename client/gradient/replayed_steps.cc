#include "client/gradient/replayed_steps.h"

#include <utility>

namespace lockstep {

static_assert(ReplayedSteps::kInFlightMax == gradient::StepGate::kDepth - 1);

ReplayedSteps::ReplayedSteps(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
ReplayedSteps::~ReplayedSteps() = default;

absl::Status ReplayedSteps::JoinCapture(Stream& stream) {
  return state_->Explained(state_->engine().JoinCapture(stream));
}

void ReplayedSteps::LeaveCapture() { state_->engine().LeaveCapture(); }

absl::Status ReplayedSteps::SetInput(uint64_t launch,
                                     const FinishOptions& options) {
  return state_->Explained(state_->engine().SetReplayInput(launch, options));
}

absl::StatusOr<ReplayedVerdict> ReplayedSteps::Next(absl::Duration timeout) {
  auto next = state_->engine().replays().Next(timeout);
  if (next.ok() || absl::IsDeadlineExceeded(next.status())) return next;
  return state_->Explained(next.status());
}

uint64_t ReplayedSteps::decided() const {
  return state_->engine().replays().decided();
}

}  // namespace lockstep
