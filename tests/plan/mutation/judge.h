// Decides what can happen when a plan runs, by trying. Shares no code with the
// verifier: it knows the plan's values and nothing else of plan/.
//
// All ranks are run at once by a machine that takes one step at a time: a queue
// launches its next transfers, or a rank computes its next task. What is sent
// meets what is received by order alone, as on a network without tags:
//
//   per communicator, source, destination    1st send ─ 1st receive, ...
//
// Payloads are stamped: a task writes its name and the message's tag into the
// buffers that it sends from, a task that receives reads the stamps, and reads
// them again when it is done with the micro-batch. So a wrong order, a wrong
// message and a buffer that is overwritten too early are all seen.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_JUDGE_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_JUDGE_H_

#include <cstdint>
#include <string>

#include "plan/ir.h"

namespace lockstep::plan {

enum class Fate {
  kRuns,      // to the end, with the right data everywhere
  kCannot,    // refers to something that does not exist, or lacks something
  kHangs,     // in some interleaving
  kMismatch,  // wrong bytes meet, or wrong data arrives, in some interleaving
  kUnknown,   // too many states
};

struct Verdict {
  Fate fate = Fate::kRuns;
  std::string why;
  size_t states = 0;  // that were seen
};

// Every interleaving, both with each lane a queue of its own and with all lanes
// of a rank as one queue in launch order.
Verdict JudgeAll(const Plan& plan, size_t states_max);

// Some interleavings, drawn from the seed.
Verdict JudgeSome(const Plan& plan, uint64_t seed, int runs);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_JUDGE_H_
