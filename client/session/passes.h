// What a rank says and hears of passes, in negotiated mode.
//
//   said    Announce(7: a b)  Submitted(7: b)  Submitted(7: a)
//   heard   ... 40: a   41: close 6 | 42: b   43: a   44: close 7
//           └───── pass 6 ─────────┘ └───── pass 7 ──────────┘
//
// Both are stated again on a new stream: the coordinator may be another, which
// learns the sequence of decisions from what the ranks hold. Other ranks are at
// most one pass behind, so decisions of the pass before the newest announced
// one are kept for them, and no earlier ones.
//
// A value. Threads: none.

#ifndef LOCKSTEP_CLIENT_SESSION_PASSES_H_
#define LOCKSTEP_CLIENT_SESSION_PASSES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "plan/words/protocol.h"

namespace lockstep::session {

class Passes {
 public:
  // This rank says what it will submit in a pass, and that it did.
  void Announce(const protocol::Announce& announce);
  void Submit(const protocol::Submitted& submitted);

  // The decisions that are new, in order. OutOfRange: some before them have not
  // been heard. Internal: one that was heard is another now.
  absl::StatusOr<std::vector<protocol::Decision>> Hear(
      const protocol::Decide& decide);

  // What a coordinator must know that has heard nothing on this stream.
  std::vector<protocol::ToCoordinatorBody> Restate() const;

  bool operator==(const Passes&) const = default;

 private:
  bool announced_ = false;
  protocol::Announce announce_;    // of the newest pass
  protocol::Submitted submitted_;  // in it, all together
  protocol::Held held_;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_PASSES_H_
