// Failures, as workers and launchers report them, and the end of an epoch.

#ifndef LOCKSTEP_PROTOCOL_EVIDENCE_H_
#define LOCKSTEP_PROTOCOL_EVIDENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "protocol/ids.h"
#include "protocol/types.h"

namespace lockstep::protocol {

// How the sender knows of another process's failure.
enum class EvidenceKind : uint8_t {
  kExited = 1,      // proof: waitpid or pidfd of that process
  kPeerReset = 2,   // hint: its data socket was reset
  kPeerSilent = 3,  // hint: its data socket is silent
  // hint: nothing listens at its watch_address, on the sender's host
  kSocketClosed = 4,
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

// Sent once after the end of an epoch: this rank has quiesced, at this
// position.
struct EpochReport {
  Position position;
  // The verdict of step position.step - 1; empty if this rank has passed none
  // in this epoch.
  std::string verdict;
  // The rank's state is that after position.step steps. False for a newcomer
  // that has not received it yet.
  bool holds_state = false;
  // This verdict showed that every rank holds Command::kGrow: the rank ended
  // the epoch in order.
  bool grows = false;
  bool operator==(const EpochReport&) const = default;
};

// How training goes on after the epoch, once all its members have reported or
// are gone: the same for all of them (docs/architecture.md, "Step agreement").
struct RecoveryDecision {
  // The state that the next epoch begins with is that after so many steps.
  uint64_t steps = 0;
  // The verdict of step steps - 1, if a rank has not passed it: it applies the
  // gradients, which it has, with this verdict. Else empty.
  std::string verdict;
  // The ranks of the ended epoch that hold this state, or will once they have
  // applied the verdict; ascending.
  std::vector<uint32_t> holders;
  bool operator==(const RecoveryDecision&) const = default;
};

struct EpochEnded {
  Cause cause;
  bool final = false;  // the job is over or drained: nobody need join again
  bool operator==(const EpochEnded&) const = default;
};

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_EVIDENCE_H_
