#include "server/core/restart_budget.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/core/status_text.h"

namespace lockstep::core {

std::optional<std::string> RestartBudget::Spend(absl::Time now,
                                                std::optional<uint64_t> step,
                                                const protocol::Cause& cause) {
  if (limits_.max_restarts == 0) return "";

  if (!step || step != failing_step_) failures_.clear();
  failing_step_ = step;
  if (step) failures_.push_back(cause.message);
  if (failures_.size() == kSameStepMax) {
    return absl::StrFormat("step %d failed %s: %s", *step,
                           Count(failures_.size(), "time"),
                           absl::StrJoin(failures_, "; "));
  }

  while (!restarts_.empty() &&
         restarts_.front() + limits_.restart_window <= now) {
    restarts_.pop_front();
  }
  if (static_cast<int>(restarts_.size()) >= limits_.max_restarts) {
    return absl::StrFormat("%s within %s were used up (limits.max_restarts)",
                           Count(limits_.max_restarts, "restart"),
                           HowLong(limits_.restart_window));
  }
  restarts_.push_back(now);
  return std::nullopt;
}

void RestartBudget::Correct(uint64_t step) {
  if (!failing_step_ || step <= *failing_step_) return;
  failing_step_ = step;
  failures_.erase(failures_.begin(), failures_.end() - 1);
}

}  // namespace lockstep::core
