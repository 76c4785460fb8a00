// A rank's messages about passes, in negotiated mode.
//
//   sent      Announce(7: a b)  Submitted(7: b)  Submitted(7: a)
//   received  ... 40: a   41: close 6 | 42: b   43: a   44: close 7
//             └───── pass 6 ─────────┘ └───── pass 7 ──────────┘
//
// Both are sent again on a new stream: a restarted coordinator learns the
// sequence of decisions from the ranks. Other ranks are at most one pass
// behind, so decisions are kept from the pass before the newest announced one
// on.
//
// A value. Threads: none.

#ifndef LOCKSTEP_CLIENT_SESSION_PASSES_H_
#define LOCKSTEP_CLIENT_SESSION_PASSES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "protocol/protocol.h"

namespace lockstep::session {

class Passes {
 public:
  // Records what this rank will submit in a pass, and what it has submitted.
  void Announce(const protocol::Announce& announce);
  void Submit(const protocol::Submitted& submitted);

  // The new decisions, in order. OutOfRange: earlier ones are missing.
  // Internal: a decision differs from the one received before.
  absl::StatusOr<std::vector<protocol::Decision>> Receive(
      const protocol::Decide& decide);

  // The messages that bring a coordinator on a new stream up to date.
  std::vector<protocol::ToCoordinatorBody> Restate() const;

  bool operator==(const Passes&) const = default;

 private:
  bool announced_ = false;
  protocol::Announce announce_;    // of the newest pass
  protocol::Submitted submitted_;  // in that pass, all together
  protocol::Held held_;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_PASSES_H_
