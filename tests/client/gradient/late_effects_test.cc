#include "client/gradient/late_effects.h"

#include "gtest/gtest.h"

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

}  // namespace
}  // namespace lockstep::gradient
