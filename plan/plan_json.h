// A plan as JSON, for reading and for plans written by hand.
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
// The fields are those of plan/ir.h, with the same names; a transfer is
// referred to as [lane, index]. A field with its default value may be left out.
// docs/pipeline.md lists them all.

#ifndef LOCKSTEP_PLAN_PLAN_JSON_H_
#define LOCKSTEP_PLAN_PLAN_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plan/ir.h"

namespace lockstep::plan {

// Ends with a newline. PlanFromJson reads it back as an equal plan.
std::string PlanToJson(const Plan& plan);

// Does not verify the plan. InvalidArgument: text that is not JSON, an unknown
// field or enumerator (names the nearest known one), or a value of the wrong
// form. The message begins with the path, "ranks[0].lanes[1].transfers[3].peer:
// ".
absl::StatusOr<Plan> PlanFromJson(absl::string_view text);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PLAN_JSON_H_
