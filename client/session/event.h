// Everything that can happen to a session, and everything it can ask for.
//
// The machine is a function (state, now, Event) -> Effects; session.cc turns
// streams, timers and user calls into Events, and Effects into streams.

#ifndef LOCKSTEP_CLIENT_SESSION_EVENT_H_
#define LOCKSTEP_CLIENT_SESSION_EVENT_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "plan/words/ids.h"
#include "plan/words/protocol.h"

namespace lockstep::session {

// --- What can happen --------------------------------------------------------

struct Begin {};  // once, first

struct StreamOpened {  // may be sent on
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

// The moment the machine last asked for has passed.
struct Wake {};

// The user's side. Statements (all but Moved and BusyChanged) are remembered
// and told again after a lost stream, until the coordinator is known to have
// heard them.
struct RegisterAll {
  std::vector<protocol::RegisterChunk> chunks;
};
struct AcceptPlan {
  Revision revision;
  std::string digest;
  // In revisions after the first: plan::OrderOf.
  std::vector<uint32_t> observed_order = {};
};
struct OfferHandles {
  std::vector<protocol::GroupHandle> handles;
};
struct DataPlaneConnected {
  std::vector<protocol::GroupTransport> groups = {};
};
// Negotiated mode: what the rank will submit in a pass, and further of it that
// it has.
struct AnnouncePass {
  protocol::Announce announce;
};
struct SubmitInPass {
  protocol::Submitted submitted;
};
// The answer to View::order_wanted. Not remembered: who resumes is asked again.
struct OfferOrder {
  protocol::ReadyOrder order;
};
// What values it begins with.
struct StateValues {
  protocol::ValueDigests values;
};
// Where the worker is. Only the newest is ever sent.
struct Moved {
  protocol::Progress progress;
};
struct BusyChanged {
  protocol::Busy busy;
};
// Proof (kExited) of a member's death ends the epoch here at once, coordinator
// or not; a hint is only passed on.
struct Accuse {
  protocol::Evidence evidence;
};
// Ends the epoch here at once, and everywhere when the coordinator has heard.
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
                 OfferOrder, AnnouncePass, SubmitInPass, StateValues, Moved,
                 BusyChanged, Accuse, FailLocally, Quiesced, LeaveNow>;

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
// Cancel it; what it still says is ignored.
struct CloseStream {
  uint64_t stream;
};

// Negotiated mode: what to reduce next, in this order; each once.
struct Decided {
  std::vector<protocol::Decision> decisions;
};

// To be printed where the program's own errors are.
struct Warn {
  std::string text;
};

using Effect = std::variant<OpenStream, SendOn, CloseStream, Decided, Warn>;
using Effects = std::vector<Effect>;

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_EVENT_H_
