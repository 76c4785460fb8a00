// The coordinator's durable state, which survives its crash.
//
//   Record 1, Record 2, ... ──Apply──▶ DurableState ──SnapshotOf──▶ Snapshot
//                                           ▲ ───────StateOf────────┘
//
// Only Apply changes it, both live and on replay, so a coordinator that replays
// its journal knows every promise of the former one. Workers send everything
// else again (streams, leases, registrations, progress).
//
// Threads: values.

#ifndef LOCKSTEP_SERVER_CORE_DURABLE_STATE_H_
#define LOCKSTEP_SERVER_CORE_DURABLE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/ids.h"
#include "protocol/job_view.h"
#include "protocol/record.h"
#include "protocol/snapshot.h"

namespace lockstep::core {

using record::Departure;
using record::DurableJob;
using record::NameHolder;

// Completed, failed or stopped.
JobState StateAfter(record::JobOutcome outcome);

// At most this many jobs that are over are kept; the one that ended first is
// forgotten to make room.
inline constexpr size_t kJobsOverMax = 1000;

struct DurableState {
  uint64_t records = 0;  // applied so far: the number of the last one
  // A DurableJob keeps its address until it is deleted.
  std::map<JobName, DurableJob> jobs;
  EpochId epoch_floor;               // as in record::StateSnapshot
  std::map<uint64_t, JobName> over;  // by DurableJob::ended_by
  bool operator==(const DurableState&) const = default;
};

// InvalidArgument, with no change, for a record that cannot follow: a wrong
// number, an unknown or finished job, an epoch or generation that does not
// increase, a plan of an epoch that is not live, the end of another epoch, a
// recovery from an epoch that is live or decided, the
// archival or deletion of a job that is not over, the spec of another job, a
// save of an epoch that is not live, an adoption in place of a job that has had
// an epoch or has another token.
absl::Status Apply(const record::Record& record, DurableState* state);

// --- Snapshots ---------------------------------------------------------------
record::StateSnapshot SnapshotOf(const DurableState& state);
// InvalidArgument for two jobs of one name.
absl::StatusOr<DurableState> StateOf(const record::StateSnapshot& snapshot);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_DURABLE_STATE_H_
