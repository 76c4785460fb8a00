// The operator's view of a job: the answer of `lockstepctl describe`.
//
// Values, filled by the core and printed by tools; no decision depends on them.

#ifndef LOCKSTEP_PROTOCOL_JOB_VIEW_H_
#define LOCKSTEP_PROTOCOL_JOB_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/checkpoint_name.h"
#include "lockstep/job_spec.h"
#include "protocol/ids.h"
#include "protocol/parameter.h"
#include "protocol/types.h"

namespace lockstep {

enum class JobState : uint8_t {
  kForming = 1,  // workers arrive
  kSealed = 2,   // all ranks are present and register parameters
  kPlanned = 3,  // the plan was sent; handles are exchanged
  kRunning = 4,
  kEpochEnded = 5,  // a worker was lost; the next epoch forms
  kCompleted = 6,
  kFailed = 7,
  kStopped = 8,
};

enum class WorkerState : uint8_t {
  kJoining = 1,  // arrived; the data plane is not connected yet
  kReady = 2,    // connected: trains, or can
  kSuspect = 3,  // its stream broke; it may resume
  kLost = 4,
  kLeft = 5,
  // In views only: joined, and no rank is free for it. It joins the next epoch
  // that has a place: a spare, or a worker that makes an elastic job larger.
  kWaiting = 6,
};

std::string_view Name(JobState state);     // "forming", "running", ...
std::string_view Name(WorkerState state);  // "ready", "suspect", ...
std::string_view Name(Overlap overlap);    // "inline", "thread", "auto"

struct WorkerView {
  WorkerName name;
  Generation generation;
  WorkerState state = WorkerState::kJoining;
  int rank = -1;  // -1: not assigned yet
  std::vector<int> coordinates;
  protocol::ProcessInfo process;
  protocol::Position position;
  double step_seconds = 0;
  double exposed_seconds = 0;  // of these, waiting for communication
  Overlap overlap =
      Overlap::kAuto;         // executor of its transfers; kAuto: no step yet
  absl::Duration silent_for;  // since its last message
  absl::Duration no_progress_for;  // since its position last changed
  std::string busy;                // its reason for no progress, if it gave one
  Revision revision;               // of the plan in use
  bool paused = false;
  // The mean delay of its last gradient behind the first rank's, over the last
  // steps; 0 if it is never last.
  double lag_seconds = 0;
  std::string memory;  // as in Progress
  bool operator==(const WorkerView&) const = default;
};

// `waiter` cannot continue before `waited_for` does.
struct WaitView {
  WorkerName waiter;
  WorkerName waited_for;
  std::string why;  // "has not submitted layers.7.weight"
  bool operator==(const WaitView&) const = default;
};

struct BucketView {
  std::string communicator;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kMean;
  int64_t bytes = 0;
  std::vector<std::string> parameters;
  bool operator==(const BucketView&) const = default;
};

// What stalls the job now, as a sentence. `worker` waits for nobody, and others
// wait for it; empty: the sentence is about no worker alone.
struct StallView {
  WorkerName worker;
  std::string text;
  bool operator==(const StallView&) const = default;
};

// A worker that ranks waited for in the running epoch, and the total time.
struct LagView {
  WorkerName worker;      // the late worker
  std::string parameter;  // the gradient that it submitted last
  double seconds = 0;
  bool operator==(const LagView&) const = default;
};

// A line of the job's history.
struct EventView {
  absl::Duration ago;
  std::string text;
  bool operator==(const EventView&) const = default;
};

// The checkpoints of a job. A time of infinity: before the coordinator began.
struct CheckpointView {
  std::optional<CheckpointName> committed;  // the newest
  absl::Duration committed_ago;
  bool saving = false;      // a save is in progress:
  int64_t saving_step = 0;  // of it, with the next three fields
  uint64_t bytes_done = 0;  // of all ranks
  uint64_t bytes_total = 0;
  absl::Duration saving_for;
  std::string failure;  // of the newest save that failed; empty: none did
  int64_t failed_step = 0;
  absl::Duration failed_ago;
  bool operator==(const CheckpointView&) const = default;

  bool empty() const { return *this == CheckpointView(); }
  double bytes_per_second() const {
    const double seconds = absl::ToDoubleSeconds(saving_for);
    return seconds > 0 ? static_cast<double>(bytes_done) / seconds : 0;
  }
};

struct JobView {
  JobSpec spec;
  // The spec's name; "digits#1" for a finished job whose name was reused.
  JobName name;
  JobState state = JobState::kForming;
  EpochId epoch;
  Revision revision;
  std::string plan_digest;
  int missing = 0;                  // ranks without a worker
  std::vector<WorkerView> workers;  // by rank, then by name
  std::vector<Parameter> parameters;
  std::vector<BucketView> buckets;
  std::vector<WaitView> waits;
  std::vector<StallView> stalls;      // one for each stuck worker
  std::vector<LagView> lags;          // the longest first, at most 8
  protocol::DesiredCommands wanted;   // by an operator, and not done yet
  protocol::Cause cause;              // of the last epoch's end
  std::vector<EventView> events;      // the newest 100, oldest first
  uint64_t step = 0;                  // the highest that any worker reported
  std::vector<std::string> warnings;  // the newest 16, oldest first
  CheckpointView checkpoint;
  bool operator==(const JobView&) const = default;
};

// A line of `lockstepctl jobs`.
struct JobSummary {
  JobName name;
  JobState state = JobState::kForming;
  EpochId epoch;
  int ready = 0;
  int world_size = 0;
  uint64_t step = 0;  // the highest that any worker reported
  bool operator==(const JobSummary&) const = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_JOB_VIEW_H_
