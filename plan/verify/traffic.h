// Matches transfers of different ranks with each other.
//
// Below the plan there are no tags: the order on a communicator decides which
// transfers match. The k-th collective of one member matches the k-th of all
// others; the k-th send from a to b matches b's k-th receive from a.

#ifndef LOCKSTEP_PLAN_VERIFY_TRAFFIC_H_
#define LOCKSTEP_PLAN_VERIFY_TRAFFIC_H_

#include <map>
#include <tuple>
#include <vector>

#include "plan/ir.h"
#include "plan/verify/roster.h"

namespace lockstep::plan {

// A transfer of a plan, or a task: ref.lane is then kTaskLane and ref.index the
// index of the task.
struct PlanNode {
  int rank = -1;
  TransferRef ref;
  auto operator<=>(const PlanNode&) const = default;
};
inline constexpr int kTaskLane = -1;

inline bool IsTask(const PlanNode& place) {
  return place.ref.lane == kTaskLane;
}

// The transfer of a node that is not a task.
const Transfer& At(const Plan& plan, const PlanNode& place);

// The nodes that must end before it begins.
std::vector<PlanNode> NeedsOf(const Plan& plan, const PlanNode& place);

// "transfer 3 of lane gradient (all-reduce of 1024 f32, sum, bucket 3)",
// "task 4 (forward of stage 1, micro-batch 3)"
std::string Describe(const Plan& plan, const PlanNode& place);

struct Channel {
  std::vector<PlanNode> sends;
  std::vector<PlanNode> receives;
};

// All transfers in launch order, which on one communicator is the order of a
// lane.
struct Traffic {
  // collectives[c][p]: the collectives of member p of communicator c.
  std::vector<std::vector<std::vector<PlanNode>>> collectives;
  // By communicator, source and destination (positions in it).
  std::map<std::tuple<int, int, int>, Channel> channels;
};

// The structure of the plan must have passed, except its launch orders.
Traffic TrafficOf(const Plan& plan);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_TRAFFIC_H_
