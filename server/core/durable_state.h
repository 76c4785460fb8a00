// The coordinator's durable state, which survives its crash.
//
//   Record 1, Record 2, ... ──Apply──▶ DurableState
//
// Only Apply changes it, both live and on replay, so a coordinator that replays
// its journal knows every promise of the former one. Workers send everything
// else again (streams, leases, registrations, progress).
//
// Threads: values.

#ifndef LOCKSTEP_SERVER_CORE_DURABLE_STATE_H_
#define LOCKSTEP_SERVER_CORE_DURABLE_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/command.h"
#include "lockstep/job_spec.h"
#include "protocol/evidence.h"
#include "protocol/ids.h"
#include "protocol/job_view.h"
#include "protocol/record.h"
#include "protocol/shared_list.h"
#include "protocol/types.h"

namespace lockstep::core {

// An incarnation of a worker, as the job records it.
struct NameHolder {
  Generation generation;     // 0: never assigned
  uint64_t incarnation = 0;  // Hello::incarnation
  std::string secret_hash;   // of its Welcome (secret.h)
  bool operator==(const NameHolder&) const = default;
};

// How a member left an epoch cleanly.
struct Departure {
  uint64_t steps = 0;              // committed
  std::string verdict;             // of its last step, if it gave it
  std::optional<Command> command;  // the reason to leave, if a command was
  bool operator==(const Departure&) const = default;
};

struct DurableJob {
  JobSpec spec;
  std::string token_hash;                         // empty: no token
  std::map<WorkerName, NameHolder> name_holders;  // the newest of each name
  EpochId epoch;                                  // the newest; 0: none yet
  bool epoch_lives = false;                       // ... has not ended
  uint64_t first_step = 0;                        // of the newest epoch
  uint64_t steps = 0;  // committed before it, or at its end if it has ended
  SharedList<protocol::Member> members;  // of the newest epoch
  // plan::DigestOf(members) of every epoch that was formed or adopted here.
  std::map<EpochId, std::string> members_digests;
  Revision revision;        // adopted in the newest epoch; 0: none
  std::string plan_digest;  // of this revision
  // The order from which this revision was compiled; empty in the first one.
  std::vector<uint32_t> observed_order;
  std::vector<uint32_t> holders;         // of its state, as in EpochFormed
  std::map<WorkerName, Departure> left;  // of the newest epoch, cleanly
  // How training goes on after the newest epoch, once that is decided.
  std::optional<protocol::RecoveryDecision> recovery;
  // The save of the newest epoch that was prepared last and is not committed.
  std::optional<record::SavePrepared> checkpoint_prepared;
  std::optional<record::SaveCommitted> checkpoint;  // the newest
  protocol::DesiredCommands wanted;                 // by an operator
  protocol::Cause cause;                            // of the last epoch's end
  std::optional<record::JobEnded> ended;            // the job is over
  uint64_t ended_by = 0;                            // the number of that record
  JobName archived_as;   // the name it is kept under; empty: the spec's
  bool adopted = false;  // in the newest epoch, from its workers' offers

  // The name under which the job is kept.
  JobName name() const {
    return archived_as.value.empty() ? JobName{spec.name} : archived_as;
  }
  bool operator==(const DurableJob&) const = default;
};

// Completed, failed or stopped.
JobState StateAfter(record::JobOutcome outcome);

// At most this many jobs that are over are kept; the one that ended first is
// forgotten to make room.
inline constexpr size_t kJobsOverMax = 1000;

struct DurableState {
  uint64_t records = 0;  // applied so far: the number of the last one
  // A DurableJob keeps its address until it is deleted.
  std::map<JobName, DurableJob> jobs;
  std::map<uint64_t, JobName> over;  // by DurableJob::ended_by
  bool operator==(const DurableState&) const = default;
};

// InvalidArgument, with no change, for a record that cannot follow: a wrong
// number, an unknown or finished job, an epoch or generation that does not
// increase, a plan of an epoch that is not live, the end of another epoch, a
// recovery from an epoch that is live or decided, the
// archival or deletion of a job that is not over, a save of an epoch that is
// not live, an adoption in place of a job
// that has had an epoch or has another token.
absl::Status Apply(const record::Record& record, DurableState* state);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_DURABLE_STATE_H_
