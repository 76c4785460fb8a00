// What the messages have in common: where a worker is, who it is, why an epoch
// ended, and what an operator wants.

#ifndef LOCKSTEP_PROTOCOL_TYPES_H_
#define LOCKSTEP_PROTOCOL_TYPES_H_

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/command.h"
#include "protocol/ids.h"

namespace lockstep::protocol {

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
  std::string watch_address;  // as in Hello
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
  kGrown = 12,          // all ranks ended it, so that waiting workers join
};

struct Cause {
  CauseKind kind = CauseKind::kNone;
  std::vector<WorkerName> workers;  // concerned, in rank order
  std::string message;              // one sentence: worker, place, time
  bool operator==(const Cause&) const = default;
};

// What the job should do, by an operator's commands and because workers wait to
// join an elastic job; each message replaces all earlier ones. A rank reports
// the commands it has when it enters a verdict, and all act at the step whose
// verdict shows that every rank has the same message
// (client/gradient/command_gate.h says why it must be the same).
struct DesiredCommands {
  std::vector<Command> commands;  // ascending, each once
  std::string reason;             // for people
  // The commands of a job are numbered 1, 2, 3, ...; 0: none so far.
  uint64_t number = 0;
  // How often a save was asked for in this epoch. Beside the commands, because
  // a save changes none of them: paused ranks stay paused, and save after it.
  uint64_t saves = 0;
  // How often, in this epoch, the coordinator began or ceased to want
  // Command::kGrow. Beside the commands, because it ends no pause.
  uint64_t growths = 0;
  bool wants_growth() const { return growths % 2 == 1; }
  bool operator==(const DesiredCommands&) const = default;
};

// Whether `a` replaces `b`, of the same epoch.
inline bool IsNewer(const DesiredCommands& a, const DesiredCommands& b) {
  return std::tie(a.number, a.saves, a.growths) >
         std::tie(b.number, b.saves, b.growths);
}

// The launch that started a worker. Workers of one job are from one launch, or
// from several launches, one per node.
struct Launch {
  std::string id;  // random; equal launches have equal ids
  int nodes = 1;   // launchers that start the job together
  int node_rank = 0;
  bool operator==(const Launch&) const = default;
};

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_TYPES_H_
