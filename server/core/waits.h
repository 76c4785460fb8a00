// The wait graph of an epoch, and therefore which rank is to blame when no rank
// moves.
//
//   before Start   a rank that has done what the stage asks waits for the ranks
//                  that have not
//   in a step      a rank that has submitted everything (kTransfer) waits for
//                  the members of its gradient groups that have not; a rank in
//                  the verdict waits for every rank that is not
//   in a run       a rank that waits for a pipeline's message waits for its
//                  sender, unless the sender is further
//   in a pass      a rank that has submitted everything waits for every rank
//                  that has not done what the pass asks; the verdict as in a
//                  step
//
//   w0 in the verdict ──▶ w1 waits for transfers ──▶ w2 computes: blame w2
//
// Edges lead from further to less far, so there is no cycle, and a stuck rank
// without an edge is to blame. Edges to senders may form one while reports are
// old: edges on a cycle are left out. Built on demand in O(n log n), never
// stored.

#ifndef LOCKSTEP_SERVER_CORE_WAITS_H_
#define LOCKSTEP_SERVER_CORE_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/ir.h"
#include "server/core/progress_tracker.h"

namespace lockstep::core {

class Waits {
 public:
  // Before Start: done[rank] says whether it has done what is asked now.
  static Waits OfStage(const ProgressTracker& progress,
                       const std::vector<bool>& done);
  // In a step. Without a plan everybody is taken to need everybody.
  // `passes_done`: in negotiated mode, of how many passes each rank has
  // announced and submitted all that others wait for; else empty.
  static Waits OfSteps(const ProgressTracker& progress, const plan::Plan* plan,
                       const std::vector<uint64_t>& passes_done = {});

  bool Any(int rank) const;

  // At most `max` that the rank waits for directly, least far first.
  std::vector<int> For(int rank, size_t max) const;

  // Does anybody wait for the rank directly? In a time that does not depend on
  // how many ranks there are.
  bool Needed(int rank) const;

  // At most `max` that wait for the rank directly, in rank order.
  std::vector<int> On(int rank, size_t max) const;

 private:
  explicit Waits(const ProgressTracker& progress);

  // A list of ranks that need each other, least far first.
  void AddGroup(std::vector<int> ranks);
  bool Needs(int waiter, int other) const;
  void AddSenders(const ProgressTracker& progress);
  void LeaveOutCycles();

  static constexpr uint64_t kNothing = 0;

  std::vector<bool> present_;
  std::vector<uint64_t> reached_;  // how far it is
  std::vector<uint64_t> needs_;    // how far others must be; kNothing
  std::vector<uint64_t> needed_;   // how far others need it to be
  std::vector<int> sender_;        // of the message it waits for; -1: none
  std::vector<bool> is_sender_;    // that somebody waits for
  std::vector<std::vector<int>> groups_;          // [0] is everybody
  std::vector<std::vector<int>> groups_of_rank_;  // those in which it waits
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_WAITS_H_
