// What workers and the coordinator say to each other, in words.
//
// Plain values: the codec (proto/codec.h) turns them into wire messages, the
// two state machines (server/core, client/session/machine.h) speak nothing
// else, and a test can join the two without a network.
//
//   worker                                coordinator
//   Hello ───────────────────────────────▶ new life, or resume of one
//         ◀────────────────────────────── Welcome | Refused
//         ◀────────────────────────────── EpochFormed     all ranks are there
//   RegisterChunk... ────────────────────▶
//         ◀────────────────────────────── PlanReady | EpochEnded (mismatch)
//   PlanAck ─────────────────────────────▶   (after FetchPlan)
//   PublishHandles ──────────────────────▶
//         ◀────────────────────────────── GroupHandles... of its groups
//   Connected ───────────────────────────▶
//         ◀────────────────────────────── Start           all are connected
//   Progress, Heartbeat, Busy ───────────▶   at most 10 a second
//   ValueDigests ────────────────────────▶   with the first step, if at all
//         ◀────────────────────────────── Warning         one rank prints it
//         ◀────────────────────────────── DesiredCommands          pause, stop,
//         drain ◀────────────────────────────── OrderWanted
//   ReadyOrder ──────────────────────────▶   a later revision is compiled
//         ◀────────────────────────────── PlanReady (the next revision)
//   PlanAck ─────────────────────────────▶   held; the verdict switches
//   Announce, Submitted ─────────────────▶   negotiated mode only
//         ◀────────────────────────────── Decide
//   Evidence, LocalFailure ──────────────▶
//         ◀────────────────────────────── EpochEnded(cause)
//   EpochReport ─────────────────────────▶
//   Leave ───────────────────────────────▶
//         ◀────────────────────────────── Left            told that it is known
//
// Every message travels in an Envelope. A worker refuses a lower term than it
// has heard; the coordinator ignores messages of another epoch than the one it
// is in, except Hello, Heartbeat and Leave.
//
// Resume is state, not messages: after a broken stream the worker says Hello
// with its generation and where it is, and the coordinator repeats whatever
// that worker should know (EpochFormed, PlanReady, GroupHandles, Start,
// DesiredCommands, EpochEnded). The worker takes each of them as idempotent.

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

// Raised when a message changes its meaning; both sides must speak the same.
inline constexpr uint32_t kVersion = 1;

// --- Shared words -----------------------------------------------------------

// Where in a step a worker is (docs/architecture.md, "Step agreement").
// Ordered.
enum class Phase : uint8_t {
  kIdle = 1,      // between steps, or not yet training
  kCompute = 2,   // gradients are being submitted
  kTransfer = 3,  // all submitted; waits for transfers
  kVerdict = 5,   // entered the verdict
};

struct Position {
  // The step in progress: as many have committed in the job's whole life
  // (EpochFormed::first_step).
  uint64_t step = 0;
  Phase phase = Phase::kIdle;
  auto operator<=>(const Position&) const = default;
};

// Which process it is, and where. For people, and for evidence of its death.
struct ProcessInfo {
  std::string host;
  int64_t pid = 0;
  std::string boot_id;
  // In clock ticks since boot: field 22 of /proc/PID/stat. The kernel uses a
  // pid again, but not with the same start time.
  uint64_t start_time = 0;

  // True if no other process is equal to it.
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

// Why an epoch ended or a job failed. For people; `kind` for machines.
enum class CauseKind : uint8_t {
  kNone = 0,
  kProcessDied = 1,     // proof: waitpid or pidfd
  kLeaseExpired = 2,    // silence
  kStreamLost = 3,      // stream broke and did not resume
  kLocalFailure = 4,    // a step call failed on one rank
  kMismatch = 5,        // registrations or plans differ
  kJoinDeadline = 6,    // workers missing
  kLeft = 7,            // a worker left while others train
  kStopped = 8,         // by an operator
  kReplaced = 9,        // a new life of a member arrived
  kConnectFailed = 10,  // the data plane could not be connected
  kLink = 11,           // two living members cannot reach each other
};

struct Cause {
  CauseKind kind = CauseKind::kNone;
  std::vector<WorkerName> workers;  // whom it is about, in rank order
  std::string message;              // one sentence: who, where, since when
  bool operator==(const Cause&) const = default;
};

// What an operator wants of the job: the whole of it, the newest word replaces
// all earlier ones. A rank holds what is wanted when it enters a verdict, and
// all act at the step whose verdict shows that every rank holds this same word
// (client/gradient/command_gate.h says why it must be the same).
struct DesiredCommands {
  std::vector<Command> commands;  // ascending, each once
  std::string reason;             // for people
  // Commands of a job are numbered 1, 2, 3, ...; 0: there was none.
  uint64_t number = 0;
  bool operator==(const DesiredCommands&) const = default;
};

// --- Worker to coordinator --------------------------------------------------

// What a resuming worker still holds.
struct ResumeState {
  EpochId epoch;
  Revision revision;
  std::string plan_digest;  // empty before a plan was acknowledged
  Position position;
  bool started = false;  // Start was heard in this epoch

