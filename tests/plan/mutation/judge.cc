#include "tests/plan/mutation/judge.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "tests/plan/mutation/elements.h"
#include "tests/plan/mutation/expected.h"
#include "tests/plan/mutation/machine.h"
#include "tests/plan/mutation/memory.h"
#include "tests/plan/mutation/order.h"
#include "tests/plan/mutation/roles.h"
#include "tests/plan/mutation/wiring.h"

namespace lockstep::plan {
namespace {

using oracle::Expected;
using oracle::Fault;
using oracle::Machine;
using oracle::Memory;
using oracle::State;
using oracle::Wiring;

constexpr size_t kSearchedMax = 2'000;
constexpr int kRuns = 24;

Verdict VerdictOf(const Fault& fault, size_t states) {
  return {fault.fate, fault.why, states};
}

class Search {
 public:
  Search(const Machine& machine, std::vector<bool> ordered)
      : machine_(machine), ordered_(std::move(ordered)) {}

  Verdict Run(size_t states_max) {
    absl::flat_hash_set<uint64_t> seen;
    std::vector<State> open = {machine_.Begin()};
    while (!open.empty()) {
      State state = std::move(open.back());
      open.pop_back();
      if (const auto fault = RunOrdered(state)) {
        return VerdictOf(*fault, seen.size());
      }
      const std::vector<int> ready = machine_.Ready(state);
      if (ready.empty() && state.left > 0) {
        return {Fate::kHangs, "deadlock", seen.size()};
      }
      for (const int queue : ready) {
        State next = state;
        if (const auto fault = machine_.Launch(queue, next)) {
          return VerdictOf(*fault, seen.size());
        }
        if (seen.insert(next.Key()).second) open.push_back(std::move(next));
      }
      if (seen.size() > states_max) {
        return {Fate::kUnknown, "too many states", seen.size()};
      }
    }
    return {Fate::kRuns, "", seen.size()};
  }

 private:
  std::optional<Fault> RunOrdered(State& state) const {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (size_t q = 0; q < state.next.size(); ++q) {
        const int queue = static_cast<int>(q);
        while (machine_.IsReady(state, queue) &&
               IsOrdered(machine_.NextUnit(state, queue))) {
          if (auto fault = machine_.Launch(queue, state)) return fault;
          goes_on = true;
        }
      }
    }
    return std::nullopt;
  }

  bool IsOrdered(const std::vector<int>& unit) const {
    return std::all_of(unit.begin(), unit.end(),
                       [&](int step) { return ordered_[step]; });
  }

  const Machine& machine_;
  const std::vector<bool> ordered_;
};

// One interleaving.
class Run {
 public:
  Run(const Machine& machine, std::mt19937_64& random, bool delays)
      : machine_(machine), random_(random), delays_(delays) {}

  Verdict ToItsEnd() {
    State state = machine_.Begin();
    priority_.resize(state.next.size());
    for (uint64_t& priority : priority_) priority = random_();
    for (size_t steps = 0;; ++steps) {
      const std::vector<int> ready = machine_.Ready(state);
      if (ready.empty()) {
        return state.left == 0 ? Verdict{Fate::kRuns, "", steps}
                               : Verdict{Fate::kHangs, "deadlock", steps};
      }
      if (const auto fault = machine_.Launch(Pick(ready), state)) {
        return VerdictOf(*fault, steps);
      }
    }
  }

 private:
  int Pick(const std::vector<int>& ready) {
    if (!delays_) return ready[random_() % ready.size()];
    const int first = *std::max_element(
        ready.begin(), ready.end(),
        [&](int a, int b) { return priority_[a] < priority_[b]; });
    if (random_() % 16 == 0) priority_[first] = random_();
    return first;
  }

  const Machine& machine_;
  std::mt19937_64& random_;
  const bool delays_;
  std::vector<uint64_t> priority_;  // of each queue
};

// Calls `judge` for both models.
template <typename JudgeMachine>
Verdict JudgeBoth(const Plan& plan, const JudgeMachine& judge) {
  const Expected expected(plan);
  size_t states = 0;
  // One queue first: it has fewer states and shows most faults.
  for (const bool one_queue : {true, false}) {
    Wiring wiring(plan, one_queue);
    if (wiring.fault()) return VerdictOf(*wiring.fault(), states);
    if (const auto fault = AssignRoles(expected, wiring)) {
      return VerdictOf(*fault, states);
    }
    if (one_queue) {
      if (const auto fault = oracle::RunElements(plan)) {
        return VerdictOf(*fault, states);
      }
    }
    const Memory memory(expected, wiring);
    const Machine machine(expected, wiring, memory);
    Verdict verdict = judge(machine, wiring, memory);
    states += verdict.states;
    verdict.states = states;
    if (verdict.fate != Fate::kRuns) return verdict;
  }
  return {Fate::kRuns, "", states};
}

}  // namespace

Verdict JudgeAll(const Plan& plan, size_t states_max, bool reduced) {
  return JudgeBoth(plan, [&](const Machine& machine, const Wiring& wiring,
                             const Memory& memory) {
    std::vector<bool> ordered =
        reduced ? OrderedSteps(wiring, memory)
                : std::vector<bool>(wiring.steps().size(), false);
    return Search(machine, std::move(ordered)).Run(states_max);
  });
}

Verdict JudgeSome(const Plan& plan, uint64_t seed, int runs) {
  std::mt19937_64 random(seed);
  return JudgeBoth(
      plan, [&](const Machine& machine, const Wiring&, const Memory&) {
        Verdict verdict;
        for (int i = 0; i < runs && verdict.fate == Fate::kRuns; ++i) {
          verdict = Run(machine, random, i % 2 == 1).ToItsEnd();
        }
        return verdict;
      });
}

Verdict Judge(const Plan& plan, uint64_t seed) {
  Verdict verdict = JudgeAll(plan, kSearchedMax);
  if (verdict.fate != Fate::kUnknown) return verdict;
  verdict = JudgeSome(plan, seed, kRuns);
  verdict.is_random = true;
  return verdict;
}

}  // namespace lockstep::plan
