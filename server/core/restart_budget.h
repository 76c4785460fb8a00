// Limits how often a job may form again after an epoch ended.
//
//   max_restarts 2, window   |<-------- restart_window -------->|
//   ends                          x          x          x
//                             restart    restart     the job fails
//
// A step that fails kSameStepMax times in a row fails the job regardless of the
// budget, since it would fail again.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_RESTART_BUDGET_H_
#define LOCKSTEP_SERVER_CORE_RESTART_BUDGET_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/job_spec.h"
#include "protocol/types.h"

namespace lockstep::core {

inline constexpr size_t kSameStepMax = 3;

class RestartBudget {
 public:
  explicit RestartBudget(const JobLimits& limits) : limits_(limits) {}

  // An epoch ended at `step`, counted over the life of the job (nullopt if no
  // epoch was running). Takes one restart and returns nullopt, or returns the
  // reason why the job may not form again, which is empty for a job that never
  // restarts.
  std::optional<std::string> Spend(absl::Time now, std::optional<uint64_t> step,
                                   const protocol::Cause& cause);

  // Survivors have reported since that the epoch reached this step.
  void Correct(uint64_t step);

 private:
  JobLimits limits_;
  std::deque<absl::Time> restarts_;
  std::optional<uint64_t> failing_step_;
  std::vector<std::string> failures_;  // causes at failing_step_
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_RESTART_BUDGET_H_
