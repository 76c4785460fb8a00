// From the end of an epoch to the decision how training goes on.
//
//   the epoch ends: every member is awaited
//     EpochReport             ─▶ reported
//     Leave, clean            ─▶ left
//     lost, left uncleanly,
//     or joined again         ─▶ gone
//   nobody is awaited any more ─▶ Decide
//
// A member that has reported is expected to join again; then it has returned.
//
// A rank passes the verdict of a step only when all ranks have entered it, and
// a rank enters it only when it has all reduced gradients of that step. So two
// ranks are at most one step apart, and a rank that is behind has the gradients
// that it must apply: the decision is the position of the rank that is ahead,
// and the verdict that it passed. docs/architecture.md, "Step agreement".
//
// Only reports count, and leaves after the last step: progress may be old. A
// rank that reported never passes a verdict afterwards.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_RECOVERY_TRACKER_H_
#define LOCKSTEP_SERVER_CORE_RECOVERY_TRACKER_H_

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "protocol/evidence.h"
#include "protocol/ids.h"
#include "protocol/types.h"
#include "server/core/durable_state.h"

namespace lockstep::core {

class RecoveryTracker {
 public:
  // `left`: members that left cleanly. Both are of the epoch that ended.
  RecoveryTracker(const SharedList<protocol::Member>& members,
                  const std::map<WorkerName, Departure>& left);

  // A repeated report changes nothing. One of a member that was lost counts: it
  // has come back.
  void Report(const WorkerName& worker, const protocol::EpochReport& report);
  // It had left after its last step when it heard of the end.
  void Leave(const WorkerName& worker, const Departure& departure);
  // No report of the member will follow: it has joined again, or is lost. One
  // that has reported stays so.
  void Forget(const WorkerName& worker);
  // It has reported, and left to join again.
  void LeaveToReturn(const WorkerName& worker);
  int away() const { return static_cast<int>(away_.size()); }
  bool IsAway(const WorkerName& worker) const;

  bool settled() const { return awaited_ == 0; }
  // Every member that is here has joined again.
  bool all_returned() const { return returning_.empty(); }
  // In rank order.
  std::vector<WorkerName> Awaited() const;
  // Members that are awaited, or have reported and not joined again; in rank
  // order.
  std::vector<WorkerName> Returning() const;
  bool any_reported() const;
  // Once settled.
  protocol::RecoveryDecision Decide() const;

 private:
  struct Awaiting {};
  struct Gone {};
  using Standing =
      std::variant<Awaiting, protocol::EpochReport, Departure, Gone>;

  void Settle(const WorkerName& worker, Standing as);

  std::vector<WorkerName> names_;   // by rank
  std::vector<Standing> standing_;  // by rank
  std::map<WorkerName, size_t> ranks_;
  int awaited_ = 0;
  std::set<size_t> returning_;  // ranks
  std::set<size_t> away_;       // some of these
};

// "replay step 41", "roll forward to step 42"; for people.
std::string DecisionText(const protocol::RecoveryDecision& decision);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_RECOVERY_TRACKER_H_
