// What a plan costs: when everything in it would happen if computing and links
// took given times, and what the ranks lose by waiting.

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

// Times in one unit of the caller's choice. Local operations (LocalOp) take no
// time: what they cost is not a property of the plan.
struct CostModel {
  // One entry for each stage, or one for all.
  std::vector<WorkTimes> stages = {{}};
  int64_t latency = 0;  // of a transfer
  double per_byte = 0;  // of what a rank sends in it
};

struct Timeline {
  std::vector<RankSpans> ranks;
  int64_t compute_end = 0;  // of the last task
  int64_t end = 0;          // of the last task or transfer
  // A fraction of the time until compute_end, on the ranks that have tasks: the
  // share in which they compute nothing. 0 if none has.
  double bubble = 0;
};

// The plan must have been verified. InvalidArgument if there are neither one
// nor as many stage times as stages, or if one is less than 1 or a cost of a
// transfer is negative.
absl::StatusOr<Timeline> TimelineOf(const Plan& plan, const CostModel& costs);

// Stages of the plan's tasks: 1 + the highest.
int StagesOf(const Plan& plan);

// What goes over a link in one step, by sender and receiver.
struct LinkTraffic {
  int64_t messages = 0;
  int64_t bytes = 0;
  bool operator==(const LinkTraffic&) const = default;
};
std::map<std::pair<int, int>, LinkTraffic> LinksOf(const Plan& plan);

// The most micro-batches of a stage that are between its forward pass and the
// end of its backward pass at once: the activations that it must keep.
std::map<int, int> ActivationsKept(const RankPlan& rank);

// Bytes of the buffers that a rank's messages lie in.
int64_t BufferBytes(const RankPlan& rank);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_TIMELINE_TIMELINE_H_
