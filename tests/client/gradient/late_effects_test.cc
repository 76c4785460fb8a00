#include "client/gradient/late_effects.h"

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/case_name.h"

namespace lockstep::gradient {
namespace {

constexpr int kWorld = 3;

// A verdict of ranks with more data, all of which hold `commands`.
Verdict Holding(std::initializer_list<Command> commands = {}) {
  Verdict verdict{.with_more_data = kWorld, .world_size = kWorld};
  for (const Command command : commands) {
    verdict.command_holders[IndexOf(command)] = kWorld;
    verdict.command_word = 7;
  }
  return verdict;
}

class LateEffectsTest : public testing::TestWithParam<int> {
 protected:
  uint64_t ahead() const { return static_cast<uint64_t>(GetParam()); }
  Verdict Apply(uint64_t launch, Verdict verdict) {
    effects_.Apply(launch, &verdict);
    return verdict;
  }
  LateEffects effects_{GetParam(), Uneven::kStop};
};

TEST_P(LateEffectsTest, ALaunchAwaitsTheVerdictOfRunAheadAndOneBefore) {
  for (uint64_t next = 0; next <= ahead(); ++next) {
    EXPECT_EQ(effects_.AwaitedBy(next), std::nullopt);
  }
  EXPECT_EQ(effects_.AwaitedBy(ahead() + 1), 0u);
  EXPECT_EQ(effects_.AwaitedBy(9), 8 - ahead());
}

TEST_P(LateEffectsTest, ACommandEndsTheEpochWithTheNewestStepInFlight) {
  EXPECT_FALSE(Apply(0, Holding()).IsLast());
  for (uint64_t launch = 1; launch < 1 + ahead(); ++launch) {
    // The operator changes his mind: too late.
    const Verdict verdict =
        Apply(launch, launch == 1 ? Holding({Command::kDrain}) : Holding());
    EXPECT_FALSE(verdict.IsLast()) << launch;
    EXPECT_TRUE(effects_.ends_soon());
  }
  const Verdict last =
      Apply(1 + ahead(), ahead() == 0 ? Holding({Command::kDrain}) : Holding());
  EXPECT_EQ(last.ending, Ending::kDrain);
  EXPECT_EQ(effects_.last_launch(), 1 + ahead());
  EXPECT_EQ(effects_.AwaitedBy(2 + ahead()), 1 + ahead());
}

TEST_P(LateEffectsTest, GrowthHoldsOnceAndLate) {
  for (uint64_t launch = 0; launch <= ahead(); ++launch) {
    EXPECT_EQ(Apply(launch, Holding({Command::kGrow})).Grows(),
              launch == ahead())
        << launch;
  }
}

TEST_P(LateEffectsTest, DataThatRunsOutEndsTheEpochAtOnce) {
  Verdict out = Holding();
  out.with_more_data = kWorld - 1;
  EXPECT_EQ(Apply(4, out).ending, Ending::kOutOfData);
  EXPECT_EQ(effects_.last_launch(), 4 + ahead()) << "the rest is void";
}

TEST_P(LateEffectsTest, ACommandThatIsDueBoundsTheVoidSteps) {
  Apply(4, Holding({Command::kStop}));
  if (ahead() == 0) return;
  Verdict out = Holding();
  out.with_more_data = 0;
  EXPECT_EQ(Apply(5, out).ending,
            ahead() == 1 ? Ending::kStop : Ending::kOutOfData);
  EXPECT_EQ(effects_.last_launch(), 4 + ahead());
}

TEST_P(LateEffectsTest, UnevenJoinEndsWithTheLastRank) {
  LateEffects effects(GetParam(), Uneven::kJoin);
  Verdict one_left = Holding();
  one_left.with_more_data = 1;
  effects.Apply(0, &one_left);
  EXPECT_FALSE(one_left.IsLast());
}

TEST_P(LateEffectsTest, ANextRevisionTakesEffectBehindTheStepsInFlight) {
  Verdict all = Holding();
  all.revision_holders = kWorld;
  for (uint64_t launch = 2; launch <= 2 + ahead(); ++launch) {
    Apply(launch, all);
    EXPECT_EQ(effects_.switches_after(), 2 + ahead());
  }
  EXPECT_EQ(effects_.AwaitedBy(3 + ahead()), 2 + ahead())
      << "the next step has the new buckets";
  effects_.Switched();
  EXPECT_EQ(effects_.AwaitedBy(3 + ahead()), 2u);
}

TEST_P(LateEffectsTest, ASaveHoldsAtOneOfTheStepsThatWereInFlight) {
  EXPECT_TRUE(Apply(0, Holding({Command::kSave})).Holds(Command::kSave));
  for (uint64_t launch = 1; launch <= ahead(); ++launch) {
    EXPECT_FALSE(
        Apply(launch, Holding({Command::kSave})).Holds(Command::kSave));
  }
  EXPECT_TRUE(
      Apply(ahead() + 1, Holding({Command::kSave})).Holds(Command::kSave))
      << "another request";
}

// On the host a step may be given up after it was judged, and passes later by
// the verdict of another rank.
TEST_P(LateEffectsTest, AVerdictThatIsGivenAgainHasTheSameEffects) {
  for (uint64_t launch = 0; launch <= ahead(); ++launch) {
    Verdict verdict =
        Holding({Command::kSave, Command::kDrain, Command::kGrow});
    verdict.revision_holders = kWorld;
    const Verdict once = Apply(launch, verdict);
    EXPECT_EQ(Apply(launch, verdict), once) << launch;
    EXPECT_EQ(once.Holds(Command::kSave), launch == 0);
    EXPECT_EQ(once.IsLast(), launch == ahead());
  }
}

INSTANTIATE_TEST_SUITE_P(RunAhead, LateEffectsTest, testing::Values(0, 1, 2));

// --- Ranks that are not equally fast ---

// One rank's launches: the revision of each. Verdict `next_plan` finds that all
// ranks hold the next revision, verdict `drained` the operator's command.
// Before each launch the rank acts on the verdicts that it must have seen, and
// on some more. `lateness`: how many launches behind its verdict an effect
// begins; right is run_ahead.
std::vector<int> LaunchesOf(int run_ahead, int lateness, uint64_t next_plan,
                            uint64_t drained, std::mt19937_64& random) {
  LateEffects effects(lateness, Uneven::kStop);
  std::vector<int> launches;
  int revision = 1;
  uint64_t acted_on = 0;
  const auto act_on = [&](uint64_t launch) {
    Verdict verdict =
        launch == drained ? Holding({Command::kDrain}) : Holding();
    if (launch == next_plan) verdict.revision_holders = kWorld;
    effects.Apply(launch, &verdict);
    if (effects.switches_after() != launch) return;
    ++revision;
    effects.Switched();
  };
  while (true) {
    const uint64_t next = launches.size();
    uint64_t seen = next - std::min<uint64_t>(next, run_ahead);
    seen += random() % (next - seen + 1);
    // A switch or an end that is known comes before.
    const auto awaits = [&](std::optional<uint64_t> end) {
      return end.has_value() && *end < next && acted_on <= *end;
    };
    while (acted_on < seen || awaits(effects.switches_after()) ||
           awaits(effects.last_launch())) {
      act_on(acted_on++);
    }
    if (next > effects.last_launch().value_or(next)) return launches;
    launches.push_back(revision);
  }
}

// Whether two ranks launch different steps.
bool RanksDiffer(int run_ahead, int lateness, uint64_t seed) {
  std::mt19937_64 random(seed);
  const uint64_t next_plan = random() % 5;
  const uint64_t drained = next_plan + random() % 5;
  const auto one = LaunchesOf(run_ahead, lateness, next_plan, drained, random);
  return one != LaunchesOf(run_ahead, lateness, next_plan, drained, random);
}

TEST_P(LateEffectsTest, AreTheSameOnRanksThatAreNotEquallyFast) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    EXPECT_FALSE(RanksDiffer(GetParam(), GetParam(), seed)) << seed;
  }
}

struct EffectsMistake {
  const char* name;
  int run_ahead;
  int lateness;
};

class EffectsMistakeTest : public testing::TestWithParam<EffectsMistake> {};

TEST_P(EffectsMistakeTest, IsNoticed) {
  uint64_t seed = 1;
  while (seed < 500 &&
         !RanksDiffer(GetParam().run_ahead, GetParam().lateness, seed)) {
    ++seed;
  }
  EXPECT_LT(seed, 500u);
}

INSTANTIATE_TEST_SUITE_P(
    Effects, EffectsMistakeTest,
    testing::Values(EffectsMistake{"they begin with the next step", 1, 0},
                    EffectsMistake{
                        "they begin two steps later with run ahead 2", 2, 1}),
    [](const auto& info) { return CaseName(info.param.name); });

}  // namespace
}  // namespace lockstep::gradient
