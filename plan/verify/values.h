// Is what a rank is given what it needs?

#ifndef LOCKSTEP_PLAN_VERIFY_VALUES_H_
#define LOCKSTEP_PLAN_VERIFY_VALUES_H_

#include "plan/ir.h"
#include "plan/verify/diagnostics.h"
#include "plan/verify/traffic.h"

namespace lockstep::plan {

// Follows the values of a pipeline from the task that makes them:
//
//   forward of stage 0, ─ send, tag t ─▶ receive, tag t ─▶ forward of stage 1,
//   micro-batch m                                          micro-batch m
//
//   * a task whose source is on another rank waits for every part of its result
//     once: of the right pass, from the same replica, with the part's tag and
//     type; and no task waits for another message
//   * every message of a pipeline lane is waited for by a task
//   * the gradients of `shared` parameters are added up between the first and
//     the last stage of each replica, in the spec's order, once both are
//     complete, and before their buckets are reduced; a pipeline lane has no
//     other collective
//
// The tasks must have passed, and sends and receives have been found to match.
void CheckValues(const Plan& plan, const Traffic& traffic,
                 Diagnostics& diagnostics);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_VALUES_H_
