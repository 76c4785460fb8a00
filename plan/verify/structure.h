// Checks that a plan is well-formed: everything that can be checked on one
// object at a time. The other parts of the verifier rely on it.

#ifndef LOCKSTEP_PLAN_VERIFY_STRUCTURE_H_
#define LOCKSTEP_PLAN_VERIFY_STRUCTURE_H_

#include "plan/ir.h"
#include "plan/verify/diagnostics.h"

namespace lockstep::plan {

// Checks the tables that all ranks share: mesh, communicators, parameters,
// buckets.
void CheckTables(const Plan& plan, Diagnostics& diagnostics);

// Checks each rank's lanes, transfers and launch order. The tables must have
// passed.
void CheckLanes(const Plan& plan, Diagnostics& diagnostics);

// Checks each rank's tasks and the buffers of its messages. The lanes must have
// passed.
void CheckTasks(const Plan& plan, Diagnostics& diagnostics);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_STRUCTURE_H_
