// Random edits of any field, without regard to its meaning:
//
//   drop      a transfer, or a message on both sides
//   swap      two transfers of a lane, or inside a group; on one side or both
//   retag     the tag of another transfer, or any
//   reshape   another shape or dtype
//   redirect  another peer or communicator, or a send for a receive
//   reorder   launches, of other lanes or of one, or tasks
//   untie     or tie: dependencies, tasks, buffers, groups

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_GENERIC_MUTATIONS_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_GENERIC_MUTATIONS_H_

#include <vector>

#include "tests/plan/mutation/mutants.h"

namespace lockstep::plan {

const std::vector<Mutation>& GenericMutations();

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_GENERIC_MUTATIONS_H_
