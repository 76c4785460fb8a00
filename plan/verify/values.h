// Checks that every task and sum receives the right inputs.

#ifndef LOCKSTEP_PLAN_VERIFY_VALUES_H_
#define LOCKSTEP_PLAN_VERIFY_VALUES_H_

#include "plan/ir.h"
#include "plan/verify/diagnostics.h"
#include "plan/verify/traffic.h"

namespace lockstep::plan {

// Follows each value of a pipeline from the task that produces it:
//
//   forward of stage 0, ─ send, tag t ─▶ receive, tag t ─▶ forward of stage 1,
//   micro-batch m                                          micro-batch m
//
//   * a task whose input is from another rank waits once for every part of it:
//     from the right pass and the same replica, with the part's tag and type;
//     no task waits for another message
//   * a task waits for every message of a pipeline lane
//   * the gradients of `shared` parameters are summed between the first and the
//     last stage of each replica, in the spec's order, after both are complete
//     and before their buckets are reduced; a pipeline lane has no other
//     collective
//
// The tasks, and the matching of sends and receives, must have passed.
void CheckValues(const Plan& plan, const Traffic& traffic,
                 Diagnostics& diagnostics);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_VALUES_H_
