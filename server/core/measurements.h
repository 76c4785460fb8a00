// What a coordinator is measured by: values for metrics, taken at one moment.
//
// No decision depends on them.

#ifndef LOCKSTEP_SERVER_CORE_MEASUREMENTS_H_
#define LOCKSTEP_SERVER_CORE_MEASUREMENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "protocol/ids.h"
#include "protocol/job_view.h"
#include "protocol/limit_use.h"

namespace lockstep::core {

// A job that is not over.
struct JobMeasurements {
  JobName name;
  JobState state = JobState::kForming;
  EpochId epoch;
  uint64_t steps = 0;  // committed; fewer if an epoch goes back to a checkpoint
  // When a worker first reported the newest step; InfinitePast: not known.
  absl::Time stepped_at = absl::InfinitePast();
  int workers = 0;         // connected
  int workers_wanted = 0;  // the ranks of the mesh
  int stalls = 0;          // stuck or late, and waiting for nobody
  bool paused = false;     // by an operator's wish
  std::optional<int64_t> checkpoint_step;           // of the newest one
  absl::Time checkpoint_at = absl::InfinitePast();  // not known
  uint64_t saves_failed = 0;  // while this coordinator runs
};

struct Measurements {
  std::map<JobState, int> jobs;  // how many are in each state: every state
  std::vector<JobMeasurements> living;  // by name
  std::vector<LimitUse> limits;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_MEASUREMENTS_H_
