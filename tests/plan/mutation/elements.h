// Runs the transfers of each bucket with their local operations on the elements
// of all ranks' memory, and checks the verdict lanes.
//
//   element   the terms of its sum, the divisor, its dtype, how often it was
//             rounded, and whether the rounding error was kept
//
// Rules, as in the executor:
//
//   - A rank has its gradients and, where a transfer has another dtype, a copy
//     of them. Before a transfer operations use the gradients, and casts write
//     the copy. After it they use the copy until a cast writes the gradients.
//     Flags stay where they were reduced.
//   - With leaves a rank begins with the sum of its leaves, in f32 or f64.
//   - Of announced gradients some ranks give none. Their memory is garbage, and
//     must be zeros at the end. Tried with all ranks, with the first and with
//     the last rank.
//   - In a group of transfers, all operations before any of them precede the
//     group, and all operations after any of them follow it.
//
// Faults:
//
//   - a gradient that is not the required sum or mean, of its dtype, rounded as
//     often as its bucket requires
//   - flags that the host does not read, or not of all ranks
//   - an element that is not counted in the norm once in the world, that is not
//     complete when it is, or that is counted for another leaf
//   - local operations beside other transfers; a verdict lane that is missing,
//     doubled or does not reduce the summary once

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_ELEMENTS_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_ELEMENTS_H_

#include <optional>

#include "plan/ir.h"
#include "tests/plan/mutation/wiring.h"

namespace lockstep::plan::oracle {

// AssignRoles must have found no fault.
std::optional<Fault> RunElements(const Plan& plan);

}  // namespace lockstep::plan::oracle

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_ELEMENTS_H_
