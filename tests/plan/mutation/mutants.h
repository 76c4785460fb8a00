// Mutants: good plans after one or two random changes.
//
//   generic_mutations.h  edit any field, and mostly break the plan at once
//   wrong_kinds.h        make plans that still complete, but compute other
//                        values or contain something that nothing runs

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_MUTANTS_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_MUTANTS_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "plan/ir.h"
#include "tests/plan/mutation/good_plans.h"

namespace lockstep::plan {

// A mutation operator.
struct Mutation {
  const char* name;
  // Changes the plan at a random place. Leaves the plan as it is if it has no
  // such place.
  void (*apply)(Plan& plan, std::mt19937_64& random);
};

struct Mutant {
  std::string what;  // the mutation and the plan it was applied to
  Plan plan;
};

// Applies `mutation` to random plans until it changes one. One mutant in eight
// also gets a random one of `extra`, unless that is empty. The same arguments
// give the same mutant.
Mutant MutantOf(const Mutation& mutation, const std::vector<GoodPlan>& plans,
                uint64_t seed, const std::vector<Mutation>& extra = {});

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_MUTANTS_H_
