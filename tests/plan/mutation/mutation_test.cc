// The verifier refuses every plan that can hang or compute the wrong thing.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "plan/plan_json.h"
#include "plan/verify/verify.h"
#include "tests/plan/mutation/generic_mutations.h"
#include "tests/plan/mutation/good_plans.h"
#include "tests/plan/mutation/judge.h"
#include "tests/plan/mutation/mutants.h"
#include "tests/plan/mutation/wrong_kinds.h"
#include "tests/support/sanitizers.h"

namespace lockstep::plan {
namespace {

std::vector<GoodPlan> GoodPlans() {
  std::vector<GoodPlan> plans = GoodPipelines();
  for (GoodPlan& plain : GoodPlainPlans()) plans.push_back(std::move(plain));
  return plans;
}

std::vector<Mutation> AllMutations() {
  std::vector<Mutation> mutations = GenericMutations();
  mutations.insert(mutations.end(), WrongKinds().begin(), WrongKinds().end());
  return mutations;
}

// Counts of the verdicts of verifier and oracle on mutants of one kind.
struct Counts {
  int mutants = 0;
  int wrong = 0;
  int accepted = 0;
  int accepted_wrongly = 0;
  int harmless_refused = 0;
  int random = 0;     // judged by random interleavings
  std::string seeds;  // of the first mutants accepted wrongly

  void Count(uint64_t seed, const Verdict& verdict, bool is_accepted) {
    const bool runs = verdict.fate == Fate::kRuns;
    ++mutants;
    random += verdict.is_random ? 1 : 0;
    wrong += runs ? 0 : 1;
    accepted += is_accepted ? 1 : 0;
    harmless_refused += runs && !is_accepted ? 1 : 0;
    if (runs || !is_accepted) return;
    if (++accepted_wrongly <= 5) seeds += " " + std::to_string(seed);
  }

  void Print(const char* name) const {
    std::printf("%-30s %7d %7d %8d %8d %8d %7d  %s\n", name, mutants, wrong,
                accepted, accepted_wrongly, harmless_refused, random,
                seeds.c_str());
  }
  static void PrintHead() {
    std::printf("%-30s %7s %7s %8s %8s %8s %7s  %s\n", "kind", "mutants",
                "wrong", "accepted", "wrongly", "harmless", "random", "seeds");
    std::printf("%-30s %7s %7s %8s %8s %8s\n", "", "", "", "", "accepted",
                "refused");
  }
};

// With LOCKSTEP_MUTANT=SEED the test prints that mutant and its verdicts.
std::optional<uint64_t> SeedToReplay() {
  const char* const seed = std::getenv("LOCKSTEP_MUTANT");
  if (seed == nullptr) return std::nullopt;
  return std::strtoull(seed, nullptr, 10);
}

// A kind with too few wrong mutants would test nothing.
TEST(MutationTest, EveryWrongKindIsRefused) {
  constexpr int kWrongMin = 20;
  const std::vector<GoodPlan> plans = GoodPlans();
  Counts::PrintHead();
  for (const Mutation& kind : WrongKinds()) {
    Counts tally;
    for (uint64_t seed = 0; seed < 400 && tally.wrong < kWrongMin; ++seed) {
      const Mutant mutant = MutantOf(kind, plans, seed);
      const Verdict verdict = Judge(mutant.plan, seed);
      tally.Count(seed, verdict, Verify(mutant.plan).ok());
    }
    tally.Print(kind.name);
    EXPECT_GE(tally.wrong, kWrongMin) << kind.name;
    EXPECT_EQ(tally.accepted_wrongly, 0)
        << kind.name << ", seeds" << tally.seeds;
  }
}

TEST(MutationTest, NoWrongMutantIsAccepted) {
  const std::vector<GoodPlan> plans = GoodPlans();
  const std::vector<GoodPlan> larger = LargerPipelines();
  const std::vector<Mutation> mutations = AllMutations();
  const std::optional<uint64_t> replay = SeedToReplay();
  std::map<std::string, Counts> tallies;
  Counts total;
  const uint64_t first = replay.value_or(0);
  const uint64_t seeds = replay ? 1 : kUnderSanitizer ? 700 : 20'000;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const Mutation& mutation = mutations[seed % mutations.size()];
    const bool is_plain = std::string(mutation.name) == kTasksWithoutPipeline;
    const Mutant mutant =
        MutantOf(mutation, seed % 4 == 0 && !is_plain ? larger : plans, seed,
                 GenericMutations());
    const Verdict verdict = Judge(mutant.plan, seed);
    const absl::Status verified = Verify(mutant.plan);
    const bool runs = verdict.fate == Fate::kRuns;
    tallies[mutation.name].Count(seed, verdict, verified.ok());
    total.Count(seed, verdict, verified.ok());
    if (!runs && verified.ok() && total.accepted_wrongly <= 5) {
      ADD_FAILURE() << "LOCKSTEP_MUTANT=" << seed << ": " << mutant.what
                    << " is accepted, but " << verdict.why;
    }
    if (replay) {
      std::printf("%s\noracle: %s\nverifier: %s\n%s\n", mutant.what.c_str(),
                  runs ? "runs" : verdict.why.c_str(),
                  verified.ToString().c_str(), PlanToJson(mutant.plan).c_str());
    }
  }
  if (replay) return;
  Counts::PrintHead();
  for (const Mutation& mutation : mutations)
    tallies[mutation.name].Print(mutation.name);
  total.Print("together");
  EXPECT_EQ(total.accepted_wrongly, 0);
  EXPECT_GT(total.accepted, total.mutants / 50);
  EXPECT_GT(total.wrong, total.mutants / 2);
}

}  // namespace
}  // namespace lockstep::plan
