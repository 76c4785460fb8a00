// A plan as JSON: for people who read one, and for plans written by hand.
//
//   {"mesh": "pipe=2",
//    "communicators": [{"name": "verdict", "ranks": [0, 1]},
//                      {"name": "pipe@0>1", "ranks": [0, 1]}],
//    "ranks": [
//     {"lanes": [{"kind": "pipeline", "name": "to rank 1", "transfers": [
//        {"kind": "send", "communicator": 1, "shape": [8], "peer": 1}]}],
//      "launch_order": [[0, 0]]},
//     {"lanes": [{"kind": "pipeline", "name": "from rank 0", "transfers": [
//        {"kind": "recv", "communicator": 1, "shape": [8], "peer": 0}]}],
//      "launch_order": [[0, 0]]}]}
//
// The fields are those of plan/ir.h, in its words; a transfer is named
// [lane, index]. What has its default may be left out. docs/pipeline.md lists
// them all.

#ifndef LOCKSTEP_PLAN_PLAN_JSON_H_
#define LOCKSTEP_PLAN_PLAN_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plan/ir.h"

namespace lockstep::plan {

// Ends with a newline. PlanFromJson reads it back to an equal plan.
std::string PlanToJson(const Plan& plan);

// Does not verify the plan. InvalidArgument: text that is no JSON, an unknown
// field or word (with the nearest known one), a value of the wrong form; the
// message begins with its place, "ranks[0].lanes[1].transfers[3].peer: ".
absl::StatusOr<Plan> PlanFromJson(absl::string_view text);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PLAN_JSON_H_
