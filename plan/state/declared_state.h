// State that workers register (Session::RegisterState), merged into tensors.
//
//   mesh data=2   rank 0 registers w: f32[6,8], dim 0 over data
//                 rank 1 registers w: f32[4,8], dim 0 over data
//   Plan::state   w held by ranks 0 1: f32, bounds 0 6 10 and 0 8

#ifndef LOCKSTEP_PLAN_STATE_DECLARED_STATE_H_
#define LOCKSTEP_PLAN_STATE_DECLARED_STATE_H_

#include <vector>

#include "absl/status/status.h"
#include "lockstep/state_spec.h"
#include "plan/ir.h"

namespace lockstep::plan {

// Adds plan->state, to a plan that has its buckets: state that is sliced like a
// parameter has the slices of its bucket. declared[rank]: what this rank
// registers; none, or one list for each rank of the valid `plan->mesh`. Ranks
// with empty slices of a tensor are not among its ranks.
//
// InvalidArgument, with the tensor, the ranks and both values: a registration
// that Normalized refuses or that a rank repeats; ranks that register different
// tensors, or blocks of one coordinate with different sizes; a parameter that
// is not there or has another shape; slices that overlap; elements that no rank
// holds; a tensor whose size overflows.
absl::Status AddDeclaredState(
    const std::vector<std::vector<StateSpec>>& declared, Plan* plan);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_STATE_DECLARED_STATE_H_
