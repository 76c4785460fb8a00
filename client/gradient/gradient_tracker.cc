#include "client/gradient/gradient_tracker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/text/count.h"

namespace lockstep::gradient {

GradientTracker::GradientTracker(std::vector<std::string> names,
                                 std::vector<int> uses, Expects expects)
    : names_(std::move(names)), uses_(std::move(uses)), expects_(expects) {
  completed_.reserve(names_.size());
  BeginStep();
}

void GradientTracker::BeginStep() {
  states_.assign(names_.size(), State{.expected = expects_ == Expects::kAll});
  completed_.clear();
  has_begun_ = false;
}

absl::Status GradientTracker::CheckKnown(int parameter) const {
  if (parameter >= 0 && parameter < static_cast<int>(states_.size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("no parameter %d is registered: there are %d", parameter,
                      states_.size()));
}

absl::Status GradientTracker::BeginPass(const std::vector<int>& parameters) {
  if (has_begun_) {
    return absl::FailedPreconditionError("the pass was begun before");
  }
  std::vector<bool> expected(states_.size());
  for (const int parameter : parameters) {
    if (absl::Status known = CheckKnown(parameter); !known.ok()) return known;
    if (expected[parameter]) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s is announced twice", names_[parameter]));
    }
    expected[parameter] = true;
  }
  has_begun_ = true;
  for (size_t p = 0; p < states_.size(); ++p) {
    states_[p].expected = expected[p];
  }
  return absl::OkStatus();
}

absl::StatusOr<GradientTracker::Submission> GradientTracker::Submit(
    int parameter, bool from_buffer) {
  if (absl::Status known = CheckKnown(parameter); !known.ok()) return known;
  State& state = states_[parameter];
  if (!state.expected) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s is submitted, but BeginPass did not announce it in "
                        "this pass",
                        names_[parameter]));
  }
  if (state.complete) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s was submitted %s in this backward pass already, for all of "
        "its uses, or for all leaves of this rank (reproducible.leaves)",
        names_[parameter], Count(state.in_pass, "time")));
  }
  if (!no_sync_) state.in_pass += 1;
  const bool first = !std::exchange(state.ever, true);
  if (first) state.sum_in_view = from_buffer;
  if (!no_sync_ && state.in_pass == uses_[parameter]) {
    state.complete = true;
    completed_.push_back(parameter);
  }
  return Submission{.first = first, .complete = state.complete};
}

absl::Status GradientTracker::BeginNoSync() {
  if (no_sync_) {
    return absl::FailedPreconditionError("NoSync scopes do not nest");
  }
  if (!completed_.empty()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "NoSync in a step in which gradients are complete already, %s among "
        "them: only the last backward pass of a step is outside of NoSync",
        names_[completed_.front()]));
  }
  no_sync_ = true;
  return absl::OkStatus();
}

void GradientTracker::EndNoSync() {
  no_sync_ = false;
  for (State& state : states_) state.in_pass = 0;
}

GradientTracker::Incomplete GradientTracker::Finish() {
  Incomplete incomplete;
  for (int p = 0; p < static_cast<int>(states_.size()); ++p) {
    if (states_[p].complete || !states_[p].expected) continue;
    (states_[p].ever ? incomplete.partly : incomplete.never).push_back(p);
  }
  BeginStep();
  return incomplete;
}

bool GradientTracker::is_in_step() const {
  return has_begun_ ||
         std::any_of(states_.begin(), states_.end(),
                     [](const State& state) { return state.ever; });
}

std::vector<int> GradientTracker::Resting() const {
  std::vector<int> resting;
  for (int p = 0; p < static_cast<int>(states_.size()); ++p) {
    const State& state = states_[p];
    if (!state.complete && (state.expected || !has_begun_)) {
      resting.push_back(p);
    }
  }
  return resting;
}

std::vector<std::string> GradientTracker::MissingNames(int most) const {
  std::vector<std::string> missing;
  for (size_t p = 0;
       p < states_.size() && static_cast<int>(missing.size()) < most; ++p) {
    const State& state = states_[p];
    if (state.expected && !state.complete) missing.push_back(names_[p]);
  }
  return missing;
}

}  // namespace lockstep::gradient
