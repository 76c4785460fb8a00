// Compiled plans with halo exchanges, from which mutants are made.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_HALO_PLANS_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_HALO_PLANS_H_

#include <vector>

#include "tests/plan/mutation/good_plans.h"

namespace lockstep::plan {

// One dimension with each edge, two dimensions with two ranks in a ring, fields
// that not all axes cut, replicas beside the exchange, two exchanges over one
// communicator, one rank alone, and a pipeline.
std::vector<GoodPlan> GoodHaloPlans();

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_HALO_PLANS_H_
