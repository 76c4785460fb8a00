// Is the plan well-formed? Everything that can be judged by looking at one
// thing at a time; what the other parts of the verifier may then rely on.

#ifndef LOCKSTEP_PLAN_VERIFY_STRUCTURE_H_
#define LOCKSTEP_PLAN_VERIFY_STRUCTURE_H_

#include "plan/ir.h"
#include "plan/verify/diagnostics.h"

namespace lockstep::plan {

// What all ranks share: mesh, communicators, parameters, buckets.
void CheckTables(const Plan& plan, Diagnostics& diagnostics);

// What each rank does: lanes, transfers, launch order. The tables must have
// passed.
void CheckLanes(const Plan& plan, Diagnostics& diagnostics);

// What each rank computes, and the buffers of its messages. The lanes must have
// passed.
void CheckTasks(const Plan& plan, Diagnostics& diagnostics);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_STRUCTURE_H_
