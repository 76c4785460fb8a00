// The checkpoints that a job has made, for its view: over all epochs, while
// this coordinator runs.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_CHECKPOINT_HISTORY_H_
#define LOCKSTEP_SERVER_CORE_CHECKPOINT_HISTORY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "lockstep/checkpoint_name.h"
#include "protocol/job_view.h"

namespace lockstep::core {

struct CheckpointHistory {
  // The newest that rank 0 found in the directory, or that was committed since.
  std::optional<CheckpointName> committed;
  absl::Time committed_at = absl::InfinitePast();  // unknown
  std::string failure;  // of the newest save that failed
  int64_t failed_step = 0;
  absl::Time failed_at = absl::InfinitePast();
  uint64_t failures = 0;

  // Without the save in progress. `journaled`: from the durable state.
  CheckpointView View(const std::optional<CheckpointName>& journaled,
                      absl::Time now) const {
    CheckpointView view;
    view.committed = committed ? committed : journaled;
    if (view.committed) view.committed_ago = now - committed_at;
    view.failure = failure;
    if (!failure.empty()) {
      view.failed_step = failed_step;
      view.failed_ago = now - failed_at;
    }
    return view;
  }
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_CHECKPOINT_HISTORY_H_
