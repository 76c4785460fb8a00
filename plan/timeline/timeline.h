// The timeline of a plan: when every task and transfer happens, given the times
// of tasks and links, and how long the ranks are idle.

#ifndef LOCKSTEP_PLAN_TIMELINE_TIMELINE_H_
#define LOCKSTEP_PLAN_TIMELINE_TIMELINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "plan/ir.h"
#include "plan/schedule/play.h"
#include "plan/verify/simulator.h"

namespace lockstep::plan {

// Times in any one unit. Local operations (LocalOp) take no time: their cost is
// not a property of the plan. Neither do halo exchanges: the caller launches
// them, so the plan does not say when and how often.
struct CostModel {
  // One entry for each stage, or one for all.
  std::vector<WorkTimes> stages = {{}};
  int64_t latency = 0;  // per transfer
  double per_byte = 0;  // per byte that a rank sends in it
};

struct Timeline {
  std::vector<RankSpans> ranks;
  int64_t compute_end = 0;  // end of the last task
  int64_t end = 0;          // end of the last task or transfer
  // The idle fraction of the time until compute_end, over the ranks that have
  // tasks. 0 if none has.
  double bubble = 0;
};

// The plan must be verified. InvalidArgument if the number of stage times is
// neither one nor the number of stages, if a stage time is less than 1, or if a
// transfer cost is negative.
absl::StatusOr<Timeline> TimelineOf(const Plan& plan, const CostModel& costs);

// The number of stages of the plan's tasks: 1 + the highest.
int StagesOf(const Plan& plan);

// The data sent over links, by sender and receiver.
struct LinkTraffic {
  int64_t messages = 0;
  int64_t bytes = 0;
  bool operator==(const LinkTraffic&) const = default;
};
using LinkTraffics = std::map<std::pair<int, int>, LinkTraffic>;

// In one step, without halo exchanges.
LinkTraffics LinksOf(const Plan& plan);

// In one run of plan.halos[halo]. Its adjoint sends as much in the other
// direction.
LinkTraffics LinksOfHalo(const Plan& plan, int halo);

// The most micro-batches of a stage that are at the same time between the start
// of their forward pass and the end of their backward pass: the activations
// that the stage must store.
std::map<int, int> ActivationsKept(const RankPlan& rank);

// Bytes of the buffers of a rank's messages.
int64_t BufferBytes(const RankPlan& rank);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_TIMELINE_TIMELINE_H_
