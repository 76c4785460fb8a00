// What survives a crash of the coordinator: one record for each promise.
//
// The durable state of the coordinator is a fold over its records; live and on
// replay the same function applies them (server/core/coordinator.h).

#ifndef LOCKSTEP_PROTOCOL_RECORD_H_
#define LOCKSTEP_PROTOCOL_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/command.h"
#include "lockstep/job_spec.h"
#include "protocol/ids.h"
#include "protocol/protocol.h"

namespace lockstep::record {

struct JobCreated {
  JobSpec spec;
  std::string token_hash;  // empty: the job has no token
  bool operator==(const JobCreated&) const = default;
};

// A generation, or another secret for the newest one: its Welcome was lost.
struct GenerationAssigned {
  WorkerName worker;
  Generation generation;
  uint64_t incarnation = 0;  // of the Hello that asked for it
  std::string secret_hash;   // of Welcome::secret: its SHA-256
  bool operator==(const GenerationAssigned&) const = default;
};

struct EpochBegan {
  EpochId epoch;
  std::vector<protocol::Member> members;  // in rank order
  uint64_t first_step = 0;                // as in EpochFormed
  bool operator==(const EpochBegan&) const = default;
};

// The plan's digest; its input is the registrations, which after a restart all
// ranks tell again with the facts of their transports. Its bytes are
// recomputed.
struct PlanAdopted {
  EpochId epoch;
  Revision revision;
  std::string digest;
  // For revisions after the first: indices of the plan's parameters, in the
  // order of their buckets. It is the rest of the input.
  std::vector<uint32_t> observed_order;
  bool operator==(const PlanAdopted&) const = default;
};

struct EpochFinished {
  EpochId epoch;
  protocol::Cause cause;
  uint64_t steps = 0;  // committed in the job's life, as far as known then
  bool operator==(const EpochFinished&) const = default;
};

enum class JobOutcome : uint8_t { kCompleted = 1, kFailed = 2, kStopped = 3 };

struct JobEnded {
  JobOutcome outcome = JobOutcome::kCompleted;
  protocol::Cause cause;
  bool operator==(const JobEnded&) const = default;
};

// A member left in order.
struct WorkerLeft {
  EpochId epoch;
  WorkerName worker;
  uint64_t steps = 0;  // that it has committed
  // As in Leave: the command that made its last step the last of all ranks.
  std::optional<Command> command;
  bool operator==(const WorkerLeft&) const = default;
};

// All that an operator wants of the job now: protocol::DesiredCommands.
struct CommandsWanted {
  protocol::DesiredCommands wanted;
  bool operator==(const CommandsWanted&) const = default;
};

// A job that is over gives its name to a new one, and is kept under another.
struct JobArchived {
  JobName as;  // "digits#1"
  bool operator==(const JobArchived&) const = default;
};

// A job that is over is forgotten.
struct JobDeleted {
  bool operator==(const JobDeleted&) const = default;
};

// A member of an epoch that is adopted: as it was welcomed elsewhere.
struct AdoptedMember {
  protocol::Member member;
  uint64_t incarnation = 0;
  std::string secret_hash;
  bool operator==(const AdoptedMember&) const = default;
};

// A running job that this coordinator did not know, as its workers offered it:
// one record, so that it is adopted whole or not at all. Takes the place of a
// job of the same token that has had no epoch.
struct JobAdopted {
  JobSpec spec;
  std::string token_hash;  // empty: the job has no token
  EpochId epoch;
  std::vector<AdoptedMember> members;  // in rank order
  Revision revision;                   // 0: no plan yet
  std::string digest;                  // of the plan
  std::vector<uint32_t> observed_order;
  protocol::DesiredCommands wanted;
  uint64_t first_step = 0;  // as in EpochFormed
  bool operator==(const JobAdopted&) const = default;
};

using Body = std::variant<JobCreated, GenerationAssigned, EpochBegan,
                          PlanAdopted, EpochFinished, JobEnded, WorkerLeft,
                          CommandsWanted, JobArchived, JobDeleted, JobAdopted>;

struct Record {
  uint64_t number = 0;  // 1, 2, 3, ... over all jobs of a coordinator
  JobName job;
  Body body;
  bool operator==(const Record&) const = default;
};

}  // namespace lockstep::record

#endif  // LOCKSTEP_PROTOCOL_RECORD_H_
