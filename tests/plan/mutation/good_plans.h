// Compiled plans of all kinds, from which mutants are made.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_GOOD_PLANS_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_GOOD_PLANS_H_

#include <string>
#include <vector>

#include "plan/ir.h"

namespace lockstep::plan {

struct GoodPlan {
  std::string name;  // "zb-v S=2 M=2 V=2, data=3, shared, sharded, parts 1"
  Plan plan;
};

// Every schedule with up to 3 ranks, 3 micro-batches and 2 virtual stages, with
// 1, 2 and 3 replicas and each set of parameters:
//
//   none, of stages, of no stage, in several buckets, shared, shared and of
//   stages, reduced over the whole world
//
// The other choices vary from plan to plan: all-reduced, sharded or with
// leaves; activations of one part, two equal parts, two different parts, or
// other types at each boundary; with or without a wire dtype; either order of
// mesh axes.
std::vector<GoodPlan> GoodPipelines();

// Plans of the same kinds with up to 5 ranks and 8 micro-batches.
std::vector<GoodPlan> LargerPipelines();

// Plans without a pipeline.
std::vector<GoodPlan> GoodPlainPlans();

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_GOOD_PLANS_H_
