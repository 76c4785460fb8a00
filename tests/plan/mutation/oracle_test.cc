// The oracle accepts every good plan and sees the faults of wrong ones.

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "plan/plan_json.h"
#include "tests/plan/mutation/generic_mutations.h"
#include "tests/plan/mutation/good_plans.h"
#include "tests/plan/mutation/judge.h"
#include "tests/plan/mutation/mutants.h"
#include "tests/plan/mutation/wrong_kinds.h"
#include "tests/support/sanitizers.h"

namespace lockstep::plan {
namespace {

constexpr size_t kStatesMax = 20'000;

TEST(OracleTest, EveryGoodPipelineRunsInEveryInterleaving) {
  const std::vector<GoodPlan> plans = GoodPipelines();
  EXPECT_GT(plans.size(), 400u);
  for (const GoodPlan& good : plans) {
    const Verdict verdict = JudgeAll(good.plan, kStatesMax);
    ASSERT_EQ(verdict.fate, Fate::kRuns) << good.name << ": " << verdict.why;
  }
}

TEST(OracleTest, EveryGoodPlainPlanRunsInEveryInterleaving) {
  const std::vector<GoodPlan> plans = GoodPlainPlans();
  EXPECT_GT(plans.size(), 15u);
  for (const GoodPlan& good : plans) {
    const Verdict verdict = JudgeAll(good.plan, kStatesMax);
    ASSERT_EQ(verdict.fate, Fate::kRuns) << good.name << ": " << verdict.why;
  }
}

TEST(OracleTest, LargerPlansRunTooAndRandomInterleavings) {
  for (const GoodPlan& good : LargerPipelines()) {
    const Verdict all = JudgeAll(good.plan, kStatesMax);
    ASSERT_EQ(all.fate, Fate::kRuns) << good.name << ": " << all.why;
  }
  for (const GoodPlan& good : GoodPipelines()) {
    const Verdict verdict = JudgeSome(good.plan, 1, 2);
    ASSERT_EQ(verdict.fate, Fate::kRuns) << good.name << ": " << verdict.why;
  }
}

std::vector<GoodPlan> TinyPlans() {
  std::vector<GoodPlan> tiny;
  for (GoodPlan& good : GoodPipelines()) {
    size_t steps = 0;
    for (const RankPlan& rank : good.plan.ranks) {
      steps += rank.tasks.size() + rank.launch_order.size();
      // The verdict is last, in one order.
      for (const Lane& lane : rank.lanes) {
        steps -= lane.kind == LaneKind::kVerdict ? lane.transfers.size() : 0;
      }
    }
    if (steps <= 24) tiny.push_back(std::move(good));
  }
  return tiny;
}

// All mutations that apply to a pipeline.
std::vector<Mutation> AllButPlain() {
  std::vector<Mutation> mutations = GenericMutations();
  mutations.insert(mutations.end(), WrongKinds().begin(), WrongKinds().end());
  std::erase_if(mutations, [](const Mutation& mutation) {
    return std::string(mutation.name) == kTasksWithoutPipeline;
  });
  return mutations;
}

// The partial-order reduction (order.h) misses no fault.
TEST(OracleTest, ReducedSearchFindsWhatTheWholeOneFinds) {
  const std::vector<GoodPlan> tiny = TinyPlans();
  ASSERT_GT(tiny.size(), 20u);
  const std::vector<Mutation> mutations = AllButPlain();
  int compared = 0;
  int ran = 0;
  const uint64_t seeds = kUnderSanitizer ? 200 : 4'000;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const Mutant mutant = MutantOf(mutations[seed % mutations.size()], tiny,
                                   seed, GenericMutations());
    const Verdict whole = JudgeAll(mutant.plan, kStatesMax, false);
    if (whole.fate == Fate::kUnknown) continue;
    const Verdict reduced = JudgeAll(mutant.plan, kStatesMax);
    ++compared;
    ran += whole.fate == Fate::kRuns ? 1 : 0;
    ASSERT_EQ(whole.fate == Fate::kRuns, reduced.fate == Fate::kRuns)
        << "seed " << seed << ", " << mutant.what << ": " << whole.why << " / "
        << reduced.why << PlanToJson(mutant.plan);
  }
  EXPECT_GT(compared, static_cast<int>(seeds) / 2);
  EXPECT_GT(ran, compared / 20);
}

