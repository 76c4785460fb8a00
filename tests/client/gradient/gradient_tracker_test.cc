#include "client/gradient/gradient_tracker.h"

#include "gtest/gtest.h"

namespace lockstep::gradient {
namespace {

class GradientTrackerTest : public testing::Test {
 protected:
  GradientTracker tracker_{{"w", "b", "tied"}, {1, 1, 2}};
};

TEST_F(GradientTrackerTest, AParameterIsCompleteAtItsOnlySubmit) {
  const auto w = tracker_.Submit(0);
  ASSERT_TRUE(w.ok());
  EXPECT_TRUE(w->first);
  EXPECT_TRUE(w->complete);
  EXPECT_EQ(tracker_.completed().size(), 1);
}

TEST_F(GradientTrackerTest, ATiedParameterIsCompleteAtTheLastOfItsUses) {
  const auto once = tracker_.Submit(2);
  const auto twice = tracker_.Submit(2);
  ASSERT_TRUE(once.ok() && twice.ok());
  EXPECT_TRUE(once->first);
  EXPECT_FALSE(once->complete);
  EXPECT_FALSE(twice->first);
  EXPECT_TRUE(twice->complete);
}

TEST_F(GradientTrackerTest, RefusesASecondSubmitAndChangesNothing) {
  ASSERT_TRUE(tracker_.Submit(0).ok());
  EXPECT_EQ(tracker_.Submit(0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(tracker_.completed().size(), 1);
  ASSERT_TRUE(tracker_.Submit(1).ok());
  EXPECT_EQ(tracker_.Finish().never, std::vector<int>({2}));
}

TEST_F(GradientTrackerTest, RefusesAParameterThatWasNotRegistered) {
  for (int p : {-1, 3}) {
    EXPECT_EQ(tracker_.Submit(p).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(GradientTrackerTest, NothingIsCompleteInsideNoSync) {
  ASSERT_TRUE(tracker_.BeginNoSync().ok());
  EXPECT_FALSE(tracker_.Submit(0)->complete);
  tracker_.EndNoSync();

  const auto last = tracker_.Submit(0);
  ASSERT_TRUE(last.ok());
  EXPECT_FALSE(last->first) << "adds to the micro-batch before it";
  EXPECT_TRUE(last->complete);
}

TEST_F(GradientTrackerTest, ANoSyncScopeHoldsManyPasses) {
  ASSERT_TRUE(tracker_.BeginNoSync().ok());
  for (int pass = 0; pass < 3; ++pass) {
    const auto submitted = tracker_.Submit(0);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    EXPECT_EQ(submitted->first, pass == 0);
    EXPECT_FALSE(submitted->complete);
  }
  tracker_.EndNoSync();
  EXPECT_TRUE(tracker_.Submit(0)->complete);
  EXPECT_TRUE(absl::IsInvalidArgument(tracker_.Submit(0).status()));
}

// With reproducible.leaves a parameter has leaves instead of uses.
TEST_F(GradientTrackerTest, OneSubmitTooManyIsExplainedByUsesOrLeaves) {
  ASSERT_TRUE(tracker_.Submit(0).ok());
  const std::string refused(tracker_.Submit(0).status().message());
  EXPECT_NE(refused.find("uses"), std::string::npos) << refused;
  EXPECT_NE(refused.find("leaves"), std::string::npos) << refused;
}

TEST_F(GradientTrackerTest, NoSyncScopesDoNotNestAndComeBeforeTheLastPass) {
  ASSERT_TRUE(tracker_.BeginNoSync().ok());
  EXPECT_EQ(tracker_.BeginNoSync().code(),
            absl::StatusCode::kFailedPrecondition);
  tracker_.EndNoSync();
  ASSERT_TRUE(tracker_.Submit(0).ok());
  EXPECT_EQ(tracker_.BeginNoSync().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(GradientTrackerTest, FinishTellsWhatNeverCameFromWhatWasAccumulated) {
  ASSERT_TRUE(tracker_.BeginNoSync().ok());
  ASSERT_TRUE(tracker_.Submit(1).ok());
  tracker_.EndNoSync();
  ASSERT_TRUE(tracker_.Submit(0).ok());
  EXPECT_EQ(tracker_.MissingNames(8), std::vector<std::string>({"b", "tied"}));
  EXPECT_EQ(tracker_.MissingNames(1), std::vector<std::string>({"b"}));

  const GradientTracker::Incomplete incomplete = tracker_.Finish();
  EXPECT_EQ(incomplete.never, std::vector<int>({2}));
  EXPECT_EQ(incomplete.partly, std::vector<int>({1}));

  EXPECT_EQ(tracker_.completed().size(), 0);
  EXPECT_TRUE(tracker_.Submit(0)->first) << "a new step begins";
}

TEST(TallyOfPassesTest, WhatMayBeTravellingDoesNotRest) {
  GradientTracker tracker({"v", "w", "x"}, {1, 1, 1},
                          GradientTracker::Expects::kAnnounced);
  EXPECT_EQ(tracker.Resting(), std::vector<int>({0, 1, 2}));
  ASSERT_TRUE(tracker.BeginPass({0, 1}).ok());
  EXPECT_EQ(tracker.Resting(), std::vector<int>({0, 1}));
  ASSERT_TRUE(tracker.Submit(1).ok());
  EXPECT_EQ(tracker.Resting(), std::vector<int>({0}));
  tracker.Finish();
  EXPECT_EQ(tracker.Resting(), std::vector<int>({0, 1, 2}));
}

TEST(TallyOfPassesTest, ExpectsWhatWasAnnounced) {
  GradientTracker tracker({"a", "b", "c"}, {1, 1, 1},
                          GradientTracker::Expects::kAnnounced);
  EXPECT_TRUE(absl::IsInvalidArgument(tracker.Submit(0).status()));
  EXPECT_TRUE(tracker.MissingNames(8).empty());
  EXPECT_TRUE(absl::IsInvalidArgument(tracker.BeginPass({2, 2})));
  EXPECT_TRUE(absl::IsInvalidArgument(tracker.BeginPass({3})));
  ASSERT_TRUE(tracker.BeginPass({0, 2}).ok()) << "a wrong call changed nothing";
  EXPECT_TRUE(absl::IsFailedPrecondition(tracker.BeginPass({0})));
  EXPECT_TRUE(absl::IsInvalidArgument(tracker.Submit(1).status()));
  ASSERT_TRUE(tracker.Submit(2).ok());
  EXPECT_EQ(tracker.MissingNames(8), std::vector<std::string>({"a"}));
  EXPECT_EQ(tracker.Finish().never, std::vector<int>({0}));
  EXPECT_FALSE(tracker.has_begun()) << "a new pass";
  EXPECT_TRUE(tracker.Finish().never.empty()) << "it announced nothing";
}

}  // namespace
}  // namespace lockstep::gradient
