#include "client/gradient/tally.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace lockstep::gradient {

Tally::Tally(std::vector<std::string> names, std::vector<int> uses)
    : names_(std::move(names)),
      uses_(std::move(uses)),
      states_(names_.size()) {}

absl::StatusOr<Tally::Submission> Tally::Submit(int parameter) {
  if (parameter < 0 || parameter >= static_cast<int>(states_.size())) {
    return absl::InvalidArgumentError(
        absl::StrFormat("no parameter %d is registered: there are %d",
                        parameter, states_.size()));
  }
  State& state = states_[parameter];
  if (state.complete || state.in_pass == uses_[parameter]) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s was submitted %d times in this backward pass "
                        "already; it has %d use%s",
                        names_[parameter], state.in_pass, uses_[parameter],
                        uses_[parameter] == 1 ? "" : "s"));
  }
  state.in_pass += 1;
  const bool first = !std::exchange(state.ever, true);
  if (!no_sync_ && state.in_pass == uses_[parameter]) {
    state.complete = true;
    completed_.push_back(parameter);
  }
  return Submission{.first = first, .complete = state.complete};
}

absl::Status Tally::BeginNoSync() {
  if (no_sync_) {
    return absl::FailedPreconditionError("NoSync scopes do not nest");
  }
  if (!completed_.empty()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "NoSync after %d gradients of this step were submitted to travel",
        completed_.size()));
  }
  no_sync_ = true;
  return absl::OkStatus();
}

void Tally::EndNoSync() {
  no_sync_ = false;
  for (State& state : states_) state.in_pass = 0;
}

Tally::Incomplete Tally::Finish() {
  Incomplete incomplete;
  for (int p = 0; p < static_cast<int>(states_.size()); ++p) {
    if (states_[p].complete) continue;
    (states_[p].ever ? incomplete.partly : incomplete.never).push_back(p);
  }
  states_.assign(states_.size(), State{});
  completed_.clear();
  return incomplete;
}

std::vector<std::string> Tally::MissingNames(int most) const {
  std::vector<std::string> missing;
  for (size_t p = 0;
       p < states_.size() && static_cast<int>(missing.size()) < most; ++p) {
    if (!states_[p].complete) missing.push_back(names_[p]);
  }
  return missing;
}

}  // namespace lockstep::gradient
