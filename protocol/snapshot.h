// The coordinator's durable state as values: what its journal's records add up
// to. A snapshot of it replaces them.
//
// server/core/durable_state.h applies records to it.

#ifndef LOCKSTEP_PROTOCOL_SNAPSHOT_H_
#define LOCKSTEP_PROTOCOL_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/command.h"
#include "lockstep/job_spec.h"
#include "protocol/evidence.h"
#include "protocol/ids.h"
#include "protocol/record.h"
#include "protocol/shared_list.h"
#include "protocol/types.h"

namespace lockstep::record {

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

// A job, as its records made it.
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
  PlanImage plan_image;     // likewise; not known in an adopted epoch
  // The order from which this revision was compiled; empty in the first one.
  std::vector<uint32_t> observed_order;
  std::vector<uint32_t> holders;         // of its state, as in EpochFormed
  int previous_world = 0;                // as in EpochFormed
  std::map<WorkerName, Departure> left;  // of the newest epoch, cleanly
  // How training goes on after the newest epoch, once that is decided.
  std::optional<protocol::RecoveryDecision> recovery;
  // The save of the newest epoch that was prepared last and is not committed.
  std::optional<SavePrepared> checkpoint_prepared;
  std::optional<SaveCommitted> checkpoint;  // the newest
  protocol::DesiredCommands wanted;         // by an operator
  protocol::Cause cause;                    // of the last epoch's end
  WorkerName unfinished;                    // as in EpochFinished
  std::optional<JobEnded> ended;            // the job is over
  uint64_t ended_by = 0;                    // the number of that record
  JobName archived_as;   // the name it is kept under; empty: the spec's
  bool adopted = false;  // in the newest epoch, from its workers' offers
  EpochId epoch_floor;   // StateSnapshot::epoch_floor, when the job began

  // The name under which the job is kept.
  JobName name() const {
    return archived_as.value.empty() ? JobName{spec.name} : archived_as;
  }
  bool operator==(const DurableJob&) const = default;
};

struct StateSnapshot {
  uint64_t records = 0;  // the number of the last record in it
  // Jobs that begin later have higher epochs: a repaired journal has lost
  // records, and their epochs may be in use (docs/journal.md).
  EpochId epoch_floor;
  std::vector<DurableJob> jobs;
  bool operator==(const StateSnapshot&) const = default;
};

}  // namespace lockstep::record

#endif  // LOCKSTEP_PROTOCOL_SNAPSHOT_H_
