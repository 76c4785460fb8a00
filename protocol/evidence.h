// Failures, as workers and launchers report them, and the end of an epoch.

#ifndef LOCKSTEP_PROTOCOL_EVIDENCE_H_
#define LOCKSTEP_PROTOCOL_EVIDENCE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "protocol/ids.h"
#include "protocol/types.h"

namespace lockstep::protocol {

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

struct EpochEnded {
  Cause cause;
  bool final = false;  // the job is over: no worker need join again
  bool operator==(const EpochEnded&) const = default;
};

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_EVIDENCE_H_
