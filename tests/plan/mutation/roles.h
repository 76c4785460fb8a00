// The role of each step, and the faults that show without running the plan.
//
// Rules, as the executor has them:
//   - Part k of a task's result is the send with the k-th smallest tag among
//     those whose after_task is the task. Part k of its input is the receive
//     with the k-th smallest tag in its `after`. Both have the type that
//     pipeline.activations gives; a gradient has the floating point parts.
//   - A result for a stage of the same rank is not sent.
//   - The last task of a stage's micro-batch reads the stage's inputs again.
//   - The k-th collective of the lane "shared" sums the k-th shared parameter.
//
// Faults:
//   - tasks other than those of the rank's stages, each micro-batch once; a
//     task before the local task that feeds it
//   - a message without a task at either end, or with another type
//   - a transfer in a lane that nothing runs, or on the verdict's communicator
//   - a buffer index that is missing or out of range; a buffer of two types or
//     two directions
//   - transfers of a bucket other than those of ir.h, each once

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_ROLES_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_ROLES_H_

#include <optional>

#include "tests/plan/mutation/expected.h"
#include "tests/plan/mutation/wiring.h"

namespace lockstep::plan::oracle {

// Sets the roles of the steps and the fields that depend on roles.
std::optional<Fault> AssignRoles(const Expected& expected, Wiring& wiring);

}  // namespace lockstep::plan::oracle

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_ROLES_H_
