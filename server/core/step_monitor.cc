#include "server/core/step_monitor.h"

#include <utility>

#include "server/core/commands.h"

namespace lockstep::core {

void StepMonitor::On(int rank, const protocol::Progress& message,
                     EpochContext& context) {
  const bool all_paused = progress_.all_paused();
  if (progress_.Update(rank, message, context.now())) {
    context.RememberItGoesOn(rank);
  }
  lags_.Update(rank, message, context.now());
  unsubmitted_.Update(rank, message);
  if (progress_.all_paused() && !all_paused) {
    context.Remember(AllRanks(Command::kPause, message.position.step));
  }
}

void StepMonitor::On(int rank, const protocol::Busy& message,
                     EpochContext& context) {
  progress_.SetBusy(rank, message, context.now());
}

std::optional<EpochEnd> StepMonitor::On(int rank,
                                        const protocol::ValueDigests& message,
                                        const plan::Plan& plan,
                                        EpochContext& context) {
  if (values_.Add(rank, message, plan)) return std::nullopt;
  return context.Mismatch(rank, "has values of parameters that are not there");
}

template <typename Predicate>
bool StepMonitor::All(const Predicate& has_said) const {
  for (int rank = 0; rank < progress_.size(); ++rank) {
    const RankProgress& standing = progress_.of(rank);
    if (standing.present && !has_said(rank, standing.position.step)) {
      return false;
    }
  }
  return true;
}

// A rank that is beyond a step has sent all its reports about it.
std::vector<std::string> StepMonitor::TakeWarnings(bool at_once) {
  std::vector<std::string> warnings;
  const uint64_t step = unsubmitted_.step();
  if (unsubmitted_.has_news() &&
      (at_once || All([step](int, uint64_t at) { return at > step; }))) {
    std::string text = unsubmitted_.Take();
    if (!text.empty()) warnings.push_back(std::move(text));
  }
  const auto has_said = [this](int rank, uint64_t at) {
    return at > first_step_ || values_.Has(rank);
  };
  if (values_.has_news() && (at_once || All(has_said))) {
    warnings.push_back(values_.Take());
  }
  return warnings;
}

}  // namespace lockstep::core
