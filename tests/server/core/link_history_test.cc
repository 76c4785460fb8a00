// Links that keep breaking: the member with the most of them goes.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using protocol::CauseKind;
using protocol::Phase;
using testing::HasSubstr;

// --- Links that keep breaking -----------------------------------------------

TEST(LinkHistoryTest, TheMemberWithMostBadLinksGoesAtTheThirdEnd) {
  LinkHistory links(absl::Minutes(10));
  EXPECT_EQ(links.Add(At(0), W(1), W(2)), std::nullopt);
  EXPECT_EQ(links.Add(At(20), W(1), W(3)), std::nullopt);
  EXPECT_EQ(links.Add(At(40), W(4), W(5)), W(1));
  EXPECT_EQ(links.Add(At(60), W(1), W(2)), std::nullopt) << "it begins anew";
}

TEST(LinkHistoryTest, OfTwoTheOneThatWasAccusedLastGoes) {
  LinkHistory links(absl::Minutes(10));
  links.Add(At(0), W(1), W(2));
  links.Add(At(20), W(1), W(2));
  EXPECT_EQ(links.Add(At(40), W(2), W(1)), W(1));
}

TEST(LinkHistoryTest, EndsBeforeTheWindowAreForgotten) {
  LinkHistory links(absl::Minutes(10));
  links.Add(At(0), W(1), W(2));
  links.Add(At(20), W(1), W(2));
  EXPECT_EQ(links.Add(At(600), W(1), W(2)), std::nullopt);
  EXPECT_EQ(links.Add(At(610), W(1), W(2)), W(2));
}

class BadLinksTest : public testing::Test {
 protected:
  // Ends an epoch because `reporter` cannot reach worker `accused`.
  void Break(int reporter, int accused) {
    fixture_.ConnectAll();
    fixture_.Says(reporter, Stands(8, Phase::kTransfer));
    fixture_.Says(reporter, CoordinatorFixture::ResetBy(accused));
    last_ = fixture_.Wait(1.1);
    ASSERT_EQ(fixture_.View().cause.kind, CauseKind::kLink);
  }
  void AllJoinAgain() {
    for (const int i : {1, 2, 3}) fixture_.JoinsAgain(i);
  }

  CoordinatorFixture fixture_{RestartingSpec(3)};
  EffectList last_;
};

// Though all three ends were in step 8, the job forms again without it.
TEST_F(BadLinksTest, AfterThreeEndsTheWorstMemberIsToldThatItIsOver) {
  fixture_.JoinAll();
  Break(1, 2);
  AllJoinAgain();
  Break(3, 2);
  AllJoinAgain();
  Break(2, 1);
  EXPECT_EQ(fixture_.View().state, JobState::kEpochEnded);
  EXPECT_EQ(fixture_.ViewOf(2).state, WorkerState::kLost);
  EXPECT_EQ(fixture_.ViewOf(1).state, WorkerState::kJoining);
  EXPECT_THAT(
      last_,
      Includes(Sends(
          2, EpochEndedForGood(3, HasSubstr("w-2 (rank 1, host a, pid 102) has "
                                            "the most bad links, and goes")))));
  protocol::Hello replacement = fixture_.HelloOf(2);
  replacement.incarnation = 77;
  EXPECT_THAT(fixture_.Hello(32, replacement), Includes(Sends(32, Welcome(2))));
}

TEST_F(BadLinksTest, TwoEndsLoseNobody) {
  fixture_.JoinAll();
  Break(1, 2);
  AllJoinAgain();
  Break(3, 2);
  for (const int i : {1, 2, 3}) {
    EXPECT_EQ(fixture_.ViewOf(i).state, WorkerState::kJoining);
  }
}

// Each epoch commits five steps more than the one before, and fails.

}  // namespace
}  // namespace lockstep::core
