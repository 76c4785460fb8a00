// Does what is computed reach the task that needs it?

#ifndef LOCKSTEP_PLAN_VERIFY_FLOW_H_
#define LOCKSTEP_PLAN_VERIFY_FLOW_H_

#include "plan/ir.h"
#include "plan/verify/finding.h"
#include "plan/verify/traffic.h"

namespace lockstep::plan {

// Of the tasks of all ranks: a stage lives on one rank of each pipeline; a task
// that needs the result of another rank waits for a message that this result
// goes out with, in all its parts if the plan says them, and for no message of
// another. Ranks without tasks are left alone. Sends and receives must have
// been found to match.
void CheckFlow(const Plan& plan, const Traffic& traffic, Findings& findings);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_FLOW_H_