TEST(OracleTest, RandomRunsFindNothingThatTheSearchMisses) {
  const std::vector<GoodPlan> plans = GoodPipelines();
  const std::vector<Mutation> mutations = AllButPlain();
  int ran = 0;
  const uint64_t seeds = kUnderSanitizer ? 200 : 4'000;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const Mutant mutant =
        MutantOf(mutations[seed % mutations.size()], plans, seed);
    if (JudgeAll(mutant.plan, kStatesMax).fate != Fate::kRuns) continue;
    ++ran;
    const Verdict some = JudgeSome(mutant.plan, seed, 8);
    ASSERT_EQ(some.fate, Fate::kRuns)
        << "seed " << seed << ", " << mutant.what << ": " << some.why;
  }
  EXPECT_GT(ran, static_cast<int>(seeds) / 20);
}

// The number of mutants of a kind with a fate, out of 60.
int FatesOf(const char* kind, Fate fate) {
  static const auto* const plans = new std::vector<GoodPlan>(GoodPipelines());
  std::vector<Mutation> all = GenericMutations();
  all.insert(all.end(), WrongKinds().begin(), WrongKinds().end());
  const auto mutation = std::find_if(
      all.begin(), all.end(),
      [&](const Mutation& other) { return std::string(other.name) == kind; });
  int count = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Mutant mutant = MutantOf(*mutation, *plans, seed);
    count += Judge(mutant.plan, seed).fate == fate ? 1 : 0;
  }
  return count;
}

TEST(OracleTest, FollowsValuesFromReplicaToReplica) {
  EXPECT_EQ(FatesOf("replicas exchanged", Fate::kMismatch), 60);
}

TEST(OracleTest, FollowsGradientsThroughSharedSumsAndReductions) {
  EXPECT_GT(FatesOf("shared sum after its bucket", Fate::kMismatch), 40);
  EXPECT_GT(FatesOf("shared sum dropped", Fate::kMismatch), 30);
  EXPECT_GT(FatesOf("reduction earlier", Fate::kMismatch), 20);
  EXPECT_GT(FatesOf("bucket transfers reordered", Fate::kMismatch), 5);
}

TEST(OracleTest, SeesBuffersThatAreUsedTooEarlyAndThoseThatAreNot) {
  EXPECT_GT(FatesOf("buffer used too early", Fate::kMismatch), 10);
  EXPECT_GT(FatesOf("buffer used too early", Fate::kRuns), 10);
}

TEST(OracleTest, SeesDeadlocks) {
  EXPECT_GT(FatesOf("swap launches", Fate::kHangs), 10);
  EXPECT_GT(FatesOf("parameters gathered late", Fate::kHangs), 30);
}

TEST(OracleTest, FollowsElementsThroughLocalOperations) {
  EXPECT_GT(FatesOf("operation dropped", Fate::kMismatch), 20);
  EXPECT_GT(FatesOf("operation on the wrong side", Fate::kMismatch), 15);
  EXPECT_GT(FatesOf("norm of other elements", Fate::kMismatch), 40);
  EXPECT_GT(FatesOf("norm for another leaf", Fate::kMismatch), 40);
  EXPECT_GT(FatesOf("shared counted at both ends", Fate::kMismatch), 30);
  EXPECT_GT(FatesOf("announced as well", Fate::kMismatch), 10);
  // A cast of the same elements twice changes nothing.
  EXPECT_GT(FatesOf("operation doubled", Fate::kMismatch), 3);
  EXPECT_GT(FatesOf("operation doubled", Fate::kRuns), 5);
}

TEST(OracleTest, SeesVerdictsThatReduceNoSummary) {
  EXPECT_EQ(FatesOf("verdict dropped", Fate::kCannot), 60);
  EXPECT_EQ(FatesOf("verdict doubled", Fate::kCannot), 60);
  EXPECT_GT(FatesOf("verdict earlier", Fate::kHangs), 40);
}

// Two parts of one type may change places on both sides.
TEST(OracleTest, TellsPartsOfOneTypeFromPartsOfTwo) {
  EXPECT_GT(FatesOf("parts swapped", Fate::kCannot), 10);
  EXPECT_GT(FatesOf("parts swapped", Fate::kRuns), 10);
}

}  // namespace
}  // namespace lockstep::plan
