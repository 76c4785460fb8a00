// How the ranks of an epoch progress, as they report it: positions, lags, and
// what differs between ranks.
//
//   Progress ──▶ ProgressTracker, StragglerTracker, UnsubmittedTracker
//   Busy     ──▶ ProgressTracker
//   ValueDigests ──▶ ValueDigestTracker
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_STEP_MONITOR_H_
#define LOCKSTEP_SERVER_CORE_STEP_MONITOR_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/job_spec.h"
#include "plan/ir.h"
#include "protocol/progress.h"
#include "server/core/epoch_context.h"
#include "server/core/progress_tracker.h"
#include "server/core/straggler_tracker.h"
#include "server/core/unsubmitted_tracker.h"
#include "server/core/value_digest_tracker.h"

namespace lockstep::core {

class StepMonitor {
 public:
  // All ranks of the world begin at `first_step`.
  StepMonitor(int world, absl::Duration progress_timeout, uint64_t first_step,
              absl::Time now)
      : first_step_(first_step),
        progress_(world, progress_timeout, now, first_step),
        values_(world) {}

  // --- Messages ---

  void On(int rank, const protocol::Progress& message, EpochContext& context);
  void On(int rank, const protocol::Busy& message, EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::ValueDigests& message,
                             const plan::Plan& plan, EpochContext& context);

  // Warnings about parameters that ranks do not submit and about differing
  // values, once every rank has reported, or `at_once`. Each is returned once.
  std::vector<std::string> TakeWarnings(bool at_once);

  // --- Time ---

  // Restarts all deadlines: the coordinator was not running for a while.
  void BeginAnew(absl::Time now) {
    progress_.BeginAnew(now);
    lags_.BeginAnew(now);
  }
  absl::Time NextDue() const {
    return std::min(progress_.NextDue(), lags_.NextDue());
  }

  // --- Parts ---

  ProgressTracker& progress() { return progress_; }
  const ProgressTracker& progress() const { return progress_; }
  StragglerTracker& lags() { return lags_; }
  const StragglerTracker& lags() const { return lags_; }

 private:
  // Every present rank satisfies it. `has_said` takes the rank and its step.
  template <typename Predicate>
  bool All(const Predicate& has_said) const;

  const uint64_t first_step_;
  ProgressTracker progress_;
  StragglerTracker lags_;
  UnsubmittedTracker unsubmitted_;
  ValueDigestTracker values_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_STEP_MONITOR_H_
