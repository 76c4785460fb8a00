// The published state of a session, as the rest of the process sees it: a value
// that is published after every change.

#ifndef LOCKSTEP_CLIENT_SESSION_VIEW_H_
#define LOCKSTEP_CLIENT_SESSION_VIEW_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/job_spec.h"
#include "protocol/checkpoint.h"
#include "protocol/evidence.h"
#include "protocol/ids.h"
#include "protocol/shared_list.h"
#include "protocol/types.h"

namespace lockstep::session {

// In the order in which a session reaches them.
enum class SessionPhase : uint8_t {
  kJoining = 1,  // no epoch yet
  kFormed = 2,   // rank and members are known
  kPlanned = 3,  // a plan's digest is known
  kRunning = 4,  // all ranks are connected
  kEnded = 5,    // the epoch ended: status says why
  kLeft = 6,     // after Leave
  kFailed = 7,   // refused, or no coordinator was found: status says why
};

struct View {
  SessionPhase phase = SessionPhase::kJoining;
  bool connected = false;  // a stream to the coordinator is up and welcomed
  Generation generation;
  std::optional<JobSpec> spec;  // the coordinator's
  EpochId epoch;
  int rank = -1;
  SharedList<protocol::Member> members;  // in rank order
  uint64_t first_step = 0;               // of the epoch, as in EpochFormed
  std::vector<uint32_t> holders;         // likewise
  int previous_world = 0;                // likewise
  Revision revision;                     // of the newest plan announced
  std::string plan_digest;
  std::map<int, SharedList<std::string>> handles;  // by communicator
  protocol::DesiredCommands wanted;                // of the job, by an operator
  // The newest of this epoch; nothing in it is taken back.
  protocol::CheckpointNews checkpoints;
  // The revision whose bucket order the coordinator asks for on this stream;
  // 0: none.
  Revision order_wanted;
  protocol::Cause cause;  // of the epoch's end, from the coordinator
  bool job_over = false;  // joining again is useless
  // How training goes on after the epoch.
  std::optional<protocol::RecoveryDecision> recovery;
  // The coordinator refuses this incarnation since the epoch ended: why.
  absl::Status fenced;
  // No coordinator knows the epoch, which has ended: why.
  absl::Status forgotten;
  absl::Status status;  // OK until kEnded or kFailed; then final, but:
  // This worker saw a peer die and did not wait for the coordinator. If the
  // coordinator's message, equal on all ranks, arrives, it replaces `status`.
  bool provisional = false;
  absl::Status leave_status;  // with kLeft: OK if acknowledged
};

// True once no wait for this session can succeed any more.
inline bool IsOver(const View& view) {
  return view.phase >= SessionPhase::kEnded;
}

// The final error of a session; OK before.
inline absl::Status WhyOver(const View& view) {
  if (!view.status.ok() || !IsOver(view)) return view.status;
  return absl::FailedPreconditionError("this worker has left the job");
}

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_VIEW_H_
