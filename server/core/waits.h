// The wait graph of an epoch, which shows the rank at fault when no rank moves.
//
//   before Start   a rank that has done what the stage requires waits for the
//                  ranks that have not
//   in a step      a rank that has submitted everything (kTransfer) waits for
//                  the members of its gradient groups that have not; a rank in
//                  the verdict waits for every rank that is not
//   in a run       a rank that waits for a pipeline message waits for its
//                  sender, unless the sender is further
//   in a group     a rank whose call is not complete waits for the members that
//                  have called less (group_waits.h)
//   in a pass      a rank that has submitted everything waits for every rank
//                  that has not done what the pass requires; the verdict as in
//                  a step
//
//   w0 in the verdict ──▶ w1 waits for transfers ──▶ w2 computes: at fault
//
// Edges lead from ranks that are further to ranks that are less far, so there
// is no cycle, and a stuck rank without an edge is at fault. Edges to senders
// may form a cycle if reports are outdated: edges on a cycle are removed. Edges
// in groups form a cycle if programs differ: at fault are the ranks on it that
// have left out a call and wait in none, else all of them. Built on demand in
// O(n log n), never stored.

#ifndef LOCKSTEP_SERVER_CORE_WAITS_H_
#define LOCKSTEP_SERVER_CORE_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/ir.h"
#include "server/core/group_waits.h"
#include "server/core/progress_tracker.h"

namespace lockstep::core {

class Waits {
 public:
  // Before Start: done[rank] says whether the rank has done what is required.
  static Waits OfStage(const ProgressTracker& progress,
                       const std::vector<bool>& done);
  // In a step. Without a plan, every rank is assumed to need every other.
  // `passes_done` (negotiated mode, else empty): for how many passes each rank
  // has announced and submitted all that other ranks wait for.
  static Waits OfSteps(const ProgressTracker& progress, const plan::Plan* plan,
                       const std::vector<uint64_t>& passes_done = {});

  // Whether another rank is at fault that this one does not move.
  bool Any(int rank) const;

  // At most `max` ranks that the rank waits for directly, least far first.
  std::vector<int> For(int rank, size_t max) const;

  // Whether a rank waits for this one directly. Independent of the number of
  // ranks.
  bool Needed(int rank) const;

  // At most `max` ranks that wait for this one directly, in rank order.
  std::vector<int> On(int rank, size_t max) const;

  // The call of a declared group that other ranks wait in and this one has not
  // made; empty if there is none.
  std::string CallMissing(int rank) const { return calls_.CallMissing(rank); }

 private:
  explicit Waits(const ProgressTracker& progress);

  // Adds ranks that need each other; sorts them, least far first.
  void AddGroup(std::vector<int> ranks);
  bool Needs(int waiter, int other) const;
  void AddGradientGroups(const ProgressTracker& progress,
                         const plan::Plan& plan);
  void AddSenders(const ProgressTracker& progress);
  void LeaveOutCycles();
  void FindFaultsOfCycles();

  static constexpr uint64_t kNothing = 0;

  GroupWaits calls_;
  std::vector<bool> at_fault_;  // of a cycle
  std::vector<bool> present_;
  std::vector<uint64_t> reached_;  // how far each rank is
  std::vector<uint64_t> needs_;    // how far it needs others to be; kNothing
  std::vector<uint64_t> needed_;   // how far others need it to be
  std::vector<int> sender_;        // of the message it waits for; -1: none
  std::vector<bool> is_sender_;    // some rank waits for its message
  std::vector<std::vector<int>> groups_;          // [0] is all ranks
  std::vector<std::vector<int>> groups_of_rank_;  // those in which it waits
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_WAITS_H_
