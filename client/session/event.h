// Every event a session handles, and every effect it can request.
//
// The machine is a function (state, now, Event) -> Effects; the event loop
// turns streams, timers and user calls into Events, and Effects into streams.

#ifndef LOCKSTEP_CLIENT_SESSION_EVENT_H_
#define LOCKSTEP_CLIENT_SESSION_EVENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "protocol/ids.h"
#include "protocol/protocol.h"

namespace lockstep::session {

// --- Events -----------------------------------------------------------------

struct Begin {};  // once, first

struct StreamOpened {  // the stream accepts messages
  uint64_t stream;
};
struct StreamMessage {
  uint64_t stream;
  protocol::ToWorker message;
};
struct StreamClosed {
  uint64_t stream;
  absl::Status status;
};

// The time of NextWake() has passed.
struct DeadlineExpired {};

// User calls. All but Moved and BusyChanged are stored and sent again after a
// lost stream, until the coordinator is known to have received them.
struct RegisterAll {
  std::vector<protocol::RegisterChunk> chunks;
};
struct AcceptPlan {
  Revision revision;
  std::string digest;
  // In revisions after the first: plan::OrderOf.
  std::vector<uint32_t> observed_order = {};
  // The plan as it was fetched, for a coordinator that restarts.
  std::shared_ptr<const std::string> bytes = nullptr;
};
struct OfferHandles {
  std::vector<protocol::GroupHandle> handles;
};
struct DataPlaneConnected {
  std::vector<protocol::GroupTransport> groups = {};
};
// Negotiated mode: the parameters the rank will submit in a pass, and those it
// has submitted.
struct AnnouncePass {
  protocol::Announce announce;
};
struct SubmitInPass {
  protocol::Submitted submitted;
};
// The answer to View::order_wanted. Not stored: a new stream asks again.
struct OfferOrder {
  protocol::ReadyOrder order;
};
// Digests of the values that the rank begins with.
struct ReportValueDigests {
  protocol::ValueDigests values;
};
// The rank's state of checkpoints. Only the newest is sent, and repeated.
struct ReportCheckpoint {
  protocol::CheckpointReport report;
};
// The worker's position. Only the newest is ever sent.
struct Moved {
  protocol::Progress progress;
};
struct BusyChanged {
  protocol::Busy busy;
};
// Evidence about a member. Proof of death (kExited) ends the epoch here at
// once, even without a coordinator; a hint is only forwarded.
struct PeerFailed {
  protocol::Evidence evidence;
};
// Ends the epoch here at once, and on all ranks once the coordinator receives
// it.
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
    std::variant<Begin, StreamOpened, StreamMessage, StreamClosed,
                 DeadlineExpired, RegisterAll, AcceptPlan, OfferHandles,
                 DataPlaneConnected, OfferOrder, AnnouncePass, SubmitInPass,
                 ReportValueDigests, ReportCheckpoint, Moved, BusyChanged,
                 PeerFailed, FailLocally, Quiesced, LeaveNow>;

// --- Effects ----------------------------------------------------------------

// Open stream number `stream` (1, 2, 3, ...) to address number `address`.
struct OpenStream {
  uint64_t stream;
  int address;
};
struct SendOn {
  uint64_t stream;
  protocol::ToCoordinator message;
};
// Cancel the stream; its further messages are ignored.
struct CloseStream {
  uint64_t stream;
};

// Negotiated mode: the next reductions, in this order, each once.
struct Decided {
  std::vector<protocol::Decision> decisions;
};

// A warning for the program's standard error.
struct Warn {
  std::string text;
};

using Effect = std::variant<OpenStream, SendOn, CloseStream, Decided, Warn>;
using Effects = std::vector<Effect>;

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_EVENT_H_
