// The messages between workers and the coordinator.
//
// Plain structs. The codec (proto/codec.h) converts them to wire messages, the
// two state machines (server/core, client/session/machine.h) use only these,
// and a test can connect the two without a network.
//
//   worker                                coordinator
//   Hello ───────────────────────────────▶ new incarnation, or resume
//         ◀────────────────────────────── Welcome | Refused
//         ◀────────────────────────────── EpochFormed    all ranks are present
//   RegisterChunk... ────────────────────▶
//         ◀────────────────────────────── PlanReady | EpochEnded (mismatch)
//   PlanAck ─────────────────────────────▶ (after FetchPlan)
//   PublishHandles ──────────────────────▶
//         ◀────────────────────────────── GroupHandles... of its groups
//   Connected ───────────────────────────▶
//         ◀────────────────────────────── Start          all are connected
//   Progress, Heartbeat, Busy ───────────▶ at most 10 a second
//   ValueDigests ────────────────────────▶ with the first step, if at all
//         ◀────────────────────────────── Warning        one rank prints it
//         ◀────────────────────────────── DesiredCommands  pause, stop, drain
//         ◀────────────────────────────── OrderWanted
//   ReadyOrder ──────────────────────────▶ compiles a later revision
//         ◀────────────────────────────── PlanReady (the next revision)
//   PlanAck ─────────────────────────────▶ received; the verdict switches
//   Announce, Submitted ─────────────────▶ negotiated mode only
//         ◀────────────────────────────── Decide
//   Evidence, LocalFailure ──────────────▶
//         ◀────────────────────────────── EpochEnded(cause)
//   EpochReport ─────────────────────────▶
//   Leave ───────────────────────────────▶
//         ◀────────────────────────────── Left           acknowledges Leave
//
// Every message is sent in an Envelope. A worker refuses a term lower than the
// highest it has received. The coordinator ignores messages of another epoch
// than its current one, except Hello, Heartbeat and Leave.
//
// Resume transfers state, not missed messages: after a broken stream the worker
// sends Hello with its generation and position. The coordinator repeats
// everything that the worker needs (EpochFormed, PlanReady, GroupHandles,
// Start, DesiredCommands, EpochEnded). Each of these is idempotent.

#ifndef LOCKSTEP_PROTOCOL_PROTOCOL_H_
#define LOCKSTEP_PROTOCOL_PROTOCOL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/command.h"
#include "lockstep/job_spec.h"
#include "protocol/ids.h"
#include "protocol/parameter.h"
#include "protocol/shared_list.h"
#include "protocol/transport_facts.h"

namespace lockstep::protocol {

// Incremented when a message changes its meaning; both sides must have the same
// version.
inline constexpr uint32_t kVersion = 1;

// --- Shared types -----------------------------------------------------------

// The phase of a worker within a step (docs/architecture.md, "Step agreement").
// Ordered.
enum class Phase : uint8_t {
  kIdle = 1,      // between steps, or not yet training
  kCompute = 2,   // gradients are being submitted
  kTransfer = 3,  // all submitted; waits for transfers
  kVerdict = 5,   // entered the verdict
};

struct Position {
  // The current step: the number of steps committed in the job's lifetime
  // (EpochFormed::first_step).
  uint64_t step = 0;
  Phase phase = Phase::kIdle;
  auto operator<=>(const Position&) const = default;
};

// Identifies a process and its host. For people, and to report its death.
struct ProcessInfo {
  std::string host;
  int64_t pid = 0;
  std::string boot_id;
  // In clock ticks since boot: field 22 of /proc/PID/stat. The kernel reuses a
  // pid, but not with the same start time.
  uint64_t start_time = 0;

