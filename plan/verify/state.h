// Checks that ranks hold every element of a plan's state, each in one way.

#ifndef LOCKSTEP_PLAN_VERIFY_STATE_H_
#define LOCKSTEP_PLAN_VERIFY_STATE_H_

#include "plan/ir.h"
#include "plan/verify/diagnostics.h"

namespace lockstep::plan {

// The tables of the plan must have passed (structure.h). Checks that names are
// unique and those that checkpoints can have, as are dtypes; that blocks tile
// each tensor over axes of the mesh, and that the ranks of a block hold it all,
// in slices which are equal or do not overlap.
void CheckState(const Plan& plan, Diagnostics& diagnostics);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_STATE_H_
