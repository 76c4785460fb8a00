// Edits of plans that keep references to other transfers and tasks valid.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_EDIT_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_EDIT_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/ir.h"

namespace lockstep::plan {

// A transfer of a rank.
struct Place {
  int rank = 0;
  TransferRef ref;
};

inline Transfer& At(Plan& plan, const Place& place) {
  return plan.ranks[place.rank]
      .lanes[place.ref.lane]
      .transfers[place.ref.index];
}

// Removes a transfer and all references to it.
void Remove(RankPlan& rank, TransferRef gone);

// At the end of the lane and of the launch order, before the verdict.
TransferRef Append(RankPlan& rank, int lane, Transfer transfer);

// Next after `before` in the lane and in the launch order.
TransferRef InsertBehind(RankPlan& rank, TransferRef before, Transfer transfer);

// Swaps two transfers of a lane. References follow them, not the launch order.
void SwapWhole(RankPlan& rank, int lane, int a, int b);

// The after_task of transfers follows the tasks. A transfer after a removed
// task then is after the preceding task.
void MoveTask(RankPlan& rank, int from, int to);
void RemoveTask(RankPlan& rank, int task);

// The other end of a message: it has the same number among the messages between
// the two ranks on the communicator.
std::optional<Place> OtherSide(const Plan& plan, const Place& message);

// The sends of a task and the receives that it waits for.
std::vector<Place> MessagesOf(const Plan& plan, int rank, int task);

// Removes messages at this end, or at both ends.
void RemoveMessages(Plan& plan, const std::vector<Place>& messages,
                    bool both_sides);

int AddCommunicator(Plan& plan, const std::string& name,
                    std::vector<int> ranks);
int AddLane(RankPlan& rank, LaneKind kind, const std::string& name);

// The number of sends and receives of the rank.
int CountMessages(const RankPlan& rank);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_EDIT_H_
