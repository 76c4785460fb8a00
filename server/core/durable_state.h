// What the coordinator has promised: the state that survives its crash.
//
//   Record 1, Record 2, ... ──Apply──▶ DurableState
//
// Only Apply changes it, the same function live and on replay, so a coordinator
// that replays its journal knows exactly what the former one had promised.
// Everything else (streams, leases, registrations, progress) is told anew by
// the workers.
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
#include "plan/words/ids.h"
#include "plan/words/job_view.h"
#include "plan/words/protocol.h"
#include "plan/words/record.h"
#include "plan/words/shared_list.h"

namespace lockstep::core {

// A life of a worker, as the job knows it for good.
struct NameHolder {
  Generation generation;    // 0: never given
  uint64_t life = 0;        // Hello::life
  std::string secret_hash;  // of its Welcome (secret.h)
  bool operator==(const NameHolder&) const = default;
};

// How a member left an epoch in order.
struct Departure {
  uint64_t steps = 0;              // that it has committed
  std::optional<Command> command;  // that made it go
  bool operator==(const Departure&) const = default;
};

struct DurableJob {
  JobSpec spec;
  std::string token_hash;                         // empty: no token
  std::map<WorkerName, NameHolder> name_holders;  // the newest of each name
  EpochId epoch;                                  // the newest; 0: none yet
  bool epoch_lives = false;                       // ... has not ended
  uint64_t first_step = 0;                        // of it
  uint64_t steps = 0;  // committed before it, or at its end if it has ended
  SharedList<protocol::Member> members;  // of the newest epoch
  // plan::DigestOf(members) of every epoch that was formed or adopted here.
  std::map<EpochId, std::string> members_digests;
  Revision revision;        // adopted in it; 0: none
  std::string plan_digest;  // adopted in it
  // ... and the rest of its input; empty in the first revision.
  std::vector<uint32_t> observed_order;
  std::map<WorkerName, Departure> left;   // the newest epoch, in order
  protocol::DesiredCommands wanted;       // by an operator
  protocol::Cause cause;                  // of the last epoch's end
  std::optional<record::JobEnded> ended;  // the job is over
  uint64_t ended_by = 0;                  // the number of that record
  JobName archived_as;   // the name it is kept under; empty: the spec's
  bool adopted = false;  // ... in the newest epoch, as its workers offered it
  bool operator==(const DurableJob&) const = default;
};

// Completed, failed or stopped.
JobState StateAfter(record::Outcome outcome);

// Of jobs that are over so many are kept; the one that ended first is forgotten
// when there would be more.
inline constexpr size_t kJobsOverMax = 1000;

struct DurableState {
  uint64_t records = 0;  // applied so far: the number of the last one
  // A job stays where it is in memory until it is deleted.
  std::map<JobName, DurableJob> jobs;
  std::map<uint64_t, JobName> over;  // those that are, by DurableJob::ended_by
  bool operator==(const DurableState&) const = default;
};

// InvalidArgument, and nothing changed, for a record that cannot follow: out of
// number, of an unknown or finished job, an epoch or generation that does not
// grow, a plan of an epoch that is not alive, an end of another, the end of the
// memory of a job that is not over, a job adopted in the place of one that has
// had an epoch or has another token.
absl::Status Apply(const record::Record& record, DurableState* state);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_DURABLE_STATE_H_