  // True if no other process can be equal to it.
  bool identifies() const {
    return pid != 0 && start_time != 0 && !boot_id.empty();
  }
  bool operator==(const ProcessInfo&) const = default;
};

struct Member {
  WorkerName worker;
  Generation generation;
  ProcessInfo process;
  bool operator==(const Member&) const = default;
};

// Why an epoch ended or a job failed. For people; `kind` is for programs.
enum class CauseKind : uint8_t {
  kNone = 0,
  kProcessDied = 1,     // proof: waitpid or pidfd
  kLeaseExpired = 2,    // no message in time
  kStreamLost = 3,      // stream broke and did not resume
  kLocalFailure = 4,    // a step call failed on one rank
  kMismatch = 5,        // registrations or plans differ
  kJoinDeadline = 6,    // workers missing
  kLeft = 7,            // a worker left while others train
  kStopped = 8,         // by an operator
  kReplaced = 9,        // a new incarnation of a member arrived
  kConnectFailed = 10,  // the data plane could not be connected
  kLink = 11,           // two living members cannot reach each other
};

struct Cause {
  CauseKind kind = CauseKind::kNone;
  std::vector<WorkerName> workers;  // concerned, in rank order
  std::string message;              // one sentence: worker, place, time
  bool operator==(const Cause&) const = default;
};

// The commands of an operator for the job; each message replaces all earlier
// ones. A rank reports the commands it has when it enters a verdict, and all
// act at the step whose verdict shows that every rank has the same message
// (client/gradient/command_gate.h says why it must be the same).
struct DesiredCommands {
  std::vector<Command> commands;  // ascending, each once
  std::string reason;             // for people
  // The commands of a job are numbered 1, 2, 3, ...; 0: none so far.
  uint64_t number = 0;
  bool operator==(const DesiredCommands&) const = default;
};

// --- Worker to coordinator --------------------------------------------------

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
  bool operator==(const ResumeState&) const = default;
};

// The launch that started a worker. Workers of one job are from one launch, or
// from several launches, one per node.
struct Launch {
  std::string id;  // random; equal launches have equal ids
  int nodes = 1;   // launchers that start the job together
  int node_rank = 0;
  bool operator==(const Launch&) const = default;
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
  std::optional<Launch> launch;  // absent: not started by a Lockstep launcher
  bool operator==(const Hello&) const = default;
};

// A part of the worker's parameters, below 1 MiB on the wire.
struct RegisterChunk {
  uint32_t index = 0;  // 0, 1, 2, ...
  bool last = false;
  std::vector<Parameter> parameters;
  // With the last chunk: the plan depends on it and on the parameters.
  TransportFacts transport;
  bool operator==(const RegisterChunk&) const = default;
};

// The worker fetched and decoded this plan, verified it, and found this digest.
struct PlanAck {
  Revision revision;
  std::string digest;
  bool operator==(const PlanAck&) const = default;
};

struct GroupHandle {
  int communicator = -1;  // index in the plan
  std::string handle;     // opaque bytes of the transport
  bool operator==(const GroupHandle&) const = default;
};

// Handles of communicators that the rank is a member of: each once, in enough
// messages to keep each below 1 MiB (chunks.h).
struct PublishHandles {
  std::vector<GroupHandle> handles;
  bool operator==(const PublishHandles&) const = default;
};

// The transport that connects the members of one communicator, and why: "shm",
// or "hierarchical (4 ranks on 2 hosts)".
struct GroupTransport {
  int communicator = 0;   // index in the plan
  std::string transport;  // for people
  bool operator==(const GroupTransport&) const = default;
};

// Every communicator of this rank is connected.
struct Connected {
  std::vector<GroupTransport> groups;
  bool operator==(const Connected&) const = default;
};

// Parameters of a rank, for people: their number, and the newest names.
struct ParameterNames {
  uint32_t count = 0;
  std::vector<std::string> names;  // at most 8, the newest first
  bool operator==(const ParameterNames&) const = default;
};

