// Whether the ranks agree on their common transfers.

#ifndef LOCKSTEP_PLAN_VERIFY_AGREEMENT_H_
#define LOCKSTEP_PLAN_VERIFY_AGREEMENT_H_

#include "plan/ir.h"
#include "plan/verify/diagnostics.h"
#include "plan/verify/traffic.h"

namespace lockstep::plan {

// On each communicator all members take part in the same collectives in the
// same order: kind, count, dtype, op, root, bucket. One finding for each
// communicator, at the first difference.
void CheckCollectives(const Plan& plan, const Traffic& traffic,
                      Diagnostics& diagnostics);

// Every send has its receive, in the same order, with equal tag, shape and
// dtype. One finding for each source and destination.
void CheckPointToPoint(const Plan& plan, const Traffic& traffic,
                       Diagnostics& diagnostics);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_AGREEMENT_H_
