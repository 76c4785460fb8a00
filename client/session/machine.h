// One worker's life, as a pure state machine: join, plan, run, resume, leave.
//
// Step() takes one event and the time and returns what should be done; the
// session (session.cc) owns the threads and the streams. Nothing here knows
// gRPC, protobuf, a thread or a clock.
//
//   connecting ─Welcome▶ waiting ─EpochFormed▶ formed ─Register▶ registering
//       ▲                                                          │ PlanReady
//       │ stream lost: backoff, Hello with generation              ▼
//   (any phase) ◀──────────── running ◀─Start─ connecting data ◀─ planned
//                                │
//                                └─EpochEnded──▶ ended      Refused──▶ failed
//
// A lost stream does not change the phase: training goes on without the
// coordinator, and the next stream resumes.
//
// Threads: not thread-safe; the session's loop thread is the only caller.
// Errors:  Step cannot fail. What went wrong for good is View::status.

#ifndef LOCKSTEP_CLIENT_SESSION_MACHINE_H_
#define LOCKSTEP_CLIENT_SESSION_MACHINE_H_

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/job_spec.h"
#include "plan/words/ids.h"
#include "plan/words/protocol.h"

namespace lockstep::session {

struct MachineOptions {
  JobName job;
  WorkerName worker;
  std::optional<JobSpec> spec;
  std::string token;
  protocol::ProcessInfo process;
  int addresses = 1;  // streams are opened to them in turn
  absl::Duration backoff_initial = absl::Milliseconds(50);
  absl::Duration backoff_max = absl::Milliseconds(300);
  // The least time between two Progress messages.
  absl::Duration progress_interval = absl::Milliseconds(100);
  // Leaving waits this long for the coordinator's answer.
  absl::Duration leave_patience = absl::Seconds(2);
  uint64_t jitter_seed = 0;
};

// --- What can happen --------------------------------------------------------

struct Begin {};  // once, first
struct StreamOpened {
  uint64_t stream;
};  // may be sent on
struct StreamMessage {
  uint64_t stream;
  protocol::ToWorker message;
};
struct StreamClosed {
  uint64_t stream;
  absl::Status status;
};
struct Wake {};

// The user's side.
struct RegisterAll {
  std::vector<protocol::RegisterChunk> chunks;
};
struct AcceptPlan {
  Revision revision;
  std::string digest;
};
struct OfferHandles {
  std::vector<protocol::GroupHandle> handles;
};
struct DataPlaneConnected {};
// Where the worker is. Coalesced: only the newest is ever sent.
struct Moved {
  protocol::Progress progress;
};
struct BusyChanged {
  protocol::Busy busy;
};
struct Accuse {
  protocol::Evidence evidence;
};
struct FailLocally {
  protocol::LocalFailure failure;
};
struct Quiesced {
  protocol::EpochReport report;
};
struct LeaveNow {
  protocol::Leave leave;
};

using Event =
    std::variant<Begin, StreamOpened, StreamMessage, StreamClosed, Wake,
                 RegisterAll, AcceptPlan, OfferHandles, DataPlaneConnected,
                 Moved, BusyChanged, Accuse, FailLocally, Quiesced, LeaveNow>;

// --- What can be asked for --------------------------------------------------

// Open stream number `stream` (1, 2, 3, ...) to address number `address`.
struct OpenStream {
  uint64_t stream;
  int address;
};
struct SendOn {
  uint64_t stream;
  protocol::ToCoordinator message;
};
struct CloseStream {
  uint64_t stream;
};

using Effect = std::variant<OpenStream, SendOn, CloseStream>;
using Effects = std::vector<Effect>;

// --- What the session can see -----------------------------------------------

enum class SessionPhase : uint8_t {
  kJoining = 1,  // no epoch yet
  kFormed = 2,   // rank and members are known
  kPlanned = 3,  // a plan's digest is known
  kRunning = 4,  // all ranks are connected
  kEnded = 5,    // the epoch ended: cause is set
  kLeft = 6,
  kFailed = 7,  // refused: status is set
};

// A value; the session publishes it after every Step.
struct View {
  SessionPhase phase = SessionPhase::kJoining;
  bool connected = false;  // a stream to the coordinator is up and welcomed
  Generation generation;
  std::optional<JobSpec> spec;  // as the coordinator holds it
  EpochId epoch;
  int rank = -1;
  std::vector<protocol::Member> members;
  Revision revision;
  std::string plan_digest;
  std::map<int, std::vector<std::string>> handles;  // by communicator
  protocol::Cause cause;
  bool job_over = false;
  absl::Status status;  // why the session ended, when kEnded or kFailed
};

class Machine {
 public:
  explicit Machine(const MachineOptions& options);

  // Applies one event. Calls must carry non-decreasing times.
  Effects Step(absl::Time now, const Event& event);

  // When Step(Wake) could do something; InfiniteFuture if only an event can.
  absl::Time NextWake() const;

  const View& view() const { return view_; }

 private:
  View view_;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_MACHINE_H_
