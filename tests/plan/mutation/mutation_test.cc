// The verifier accepts no plan that could hang or go wrong.

#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/plan_json.h"
#include "plan/verify.h"
#include "tests/plan/mutation/judge.h"
#include "tests/plan/mutation/mutants.h"
#include "tests/plan/pipeline/pipelines.h"
#include "tests/plan/schedule/shapes.h"
#include "tests/support/sanitizers.h"

namespace lockstep::plan {
namespace {

constexpr size_t kStatesMax = 200'000;

const std::vector<std::vector<TensorType>>& Activations() {
  static const auto* const activations =
      new std::vector<std::vector<TensorType>>{
          {{DType::kF32, {4}}},
          {{DType::kF32, {4}}, {DType::kF32, {4}}},  // parts of equal shape
          {{DType::kF32, {4}}, {DType::kI32, {2}}}};
  return *activations;
}

// Every schedule of up to so many ranks and micro-batches, with one and with
// several parts.
std::vector<Plan> GoodPlans(int ranks_max, int micro_batches_max) {
  std::vector<Plan> plans;
  for (const ScheduleShape& shape :
       AllShapes(ranks_max, micro_batches_max, 2)) {
    if (shape.ranks < 2) continue;
    for (const auto& parts : Activations()) {
      plans.push_back(*Compile(PipelineInput(shape, 1, parts)));
    }
  }
  return plans;
}

struct Tally {
  int mutants = 0;
  int accepted = 0;
  int accepted_wrongly = 0;
  int harmless_refused = 0;
  int unknown = 0;
  std::map<std::string, int> fates;

  void Print(const char* title) const {
    std::printf(
        "%s: %d mutants, %d accepted, %d of them wrongly, %d harmless ones "
        "refused, %d undecided\n",
        title, mutants, accepted, accepted_wrongly, harmless_refused, unknown);
  }
};

// Changes that cancel out, or find nothing to change, are no mutants.
Mutant AnyMutant(const std::vector<Plan>& plans, std::mt19937_64& random) {
  for (;;) {
    const Plan& good = plans[random() % plans.size()];
    Mutant mutant = MutantOf(good, random);
    if (mutant.plan != good) return mutant;
  }
}

void Count(const Mutant& mutant, const Verdict& verdict, uint64_t seed,
           Tally& tally) {
  const absl::Status verified = Verify(mutant.plan);
  ++tally.mutants;
  const bool runs = verdict.fate == Fate::kRuns;
  if (verdict.fate == Fate::kUnknown) ++tally.unknown;
  if (verified.ok()) {
    ++tally.accepted;
    if (!runs) {
      ++tally.accepted_wrongly;
      ADD_FAILURE() << "seed " << seed << " (" << mutant.what
                    << ") is accepted, but " << verdict.why << ":\n"
                    << PlanToJson(mutant.plan);
    }
  } else if (runs) {
    ++tally.harmless_refused;
    ++tally.fates[std::string(verified.message()).substr(0, 60)];
  }
}

TEST(MutationTest, TheJudgeFindsGoodPlansGood) {
  for (const Plan& plan : GoodPlans(2, 2)) {
    const Verdict verdict = JudgeAll(plan, kStatesMax);
    EXPECT_EQ(verdict.fate, Fate::kRuns) << verdict.why << PlanToJson(plan);
  }
  for (const Plan& plan : GoodPlans(5, 10)) {
    const Verdict verdict = JudgeSome(plan, 1, 1);
    EXPECT_EQ(verdict.fate, Fate::kRuns) << verdict.why;
  }
}

// What could hang or go wrong is decided in every interleaving.
TEST(MutationTest, NoBadMutantOfASmallPlanIsAccepted) {
  const std::vector<Plan> tiny = GoodPlans(2, 2);
  const std::vector<Plan> small = GoodPlans(3, 3);
  Tally tally;
  const uint64_t seeds = kUnderSanitizer ? 600 : 10'000;
  for (uint64_t seed = 0; seed < seeds && !HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<Plan>& plans = seed % 16 == 0 ? small : tiny;
    const Mutant mutant = AnyMutant(plans, random);
    Count(mutant, JudgeAll(mutant.plan, kStatesMax), seed, tally);
  }
  tally.Print("every interleaving");
  EXPECT_EQ(tally.accepted_wrongly, 0);
  EXPECT_GT(tally.accepted, tally.mutants / 50);
}

// Larger plans run many times, in an order drawn from the seed.
TEST(MutationTest, NoBadMutantOfALargerPlanIsAccepted) {
  const std::vector<Plan> plans = GoodPlans(5, 10);
  Tally tally;
  const uint64_t seeds = kUnderSanitizer ? 500 : 10'000;
  for (uint64_t seed = 0; seed < seeds && !HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    const Mutant mutant = AnyMutant(plans, random);
    Count(mutant, JudgeSome(mutant.plan, seed, 2), seed, tally);
  }
  tally.Print("some interleavings");
  EXPECT_EQ(tally.accepted_wrongly, 0);
  EXPECT_GT(tally.accepted, tally.mutants / 50);
}

}  // namespace
}  // namespace lockstep::plan
