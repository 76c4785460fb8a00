// Which jobs end their steps by records (kernels/step_gate.h): one all-gather
// of what each rank says of the step, by which every rank's device decides.
// Other jobs reduce their step summaries (plan/summary.h), and the host
// decides.
//
// Pure and deterministic: the answer is part of the plan.

#ifndef LOCKSTEP_PLAN_RECORDS_H_
#define LOCKSTEP_PLAN_RECORDS_H_

#include <vector>

#include "plan/ir.h"
#include "protocol/transport_facts.h"

namespace lockstep::plan {

// Whether the devices of all `ranks` decide. Not in jobs with leaves, whose
// norms are summed along a tree, by the host.
bool EndsByRecords(const std::vector<TransportFacts>& transports, int ranks,
                   int leaves);

// Whether the steps of the plan end so, by its first rank's verdict lane.
bool EndsByRecords(const Plan& plan);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_RECORDS_H_
