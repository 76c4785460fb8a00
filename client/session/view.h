// What the rest of the process sees of its session: a value, published after
// every change.

#ifndef LOCKSTEP_CLIENT_SESSION_VIEW_H_
#define LOCKSTEP_CLIENT_SESSION_VIEW_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/job_spec.h"
#include "plan/words/ids.h"
#include "plan/words/protocol.h"
#include "plan/words/shared_list.h"

namespace lockstep::session {

// Ordered as a life goes.
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
  std::optional<JobSpec> spec;  // as the coordinator holds it
  EpochId epoch;
  int rank = -1;
  SharedList<protocol::Member> members;  // in rank order
  uint64_t first_step = 0;               // of the epoch, as in EpochFormed
  Revision revision;                     // of the newest plan announced
  std::string plan_digest;
  std::map<int, SharedList<std::string>> handles;  // by communicator
  protocol::DesiredCommands wanted;                // of the job, by an operator
  // Whose bucket order was asked for, and not answered on this stream; 0: none.
  Revision order_wanted;
  protocol::Cause cause;  // what the coordinator said of the epoch's end
  bool job_over = false;  // nobody need join again
  absl::Status status;    // OK until kEnded or kFailed; then final, but:
  // This worker saw a peer die and did not wait for the coordinator, whose
  // sentence, the same for all ranks, replaces `status` if it comes.
  bool provisional = false;
  absl::Status leave_status;  // with kLeft: whether the coordinator knows
};

// True once nothing that waits for this session can be waited for any more.
inline bool IsOver(const View& view) {
  return view.phase >= SessionPhase::kEnded;
}

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_VIEW_H_