  // What a coordinator that does not know the job needs to adopt its epoch
  // (docs/decisions/0017-adoption-of-running-jobs.md).
  int rank = -1;               // -1: in no epoch
  std::string members_digest;  // plan::DigestOf(members); empty: in no epoch
  // The rest of the input of `plan_digest`, as in record::PlanAdopted: stated
  // by rank 0, in revisions after the first.
  std::vector<uint32_t> observed_order;
  DesiredCommands wanted;   // the newest heard
  bool ended = false;       // the epoch is over for this worker
  bool leaving = false;     // Leave was stated and is not answered yet
  uint64_t first_step = 0;  // as in EpochFormed
  bool operator==(const ResumeState&) const = default;
};

// The launch that started a worker. Workers of one job come from one launch, or
// from several that are each of a node of their own.
struct Launch {
  std::string id;  // drawn by the launcher; equal launches have equal ids
  int nodes = 1;   // launchers that start the job together
  int node_rank = 0;
  bool operator==(const Launch&) const = default;
};

struct Hello {
  uint32_t version = kVersion;
  WorkerName worker;
  Generation generation;  // 0: never welcomed yet
  // The worker's incarnation: drawn at random once for each life, never 0, the
  // same in all its Hellos. A worker whose Welcome was lost says Hello with
  // generation 0 again and is told its generation again.
  uint64_t incarnation = 0;
  std::optional<JobSpec> spec;  // creates the job, or must equal its spec
  std::string token;            // of the job; empty if it has none
  ProcessInfo process;
  std::optional<ResumeState> resume;  // with a generation
  std::string secret;  // of the newest Welcome that had one; with a generation
  std::optional<Launch> launch;  // absent: not started by a launcher of ours
  bool operator==(const Hello&) const = default;
};

// A part of the worker's parameters, below 1 MiB on the wire.
struct RegisterChunk {
  uint32_t index = 0;  // 0, 1, 2, ...
  bool last = false;
  std::vector<Parameter> parameters;
  // With the last chunk: the plan depends on it as it does on the parameters.
  TransportFacts transport;
  bool operator==(const RegisterChunk&) const = default;
};

// The worker fetched this plan, and it decodes, verifies and has this digest.
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

// Handles of communicators that the rank is a member of: all of them once, in
// as many of these messages as keep each below 1 MiB (chunks.h).
struct PublishHandles {
  std::vector<GroupHandle> handles;
  bool operator==(const PublishHandles&) const = default;
};

// How the members of one communicator are connected, and why: "shm", or
// "hierarchical (4 ranks on 2 hosts)".
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

// Parameters of a rank, for people: how many, and the newest of them.
struct ParameterNames {
  uint32_t count = 0;
  std::vector<std::string> names;  // at most 8, the newest first
  bool operator==(const ParameterNames&) const = default;
};

// Where the worker is: the newest word replaces all earlier ones.
struct Progress {
  Position position;
  // While computing: how many of its parameters it has submitted, and the first
  // few that it has not.
  uint32_t submitted = 0;
  std::vector<std::string> missing;  // at most 8 names
  // Means of the steps since the last Progress: of their time, and of how long
  // communication held the training thread (GradientSync::exposed_seconds).
  double step_seconds = 0;
  double exposed_seconds = 0;
  // Who runs the transfers of the step in progress; kAuto: there is none.
  Overlap overlap = Overlap::kAuto;
  Revision revision;    // of the plan that the step in progress runs
  bool paused = false;  // between steps, by command
  // How transfers reach the gradients' memory, for people: "symmetric", or
  // "12 symmetric, 1 plain" buffers; empty where there is only one way.
  std::string memory;
  // Parameters of the rank that it did not submit in several steps running:
  // nobody did, or other ranks did. They only grow in an epoch; empty with
  // on_unsubmitted: ignore.
  ParameterNames unsubmitted_by_all;
  ParameterNames unsubmitted_here;
  // In a pipeline's run: the task that is computed next, for people, and the
  // rank whose message it waits for; -1: none.
  std::string task;
  int awaits = -1;
  // The rank's GradientSync is gone: it takes part in no further step.
  bool withdrawn = false;
  bool operator==(const Progress&) const = default;
};

// What values this rank begins with: digests[i] is of the plan's parameter
// parameters[i]. Said once, with the first step, and again on a new stream.
struct ValueDigests {
  std::vector<uint32_t> parameters;
  std::vector<uint64_t> digests;
  bool operator==(const ValueDigests&) const = default;
};

struct Heartbeat {
  bool operator==(const Heartbeat&) const = default;
};

// The worker will make no progress for a while, and says why.
struct Busy {
  std::string reason;  // empty: not busy any more
  absl::Duration max;
  bool operator==(const Busy&) const = default;
};

// What somebody knows of another process.
enum class EvidenceKind : uint8_t {
  kExited = 1,      // proof: waitpid or pidfd of that very process
  kPeerReset = 2,   // hint: its data socket was reset
  kPeerSilent = 3,  // hint: its data socket says nothing
};

struct Evidence {
  WorkerName subject;
  // 0: the accuser does not know it, as a launcher; then `process` says which
  // life is meant.
  Generation generation;
  EvidenceKind kind = EvidenceKind::kExited;
  std::string detail;  // "killed by signal 9"
  // Proof (kExited) has effect only if it names the process of the member.
  ProcessInfo process;
  bool operator==(const Evidence&) const = default;
};

// A step call failed on this rank; the step cannot complete anywhere.
struct LocalFailure {
  uint64_t step = 0;
  std::string call;  // "GradientSync::Submit"
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string message;
  bool operator==(const LocalFailure&) const = default;
};

// Sent once after EpochEnded: this rank has quiesced and stands here.
struct EpochReport {
  Position position;
  std::string
      verdict;  // the verdict's bytes if it passed this step, else empty
  bool operator==(const EpochReport&) const = default;
};

// In which order this rank's gradients became complete in one step: indices of
// the plan's parameters, each of the rank's own once; those that were not
// submitted come last, in the plan's order. The answer to OrderWanted.
struct ReadyOrder {
  Revision revision;  // of OrderWanted
  std::vector<uint32_t> parameters;
  bool operator==(const ReadyOrder&) const = default;
};

// --- Negotiated mode: worker to coordinator ---------------------------------
//
// A pass is a step of a job whose graph may differ from step to step, with the
// step's number. Parameters are indices of the plan's. All of it may be said
// twice and then changes nothing.

// A parameter's reduction in a pass: `announcers` ranks, at least one, give a
// gradient. With 0 announcers it closes the pass (`parameter` is 0): no further
// reduction of the pass follows in the sequence, so who has come to it may
// enter the verdict of the pass, and all ranks do so after the same reductions.
struct Decision {
  uint64_t pass = 0;
  uint32_t parameter = 0;
  uint32_t announcers = 0;
  bool operator==(const Decision&) const = default;
};

// The parameters that this rank will submit in this pass: all of them, once; a
// rank that has none says so. A parameter is decided when all of its group have
// announced and those that announced it have submitted it.
struct Announce {
  uint64_t pass = 0;
  std::vector<uint32_t> parameters;
  bool operator==(const Announce&) const = default;
};

// Further ones of the announced are submitted.
struct Submitted {
  uint64_t pass = 0;
  std::vector<uint32_t> parameters;
  bool operator==(const Submitted&) const = default;
};

// The decisions that a rank which was started holds: decisions[i] is number
// `first` + i of the epoch. The first word of its passes on every new stream,
// before it announces and submits again what it did in the pass in progress.
// Decisions before the last two passes may be left out: nobody lacks them.
struct Held {
  uint64_t first = 0;
  std::vector<Decision> decisions;
  bool operator==(const Held&) const = default;
};

// The worker goes on purpose; a clean one has finished its steps.
struct Leave {
  bool clean = true;
  uint64_t steps = 0;  // committed
  std::string reason;
  // The one of an operator that made the last of them the last of all ranks.
  std::optional<Command> command;
  bool operator==(const Leave&) const = default;
};

// --- Coordinator to worker --------------------------------------------------

struct Welcome {
  Generation generation;
  JobSpec spec;
  bool resumed = false;  // the former state of this generation still holds
  // The coordinator does not have this rank's registration (it restarted, say):
  // state it again, even after Start.
  bool forgot = false;
  // Authenticates each later Hello of this generation. In answer to a Hello of
  // generation 0 only, each time another; empty: the former one holds.
  std::string secret;
  bool operator==(const Welcome&) const = default;
};

// The last word on this stream; the worker does not try again.
struct Refused {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string message;
  bool operator==(const Refused&) const = default;
};

struct EpochFormed {
  int rank = -1;
  SharedList<Member> members;  // in rank order
  // The number of the epoch's first step: steps are counted over the whole life
  // of a job, so it is as many as were committed in the epochs before.
  uint64_t first_step = 0;
  bool operator==(const EpochFormed&) const = default;
};

struct PlanReady {
  Revision revision;
  std::string digest;
  bool operator==(const PlanReady&) const = default;
};

// The handles of one communicator, in its rank order. Those of a large one are
// sent in pieces, in order, each below 1 MiB.
struct GroupHandles {
  int communicator = -1;
  SharedList<std::string> handles;
  uint32_t first = 0;  // the place of handles[0] in the communicator
  bool more = false;   // further pieces follow
  bool operator==(const GroupHandles&) const = default;
};

struct Start {
  bool operator==(const Start&) const = default;
};

// Say in which order gradients become complete in the next step (ReadyOrder),
// for a revision with buckets in that order.
struct OrderWanted {
  Revision revision;  // that is to be compiled
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
  bool final = false;  // the job is over: nobody need join again
  bool operator==(const EpochEnded&) const = default;
};

// What people should know of the job, though it goes on. One rank is told, and
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
