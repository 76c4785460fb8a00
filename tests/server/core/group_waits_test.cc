#include "server/core/group_waits.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/waits.h"

namespace lockstep::core {
namespace {

using protocol::GroupProgress;
using testing::ElementsAre;
using testing::IsEmpty;

// Communicator 1: ranks 0, 1; 2: ranks 2, 3; 3: ranks 0, 2; 4: all.
const plan::Plan kGroupsPlan{.communicators = {{"world", {0, 1, 2, 3}},
                                               {"a", {0, 1}},
                                               {"b", {2, 3}},
                                               {"c", {0, 2}},
                                               {"d", {3, 2, 1, 0}}}};

class GroupWaitsTest : public testing::Test {
 protected:
  void Report(int rank, std::vector<GroupProgress> groups) {
    progress_.Update(rank, {.groups = std::move(groups)}, absl::UnixEpoch());
  }
  GroupWaits Calls() const { return GroupWaits(progress_, kGroupsPlan); }
  std::vector<int> For(int rank) const {
    std::vector<int> others;
    Calls().AddFor(rank, 4, &others);
    return others;
  }

  ProgressTracker progress_{4, absl::Seconds(1), absl::UnixEpoch()};
};

TEST_F(GroupWaitsTest, AMemberWaitsForThoseThatHaveCalledLess) {
  Report(0, {{4, 7, 6, "psum over x"}});
  Report(1, {{4, 7, 6, "psum over x"}});
  Report(2, {{4, 6, 6, ""}});
  Report(3, {{4, 5, 5, ""}});
  EXPECT_THAT(For(0), ElementsAre(3, 2));
  EXPECT_THAT(For(2), IsEmpty());
  EXPECT_THAT(Calls().On(3), ElementsAre(0, 1));
  EXPECT_EQ(Calls().CallMissing(2), "psum over x");
  EXPECT_EQ(Calls().CallMissing(1), "");
  EXPECT_TRUE(Calls().Needed(2));
  EXPECT_TRUE(Calls().Any(0));
  EXPECT_FALSE(Calls().Any(2));
}

TEST_F(GroupWaitsTest, AMemberWithoutAReportHasMadeNoCall) {
  Report(2, {{2, 1, 0, "Barrier"}});
  EXPECT_THAT(For(2), ElementsAre(3));
  EXPECT_EQ(Calls().CallMissing(3), "Barrier");
}

TEST_F(GroupWaitsTest, NobodyWaitsForOneThatHasLeft) {
  Report(2, {{2, 1, 0, "Barrier"}});
  progress_.Drop(3);
  EXPECT_THAT(For(2), IsEmpty());
}

TEST_F(GroupWaitsTest, OneThatIsAheadAndDoesNotWaitWaitsForNobody) {
  Report(0, {{1, 9, 9, ""}});
  Report(1, {{1, 3, 3, ""}});
  EXPECT_THAT(For(0), IsEmpty());
  EXPECT_THAT(For(1), IsEmpty());
}

TEST_F(GroupWaitsTest, RanksThatWaitForEachOtherAreAllAtFault) {
  Report(0, {{1, 2, 2, ""}, {3, 5, 4, "c"}});
  Report(2, {{2, 1, 0, "b"}, {3, 4, 4, ""}});
  Report(3, {{2, 0, 0, ""}, {4, 2, 1, "d"}});
  Report(1, {{4, 2, 1, "d"}});
  // 0 waits for 2, 2 for 3, and 3 and 1 for 2 and 0.
  EXPECT_THAT(For(3), ElementsAre(2, 0));
  const core::Waits waits = Waits::OfSteps(progress_, &kGroupsPlan);
  EXPECT_FALSE(waits.Any(2));
  EXPECT_FALSE(waits.Any(3));
  EXPECT_TRUE(waits.Any(0));
  EXPECT_TRUE(waits.Any(1));
}

// Rank 3 left out a call, and waits for rank 2 in the verdict.
TEST_F(GroupWaitsTest, ARankThatLeftOutACallIsAtFault) {
  Report(2, {{2, 6, 5, "psum"}});
  progress_.Update(
      3,
      {.position = {0, protocol::Phase::kVerdict}, .groups = {{2, 5, 5, ""}}},
      absl::UnixEpoch());
  const core::Waits waits = Waits::OfSteps(progress_, &kGroupsPlan);
  EXPECT_THAT(waits.For(3, 1), ElementsAre(0));
  for (const int rank : {0, 1}) {
    progress_.Update(rank, {.position = {0, protocol::Phase::kVerdict}},
                     absl::UnixEpoch());
  }
  const core::Waits all = Waits::OfSteps(progress_, &kGroupsPlan);
  EXPECT_FALSE(all.Any(3));
  EXPECT_TRUE(all.Any(2));
  EXPECT_TRUE(all.Any(0));
}

TEST_F(GroupWaitsTest, TheFirstCallThatIsNotCompleteCounts) {
  Report(0, {{1, 9, 3, "psum"}});
  Report(1, {{1, 5, 3, "psum"}});
  EXPECT_THAT(For(0), IsEmpty());
  Report(1, {{1, 3, 3, ""}});
  EXPECT_THAT(For(0), ElementsAre(1));
}

TEST_F(GroupWaitsTest, ACommunicatorThatThePlanLacksIsIgnored) {
  Report(0, {{9, 2, 1, "psum"}});
  EXPECT_THAT(For(0), IsEmpty());
}

}  // namespace
}  // namespace lockstep::core
