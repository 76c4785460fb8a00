// The journal's records: the coordinator's durable state.
//
// The state is computed from its records; the same function applies them live
// and on replay (server/core/coordinator.h).

#ifndef LOCKSTEP_PROTOCOL_RECORD_H_
#define LOCKSTEP_PROTOCOL_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/checkpoint_name.h"
#include "lockstep/command.h"
#include "lockstep/job_spec.h"
#include "protocol/evidence.h"
#include "protocol/ids.h"
#include "protocol/types.h"

namespace lockstep::record {

struct JobCreated {
  JobSpec spec;
  std::string token_hash;  // empty: the job has no token
  bool operator==(const JobCreated&) const = default;
};

// A new generation, or a new secret for the newest one after its Welcome was
// lost.
struct GenerationAssigned {
  WorkerName worker;
  Generation generation;
  uint64_t incarnation = 0;  // of the Hello that requested it
  std::string secret_hash;   // of Welcome::secret: its SHA-256
  bool operator==(const GenerationAssigned&) const = default;
};

struct EpochBegan {
  EpochId epoch;
  std::vector<protocol::Member> members;  // in rank order
  uint64_t first_step = 0;                // as in EpochFormed
  std::vector<uint32_t> holders;          // likewise
  // Not 0: some of them have state of an epoch with so many members, and not
  // that of the epoch before this one, in which they waited.
  int holders_world = 0;
  bool operator==(const EpochBegan&) const = default;
};

// A serialised plan, as workers fetch it.
struct PlanImage {
  uint64_t bytes = 0;  // its size; 0: not known
  std::string sha256;  // 64 hexadecimal digits; empty: not known
  bool operator==(const PlanImage&) const = default;
};

// The plan's digest, and the hash of its bytes, which workers have: after a
// restart one of them sends them again. Else the plan is compiled again from
// its input: the registrations, which all ranks send again, with the facts of
// their transports.
struct PlanAdopted {
  EpochId epoch;
  Revision revision;
  std::string digest;
  // For revisions after the first: indices of the plan's parameters, in the
  // order of their buckets. The rest of the plan's input.
  std::vector<uint32_t> observed_order;
  PlanImage image;
  bool operator==(const PlanAdopted&) const = default;
};

struct EpochFinished {
  EpochId epoch;
  protocol::Cause cause;
  uint64_t steps = 0;  // committed in the job's lifetime, as far as known then
  // A worker without which the job is not complete: it was to go beyond the
  // last step of one that had left, or it is not known that it was not. Empty:
  // none.
  WorkerName unfinished;
  bool operator==(const EpochFinished&) const = default;
};

enum class JobOutcome : uint8_t { kCompleted = 1, kFailed = 2, kStopped = 3 };

struct JobEnded {
  JobOutcome outcome = JobOutcome::kCompleted;
  protocol::Cause cause;
  bool operator==(const JobEnded&) const = default;
};

// A member left cleanly.
struct WorkerLeft {
  EpochId epoch;
  WorkerName worker;
  uint64_t steps = 0;   // committed by it
  std::string verdict;  // as in Leave
  // As in Leave: the command that made its last step the last of all ranks.
  std::optional<Command> command;
  bool operator==(const WorkerLeft&) const = default;
};

// How training goes on after the newest epoch, which has ended.
struct RecoveryDecided {
  EpochId epoch;
  protocol::RecoveryDecision decision;
  bool operator==(const RecoveryDecided&) const = default;
};

// All current commands of the operator: protocol::DesiredCommands.
struct CommandsWanted {
  protocol::DesiredCommands wanted;
  bool operator==(const CommandsWanted&) const = default;
};

// Renames a finished job, so that a new job can have its name.
struct JobArchived {
  JobName as;  // "digits#1"
  bool operator==(const JobArchived&) const = default;
};

// Deletes a finished job.
struct JobDeleted {
  bool operator==(const JobDeleted&) const = default;
};

// A member of an adopted epoch, as another coordinator welcomed it.
struct AdoptedMember {
  protocol::Member member;
  uint64_t incarnation = 0;
  std::string secret_hash;
  bool operator==(const AdoptedMember&) const = default;
};

// A running job that this coordinator did not know, as its workers reported it:
// one record, so it is adopted completely or not at all. Replaces a job of the
// same token that has had no epoch.
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

// All ranks have written their parts of a save; before a member is told to
// write the manifest. The hashes are of the parts: files beside the tensors
// (docs/decisions/0022-parts-in-the-folder.md).
struct SavePrepared {
  EpochId epoch;
  uint64_t number = 0;  // protocol::CheckpointSave::number
  CheckpointName name;
  std::vector<std::string> part_hashes;  // by rank
  bool operator==(const SavePrepared&) const = default;
};

// The manifest of the prepared save is durable.
struct SaveCommitted {
  EpochId epoch;
  uint64_t number = 0;
  CheckpointName name;
  bool operator==(const SaveCommitted&) const = default;
};

using Body = std::variant<JobCreated, GenerationAssigned, EpochBegan,
                          PlanAdopted, EpochFinished, JobEnded, WorkerLeft,
                          CommandsWanted, JobArchived, JobDeleted, JobAdopted,
                          SavePrepared, SaveCommitted, RecoveryDecided>;

struct Record {
  uint64_t number = 0;  // 1, 2, 3, ... over all jobs of a coordinator
  JobName job;
  Body body;
  bool operator==(const Record&) const = default;
};

}  // namespace lockstep::record

#endif  // LOCKSTEP_PROTOCOL_RECORD_H_
