// The oracle for the verifier: decides by running whether a plan is right.
// Shares no code with the verifier; of plan/ it uses the values of ir.h, the
// mesh and RankOf.
//
//   expected.h   the values that must be computed, from mesh and spec
//   wiring.h     steps, queues, dependencies
//   roles.h      the purpose of each step; faults that show without running
//   elements.h   local operations, norms and verdicts
//   memory.h     the buffers and gradients that steps use
//   machine.h    runs the steps with a stamp in each buffer and gradient
//   order.h      steps whose place among concurrent steps does not matter
//
// The machine runs all ranks, one unit of one queue at a time, in all orders or
// in random ones. So it finds a deadlock, a mismatch, a wrong message, a buffer
// that is overwritten too early and an incomplete gradient in the interleavings
// that show them.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_JUDGE_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_JUDGE_H_

#include <cstdint>
#include <string>

#include "plan/ir.h"

namespace lockstep::plan {

enum class Fate {
  kRuns,      // completes with the right values, in all interleavings tried
  kCannot,    // wrong in every interleaving: see wiring.h and roles.h
  kHangs,     // deadlocks in some interleaving
  kMismatch,  // unequal transfers match, or wrong values, in some interleaving
  kUnknown,   // too many states
};

struct Verdict {
  Fate fate = Fate::kRuns;
  std::string why;
  size_t states = 0;       // visited
  bool is_random = false;  // not all interleavings were tried
};

// Tries every interleaving of both models (wiring.h). With `reduced` only one
// of those that differ in the place of ordered steps (order.h).
Verdict JudgeAll(const Plan& plan, size_t states_max, bool reduced = true);

// Tries random interleavings. Half of the runs choose uniformly; the others
// give queues random priorities, which delays some of them for long.
Verdict JudgeSome(const Plan& plan, uint64_t seed, int runs);

// JudgeAll, or JudgeSome if that visits too many states.
Verdict Judge(const Plan& plan, uint64_t seed);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_JUDGE_H_