// The worker's position; each message replaces all earlier ones.
struct Progress {
  Position position;
  // While computing: the number of submitted parameters, and the first few that
  // are missing.
  uint32_t submitted = 0;
  std::vector<std::string> missing;  // at most 8 names
  // Means over the steps since the last Progress: the step's time, and how long
  // the training thread waited for communication
  // (GradientSync::exposed_seconds).
  double step_seconds = 0;
  double exposed_seconds = 0;
  // The executor of the current step's transfers; kAuto: no step.
  Overlap overlap = Overlap::kAuto;
  Revision revision;    // of the plan in use
  bool paused = false;  // between steps, by command
  // How transfers access the gradients' memory, for people: "symmetric", or "12
  // symmetric, 1 plain" buffers; empty if there is only one way.
  std::string memory;
  // Parameters of the rank that it did not submit in several consecutive steps:
  // no rank did, or only other ranks did. They only grow in an epoch; empty
  // with on_unsubmitted: ignore.
  ParameterNames unsubmitted_by_all;
  ParameterNames unsubmitted_here;
  // In a pipeline: the next task, for people, and the rank whose message it
  // waits for; -1: none.
  std::string task;
  int awaits = -1;
  // The rank's GradientSync was destroyed: it takes part in no further step.
  bool withdrawn = false;
  bool operator==(const Progress&) const = default;
};

// Digests of this rank's initial values: digests[i] is of the plan's parameter
// parameters[i]. Sent once, with the first step, and again on a new stream.
struct ValueDigests {
  std::vector<uint32_t> parameters;
  std::vector<uint64_t> digests;
  bool operator==(const ValueDigests&) const = default;
};

struct Heartbeat {
  bool operator==(const Heartbeat&) const = default;
};

// The worker will make no progress for a while; `reason` says why.
struct Busy {
  std::string reason;  // empty: not busy any more
  absl::Duration max;
  bool operator==(const Busy&) const = default;
};

// How the sender knows of another process's failure.
enum class EvidenceKind : uint8_t {
  kExited = 1,      // proof: waitpid or pidfd of that process
  kPeerReset = 2,   // hint: its data socket was reset
  kPeerSilent = 3,  // hint: its data socket is silent
};

struct Evidence {
  WorkerName subject;
  // 0: the sender, as a launcher, does not know it; then `process` identifies
  // the incarnation.
  Generation generation;
  EvidenceKind kind = EvidenceKind::kExited;
  std::string detail;  // "killed by signal 9"
  // Proof (kExited) takes effect only if it names the process of the member.
  ProcessInfo process;
  bool operator==(const Evidence&) const = default;
};

// A step call failed on this rank; the step cannot complete on any rank.
struct LocalFailure {
  uint64_t step = 0;
  std::string call;  // "GradientSync::Submit"
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string message;
  bool operator==(const LocalFailure&) const = default;
};

// Sent once after EpochEnded: this rank has quiesced, at this position.
struct EpochReport {
  Position position;
  std::string
      verdict;  // the verdict's bytes if it passed this step, else empty
  bool operator==(const EpochReport&) const = default;
};

// The order in which this rank's gradients became complete in one step: indices
// of the plan's parameters, each of the rank's once; those not submitted are
// last, in the plan's order. The answer to OrderWanted.
struct ReadyOrder {
  Revision revision;  // of OrderWanted
  std::vector<uint32_t> parameters;
  bool operator==(const ReadyOrder&) const = default;
};

// --- Negotiated mode: worker to coordinator ---------------------------------
//
// A pass is a step of a job whose graph may differ from step to step, and has
// the step's number. Parameters are indices in the plan. All of these messages
// are idempotent.

// A parameter's reduction in a pass: `announcers` ranks, at least one,
// contribute a gradient. With 0 announcers it closes the pass (`parameter` is
// 0): the sequence has no further reduction of the pass. A rank that reaches it
// may enter the verdict of the pass, and all ranks do so after the same
// reductions.
struct Decision {
  uint64_t pass = 0;
  uint32_t parameter = 0;
  uint32_t announcers = 0;
  bool operator==(const Decision&) const = default;
};

// The parameters that this rank will submit in this pass: all of them, sent
// once, also if empty. A parameter is decided when all ranks of its group have
// announced and those that announced it have submitted it.
struct Announce {
  uint64_t pass = 0;
  std::vector<uint32_t> parameters;
  bool operator==(const Announce&) const = default;
};

