// Which groups can sum in pairs, as far as it is known before they are
// connected.
//
// Pure and deterministic: the compiler asks, so the answer is part of the plan.

#ifndef LOCKSTEP_PLAN_PAIRS_H_
#define LOCKSTEP_PLAN_PAIRS_H_

#include <vector>

#include "lockstep/job_spec.h"
#include "protocol/transport_facts.h"

namespace lockstep::plan {

// Can the group of these world ranks sum in pairs? `transports` has the facts
// of each rank of the world. True only if the group is sure to be able to once
// it is connected: false where a rank's facts or its place are not known, and
// where ranks contradict each other in what the transport can do.
bool SumsInPairs(const std::vector<TransportFacts>& transports,
                 const std::vector<int>& ranks);

// The facts of each rank for a plan that is compiled from the spec alone,
// without workers: what the spec's transport tells of itself, with all ranks in
// one place. A spec does not say on which hosts the ranks will run.
std::vector<TransportFacts> AssumedTransports(const JobSpec& spec);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PAIRS_H_
