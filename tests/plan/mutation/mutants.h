// Plans that were good until something was done to them.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_MUTANTS_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_MUTANTS_H_

#include <random>
#include <string>

#include "plan/ir.h"

namespace lockstep::plan {

struct Mutant {
  Plan plan;
  std::string what;  // was done: "drop, retag"
};

// One, two or three changes of these kinds, drawn from `random`:
//
//   drop      a transfer, or a message on both sides
//   swap      two transfers of a lane, or inside a group; on one side or both
//   retag     the tag of another transfer, or any
//   reshape   another shape or dtype
//   redirect  another peer or communicator, or a send for a receive
//   reorder   launches, of other lanes or of one, or tasks
//   untie     or tie: what waits for what, which task, buffer, group
Mutant MutantOf(const Plan& good, std::mt19937_64& random);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_MUTANTS_H_
