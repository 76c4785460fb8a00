#include "client/gradient/tally.h"

#include "gtest/gtest.h"

namespace lockstep::gradient {
namespace {

class TallyTest : public testing::Test {
 protected:
  Tally tally_{{"w", "b", "tied"}, {1, 1, 2}};
};

TEST_F(TallyTest, AParameterIsCompleteAtItsOnlySubmit) {
  const auto w = tally_.Submit(0);
  ASSERT_TRUE(w.ok());
  EXPECT_TRUE(w->first);
  EXPECT_TRUE(w->complete);
  EXPECT_EQ(tally_.completed().size(), 1);
}

TEST_F(TallyTest, ATiedParameterIsCompleteAtTheLastOfItsUses) {
  const auto once = tally_.Submit(2);
  const auto twice = tally_.Submit(2);
  ASSERT_TRUE(once.ok() && twice.ok());
  EXPECT_TRUE(once->first);
  EXPECT_FALSE(once->complete);
  EXPECT_FALSE(twice->first);
  EXPECT_TRUE(twice->complete);
}

TEST_F(TallyTest, RefusesASecondSubmitAndChangesNothing) {
  ASSERT_TRUE(tally_.Submit(0).ok());
  EXPECT_EQ(tally_.Submit(0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(tally_.completed().size(), 1);
  ASSERT_TRUE(tally_.Submit(1).ok());
  EXPECT_EQ(tally_.Finish().never, std::vector<int>({2}));
}

TEST_F(TallyTest, RefusesAParameterThatWasNotRegistered) {
  for (int p : {-1, 3}) {
    EXPECT_EQ(tally_.Submit(p).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(TallyTest, NothingIsCompleteInsideNoSync) {
  ASSERT_TRUE(tally_.BeginNoSync().ok());
  EXPECT_FALSE(tally_.Submit(0)->complete);
  tally_.EndNoSync();

  const auto last = tally_.Submit(0);
  ASSERT_TRUE(last.ok());
  EXPECT_FALSE(last->first) << "adds to the micro-batch before it";
  EXPECT_TRUE(last->complete);
}

TEST_F(TallyTest, ANoSyncScopeHoldsManyPasses) {
  ASSERT_TRUE(tally_.BeginNoSync().ok());
  for (int pass = 0; pass < 3; ++pass) {
    const auto submitted = tally_.Submit(0);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    EXPECT_EQ(submitted->first, pass == 0);
    EXPECT_FALSE(submitted->complete);
  }
  tally_.EndNoSync();
  EXPECT_TRUE(tally_.Submit(0)->complete);
  EXPECT_TRUE(absl::IsInvalidArgument(tally_.Submit(0).status()));
}

// With reproducible.leaves a parameter has no uses, but leaves.
TEST_F(TallyTest, OneSubmitTooManyIsExplainedByUsesOrLeaves) {
  ASSERT_TRUE(tally_.Submit(0).ok());
  const std::string refused(tally_.Submit(0).status().message());
  EXPECT_NE(refused.find("uses"), std::string::npos) << refused;
  EXPECT_NE(refused.find("leaves"), std::string::npos) << refused;
}

TEST_F(TallyTest, NoSyncScopesDoNotNestAndComeBeforeTheLastPass) {
  ASSERT_TRUE(tally_.BeginNoSync().ok());
  EXPECT_EQ(tally_.BeginNoSync().code(), absl::StatusCode::kFailedPrecondition);
  tally_.EndNoSync();
  ASSERT_TRUE(tally_.Submit(0).ok());
  EXPECT_EQ(tally_.BeginNoSync().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TallyTest, FinishTellsWhatNeverCameFromWhatWasAccumulated) {
  ASSERT_TRUE(tally_.BeginNoSync().ok());
  ASSERT_TRUE(tally_.Submit(1).ok());
  tally_.EndNoSync();
  ASSERT_TRUE(tally_.Submit(0).ok());
  EXPECT_EQ(tally_.MissingNames(8), std::vector<std::string>({"b", "tied"}));
  EXPECT_EQ(tally_.MissingNames(1), std::vector<std::string>({"b"}));

  const Tally::Incomplete incomplete = tally_.Finish();
  EXPECT_EQ(incomplete.never, std::vector<int>({2}));
  EXPECT_EQ(incomplete.partly, std::vector<int>({1}));

  EXPECT_EQ(tally_.completed().size(), 0);
  EXPECT_TRUE(tally_.Submit(0)->first) << "a new step begins";
}

TEST(TallyOfPassesTest, WhatMayBeTravellingDoesNotRest) {
  Tally tally({"v", "w", "x"}, {1, 1, 1}, Tally::Expects::kAnnounced);
  EXPECT_EQ(tally.Resting(), std::vector<int>({0, 1, 2}));
  ASSERT_TRUE(tally.BeginPass({0, 1}).ok());
  EXPECT_EQ(tally.Resting(), std::vector<int>({0, 1}));
  ASSERT_TRUE(tally.Submit(1).ok());
  EXPECT_EQ(tally.Resting(), std::vector<int>({0}));
  tally.Finish();
  EXPECT_EQ(tally.Resting(), std::vector<int>({0, 1, 2}));
}

TEST(TallyOfPassesTest, ExpectsWhatWasAnnounced) {
  Tally tally({"a", "b", "c"}, {1, 1, 1}, Tally::Expects::kAnnounced);
  EXPECT_TRUE(absl::IsInvalidArgument(tally.Submit(0).status()));
  EXPECT_TRUE(tally.MissingNames(8).empty());
  EXPECT_TRUE(absl::IsInvalidArgument(tally.BeginPass({2, 2})));
  EXPECT_TRUE(absl::IsInvalidArgument(tally.BeginPass({3})));
  ASSERT_TRUE(tally.BeginPass({0, 2}).ok()) << "a wrong call changed nothing";
  EXPECT_TRUE(absl::IsFailedPrecondition(tally.BeginPass({0})));
  EXPECT_TRUE(absl::IsInvalidArgument(tally.Submit(1).status()));
  ASSERT_TRUE(tally.Submit(2).ok());
  EXPECT_EQ(tally.MissingNames(8), std::vector<std::string>({"a"}));
  EXPECT_EQ(tally.Finish().never, std::vector<int>({0}));
  EXPECT_FALSE(tally.has_begun()) << "a new pass";
  EXPECT_TRUE(tally.Finish().never.empty()) << "it announced nothing";
}

}  // namespace
}  // namespace lockstep::gradient
