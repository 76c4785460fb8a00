// The beginning, the resumption and the end of a session.

#ifndef LOCKSTEP_PROTOCOL_SESSION_H_
#define LOCKSTEP_PROTOCOL_SESSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/command.h"
#include "lockstep/job_spec.h"
#include "protocol/ids.h"
#include "protocol/types.h"

namespace lockstep::protocol {

// Incremented when a message changes its meaning; both sides must have the same
// version.
inline constexpr uint32_t kVersion = 1;

// The state that a resuming worker still has.
struct ResumeState {
  EpochId epoch;
  Revision revision;
  std::string plan_digest;  // empty before a plan was acknowledged
  Position position;
  bool started = false;  // Start was received in this epoch

  // For a coordinator that does not know the job: needed to adopt its epoch
  // (docs/decisions/0017-adoption-of-running-jobs.md).
  int rank = -1;               // -1: in no epoch
  std::string members_digest;  // plan::DigestOf(members); empty: in no epoch
  // The rest of the input of `plan_digest`, as in record::PlanAdopted. Rank 0
  // sets it in revisions after the first.
  std::vector<uint32_t> observed_order;
  DesiredCommands wanted;   // the newest received
  bool ended = false;       // the epoch is over for this worker
  bool leaving = false;     // Leave was sent and is not answered yet
  uint64_t first_step = 0;  // as in EpochFormed
  int world = 0;            // members of the epoch; 0: in no epoch
  bool operator==(const ResumeState&) const = default;
};

// State that an incarnation has from the one before it, in the same process.
struct HeldState {
  EpochId epoch;       // that its steps are from
  uint64_t steps = 0;  // RecoveryDecision::steps
  bool operator==(const HeldState&) const = default;
};

struct Hello {
  uint32_t version = kVersion;
  WorkerName worker;
  Generation generation;  // 0: no Welcome yet
  // The worker's incarnation: random, never 0, the same in all Hellos of one
  // incarnation. A worker whose Welcome was lost sends Hello with generation 0
  // again and receives the same generation again.
  uint64_t incarnation = 0;
  std::optional<JobSpec> spec;  // creates the job, or must equal its spec
  std::string token;            // of the job; empty if it has none
  ProcessInfo process;
  std::optional<ResumeState> resume;  // with a generation
  std::string secret;  // of the newest Welcome that had one; with a generation
  std::optional<Launch> launch;   // absent: not started by a Lockstep launcher
  std::optional<HeldState> held;  // absent: a new process
  // Where other workers on its host get a descriptor of its process, to be told
  // of its end (client/transport/process_watch.h). Empty: nowhere.
  std::string watch_address;
  bool operator==(const Hello&) const = default;
};

struct Welcome {
  Generation generation;
  JobSpec spec;
  bool resumed = false;  // the coordinator still has this generation's state
  // Authenticates each later Hello of this generation. Set, to a new value each
  // time, only in answer to a Hello of generation 0; empty: the earlier one
  // stays valid.
  std::string secret;
  bool operator==(const Welcome&) const = default;
};

// The last message on this stream; the worker does not retry.
struct Refused {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string message;
  bool operator==(const Refused&) const = default;
};

// The worker leaves on purpose; `clean` if it has finished its steps.
struct Leave {
  bool clean = true;
  uint64_t steps = 0;   // committed
  std::string verdict;  // of step steps - 1, if that was the last of all ranks
  std::string reason;
  // The operator's command that made the last of these steps the last of all
  // ranks.
  std::optional<Command> command;
  // Not clean: it has recovered (Session::Recover), and joins again.
  bool returns = false;
  bool operator==(const Leave&) const = default;
};

// The answer to Leave.
struct Left {
  bool operator==(const Left&) const = default;
};

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_SESSION_H_
