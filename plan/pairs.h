// Which groups can reduce in pairs, as far as known before they are connected.
//
// Pure and deterministic: the compiler uses it, so the answer is part of the
// plan.

#ifndef LOCKSTEP_PLAN_PAIRS_H_
#define LOCKSTEP_PLAN_PAIRS_H_

#include <vector>

#include "lockstep/job_spec.h"
#include "protocol/transport_facts.h"

namespace lockstep::plan {

// Whether the group of these world ranks can reduce in pairs. `transports` has
// the facts of each rank of the world. True only if the group certainly can
// once it is connected: false if a rank's facts or host are unknown, or if the
// facts of ranks contradict each other.
bool SumsInPairs(const std::vector<TransportFacts>& transports,
                 const std::vector<int>& ranks);

// The facts of each rank for a plan that is compiled from the spec alone,
// without workers: those of the spec's transport, with all ranks on one host,
// since a spec does not name the hosts of ranks.
std::vector<TransportFacts> AssumedTransports(const JobSpec& spec);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PAIRS_H_
