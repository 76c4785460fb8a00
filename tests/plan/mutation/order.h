// Finds steps whose place among concurrent steps does not matter (a
// partial-order reduction), so that a search of all interleavings need not
// branch on them.
//
// Two steps conflict if both use a memory cell and one writes it, or if both
// use the same end of a channel. A step is ordered if for each step that it
// conflicts with, one of the two is always complete before the other starts:
// because of their queue, or of what steps of the rank need.
//
//   receive F0 ─▶ F0 ─▶ B0 ─▶ receive F1       one buffer: ordered
//   receive F0 ─▶ F0    receive F1 ─▶ F1       one buffer: not ordered
//
// A step that can start, is ordered, and has a channel with only ordered steps
// commutes with all steps that can run before it. Running it at once loses no
// fault and no deadlock.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_ORDER_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_ORDER_H_

#include <vector>

#include "tests/plan/mutation/memory.h"
#include "tests/plan/mutation/wiring.h"

namespace lockstep::plan::oracle {

// For each step: true if it and all steps of its channel are ordered.
std::vector<bool> OrderedSteps(const Wiring& wiring, const Memory& memory);

}  // namespace lockstep::plan::oracle

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_ORDER_H_
