// Whether the state of an elastic job survives another number of replicas.
//
//   mesh data=4, elastic over data ──▶ data=3
//
//   "w", held whole by all ranks       each replica has all of it: kept
//   "m", cut over data, or in slices   no rank has what its new rank needs
//
// Pure; every rank computes the same.

#ifndef LOCKSTEP_PLAN_STATE_ELASTIC_H_
#define LOCKSTEP_PLAN_STATE_ELASTIC_H_

#include <vector>

#include "absl/status/status.h"
#include "lockstep/job_spec.h"
#include "plan/state/state.h"

namespace lockstep::plan {

// OK if every replica along the elastic axis holds the same state. `spec` has
// the mesh of the epoch, which the tensors are of. FailedPrecondition names the
// first tensor of which replicas hold different parts, or only some of them.
absl::Status CheckReplicasHoldAll(const std::vector<StateTensor>& tensors,
                                  const JobSpec& spec);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_STATE_ELASTIC_H_
