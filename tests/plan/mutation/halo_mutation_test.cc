// The verifier refuses every plan whose halo exchanges copy wrong cells or
// cannot run. Plans are judged by running their exchanges (run_halos.h) and
// their transfers (judge.h).

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "plan/plan_json.h"
#include "plan/verify/verify.h"
#include "tests/plan/halo/run_halos.h"
#include "tests/plan/mutation/generic_mutations.h"
#include "tests/plan/mutation/halo_plans.h"
#include "tests/plan/mutation/judge.h"
#include "tests/plan/mutation/mutants.h"
#include "tests/plan/mutation/wrong_halos.h"
#include "tests/support/sanitizers.h"

namespace lockstep::plan {
namespace {

// Empty if the plan runs and every cell is right.
std::string WrongWithHalos(const Plan& plan, uint64_t seed) {
  if (const auto fault = oracle::HaloFaultIn(plan, seed)) return *fault;
  const Verdict verdict = Judge(plan, seed);
  return verdict.fate == Fate::kRuns ? "" : verdict.why;
}

TEST(HaloMutationTest, EveryGoodPlanRunsAndIsVerified) {
  const std::vector<GoodPlan> plans = GoodHaloPlans();
  EXPECT_GT(plans.size(), 20u);
  for (const GoodPlan& good : plans) {
    EXPECT_EQ(WrongWithHalos(good.plan, 1), "") << good.name;
    EXPECT_EQ(Verify(good.plan), absl::OkStatus()) << good.name;
  }
}

TEST(HaloMutationTest, NoWrongMutantIsAccepted) {
  // A kind with too few wrong mutants would test nothing.
  constexpr int kWrongMin = 60;
  const std::vector<GoodPlan> plans = GoodHaloPlans();
  std::vector<Mutation> mutations = WrongHalos();
  const std::vector<Mutation>& generic = GenericMutations();
  mutations.insert(mutations.end(), generic.begin(), generic.end());
  const char* const replay = std::getenv("LOCKSTEP_MUTANT");
  const uint64_t each = kUnderSanitizer ? 20 : 400;
  int mutants = 0, wrong = 0, harmless_refused = 0, accepted = 0;
  std::printf("%-30s %7s %7s %8s %8s\n", "kind", "mutants", "wrong", "accepted",
              "harmless refused");
  for (size_t kind = 0; kind < mutations.size(); ++kind) {
    int wrong_of_kind = 0, accepted_of_kind = 0, refused_of_kind = 0;
    for (uint64_t i = 0; i < each; ++i) {
      const uint64_t seed = i * mutations.size() + kind;
      if (replay != nullptr && std::strtoull(replay, nullptr, 10) != seed) {
        continue;
      }
      const Mutant mutant = MutantOf(mutations[kind], plans, seed, generic);
      const std::string why = WrongWithHalos(mutant.plan, seed);
      const absl::Status verified = Verify(mutant.plan);
      wrong_of_kind += why.empty() ? 0 : 1;
      accepted_of_kind += verified.ok() ? 1 : 0;
      refused_of_kind += why.empty() && !verified.ok() ? 1 : 0;
      ++mutants;
      EXPECT_TRUE(why.empty() || !verified.ok())
          << "LOCKSTEP_MUTANT=" << seed << ": " << mutant.what
          << " is accepted, but " << why;
      if (replay != nullptr) {
        std::printf("%s\noracle: %s\nverifier: %s\n%s\n", mutant.what.c_str(),
                    why.c_str(), verified.ToString().c_str(),
                    PlanToJson(mutant.plan).c_str());
      }
    }
    std::printf("%-30s %7d %7d %8d %8d\n", mutations[kind].name,
                static_cast<int>(each), wrong_of_kind, accepted_of_kind,
                refused_of_kind);
    wrong += wrong_of_kind;
    accepted += accepted_of_kind;
    harmless_refused += refused_of_kind;
    if (kUnderSanitizer || replay != nullptr) continue;
    if (kind < WrongHalos().size()) {
      EXPECT_GE(wrong_of_kind, kWrongMin) << mutations[kind].name;
    }
  }
  std::printf("%-30s %7d %7d %8d %8d\n", "together", mutants, wrong, accepted,
              harmless_refused);
  if (replay != nullptr) return;
  EXPECT_GT(accepted, mutants / 50);
}

// The oracle itself sees a wrong cell of each kind.
TEST(HaloMutationTest, TheOracleSeesEveryChangeOfWhatIsCopied) {
  const std::vector<GoodPlan> plans = GoodHaloPlans();
  const struct {
    const char* name;
    int wrong_min;  // of 60
  } kinds[] = {{"box dropped", 60},
               {"box shifted", 35},
               {"fill of another value", 50},
               {"box from another member", 25},
               {"message dropped", 60}};
  for (const auto& kind : kinds) {
    const auto mutation = std::find_if(
        WrongHalos().begin(), WrongHalos().end(), [&](const Mutation& other) {
          return std::string(other.name) == kind.name;
        });
    ASSERT_NE(mutation, WrongHalos().end());
    int wrong = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const Mutant mutant = MutantOf(*mutation, plans, seed);
      wrong += oracle::HaloFaultIn(mutant.plan).has_value() ? 1 : 0;
    }
    EXPECT_GE(wrong, kind.wrong_min) << kind.name;
  }
}

}  // namespace
}  // namespace lockstep::plan