// More of the announced parameters are submitted.
struct Submitted {
  uint64_t pass = 0;
  std::vector<uint32_t> parameters;
  bool operator==(const Submitted&) const = default;
};

// The decisions that a started rank has: decisions[i] is number `first` + i of
// the epoch. On every new stream it is the first message about passes. Then the
// rank announces and submits again for the current pass. Decisions before the
// last two passes may be left out: every rank has them.
struct Held {
  uint64_t first = 0;
  std::vector<Decision> decisions;
  bool operator==(const Held&) const = default;
};

// The worker leaves on purpose; `clean` if it has finished its steps.
struct Leave {
  bool clean = true;
  uint64_t steps = 0;  // committed
  std::string reason;
  // The operator's command that made the last of these steps the last of all
  // ranks.
  std::optional<Command> command;
  bool operator==(const Leave&) const = default;
};

// --- Coordinator to worker --------------------------------------------------

struct Welcome {
  Generation generation;
  JobSpec spec;
  bool resumed = false;  // the coordinator still has this generation's state
  // The coordinator does not have this rank's registration (as after a
  // restart): send it again, even after Start.
  bool forgot = false;
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

struct EpochFormed {
  int rank = -1;
  SharedList<Member> members;  // in rank order
  // The number of the epoch's first step: the number of steps committed in all
  // earlier epochs of the job.
  uint64_t first_step = 0;
  bool operator==(const EpochFormed&) const = default;
};

struct PlanReady {
  Revision revision;
  std::string digest;
  bool operator==(const PlanReady&) const = default;
};

// The handles of one communicator, in its rank order. A large list is split
// into messages below 1 MiB, sent in order.
struct GroupHandles {
  int communicator = -1;
  SharedList<std::string> handles;
  uint32_t first = 0;  // position of handles[0] in the communicator
  bool more = false;   // further messages follow
  bool operator==(const GroupHandles&) const = default;
};

struct Start {
  bool operator==(const Start&) const = default;
};

// Requests the order in which gradients become complete in the next step
// (ReadyOrder), for a revision with buckets in that order.
struct OrderWanted {
  Revision revision;  // to be compiled
  bool operator==(const OrderWanted&) const = default;
};

// decisions[i] is number `first` + i of the epoch, counted from 0. Every rank
// of a parameter's group takes part in its reduction, in this order.
struct Decide {
  uint64_t first = 0;
  std::vector<Decision> decisions;
  bool operator==(const Decide&) const = default;
};

struct EpochEnded {
  Cause cause;
  bool final = false;  // the job is over: no worker need join again
  bool operator==(const EpochEnded&) const = default;
};

// A message for people about a job that continues. Sent to one rank, which
// prints it.
struct Warning {
  std::string text;
  bool operator==(const Warning&) const = default;
};

// The answer to Leave.
struct Left {
  bool operator==(const Left&) const = default;
};

// --- Envelopes --------------------------------------------------------------

using ToCoordinatorBody =
    std::variant<Hello, RegisterChunk, PlanAck, PublishHandles, Connected,
                 Progress, Heartbeat, Busy, Evidence, LocalFailure, EpochReport,
                 Leave, ReadyOrder, Announce, Submitted, Held, ValueDigests>;

using ToWorkerBody =
    std::variant<Welcome, Refused, EpochFormed, PlanReady, GroupHandles, Start,
                 EpochEnded, Left, DesiredCommands, OrderWanted, Decide,
                 Warning>;

struct ToCoordinator {
  JobName job;
  EpochId epoch;
  LeaderTerm term;
  ToCoordinatorBody body;
  bool operator==(const ToCoordinator&) const = default;
};

struct ToWorker {
  JobName job;
  EpochId epoch;
  LeaderTerm term;
  ToWorkerBody body;
  bool operator==(const ToWorker&) const = default;
};

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_PROTOCOL_H_
