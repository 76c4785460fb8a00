#include "tests/plan/mutation/judge.h"

#include <random>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/plan/mutation/machine.h"
#include "tests/plan/mutation/wiring.h"

namespace lockstep::plan {
namespace {

using judging::Machine;
using judging::State;
using judging::Wiring;

Verdict Explore(const Machine& machine, size_t states_max) {
  std::unordered_set<std::string> seen;
  std::vector<State> open = {machine.Begin()};
  seen.insert(open[0].Key());
  while (!open.empty()) {
    const State state = std::move(open.back());
    open.pop_back();
    const std::vector<int> ready = machine.Ready(state);
    if (ready.empty() && !machine.IsOver(state)) {
      return {Fate::kHangs, "nobody can go on", seen.size()};
    }
    for (const int queue : ready) {
      State next = state;
      if (const auto fault = machine.Step(queue, next)) {
        return {fault->fate, fault->why, seen.size()};
      }
      if (seen.insert(next.Key()).second) open.push_back(std::move(next));
    }
    if (seen.size() > states_max) {
      return {Fate::kUnknown, "too many states", seen.size()};
    }
  }
  return {Fate::kRuns, "", seen.size()};
}

Verdict RunOnce(const Machine& machine, std::mt19937_64& random) {
  State state = machine.Begin();
  for (size_t steps = 0;; ++steps) {
    const std::vector<int> ready = machine.Ready(state);
    if (ready.empty()) {
      return machine.IsOver(state)
                 ? Verdict{Fate::kRuns, "", steps}
                 : Verdict{Fate::kHangs, "nobody can go on", steps};
    }
    if (const auto fault =
            machine.Step(ready[random() % ready.size()], state)) {
      return {fault->fate, fault->why, steps};
    }
  }
}

}  // namespace

Verdict JudgeAll(const Plan& plan, size_t states_max) {
  size_t states = 0;
  // The one queue first: it has fewer states, and most faults show in it.
  for (const bool one_queue : {true, false}) {
    const Wiring wiring(plan, one_queue);
    if (wiring.fault()) {
      return {wiring.fault()->fate, wiring.fault()->why, states};
    }
    Verdict verdict = Explore(Machine(wiring), states_max);
    states += verdict.states;
    verdict.states = states;
    if (verdict.fate != Fate::kRuns) return verdict;
  }
  return {Fate::kRuns, "", states};
}

Verdict JudgeSome(const Plan& plan, uint64_t seed, int runs) {
  std::mt19937_64 random(seed);
  for (const bool one_queue : {true, false}) {
    const Wiring wiring(plan, one_queue);
    if (wiring.fault()) return {wiring.fault()->fate, wiring.fault()->why};
    for (int i = 0; i < runs; ++i) {
      Verdict verdict = RunOnce(Machine(wiring), random);
      if (verdict.fate != Fate::kRuns) return verdict;
    }
  }
  return {};
}

}  // namespace lockstep::plan
