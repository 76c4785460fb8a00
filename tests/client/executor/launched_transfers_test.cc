#include "client/executor/launched_transfers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::executor {
namespace {

using plan::TransferRef;
using testing::ElementsAre;
using testing::IsEmpty;

// A lane of gradients and one of sums; the second gradient comes after both
// sums, and the first sum after a message of its own lane.
plan::RankPlan TwoLanes() {
  plan::RankPlan rank;
  rank.lanes.resize(2);
  rank.lanes[0].transfers.resize(2);
  rank.lanes[1].transfers.resize(3);
  rank.lanes[0].transfers[1].after = {{0, 0}, {1, 1}, {1, 2}};
  rank.lanes[1].transfers[1].after = {{1, 0}};
  return rank;
}

class LaunchedTransfersTest : public testing::Test {
 protected:
  bool MayLaunch(uint64_t step) const {
    return table_.EventsBefore(before_, step).has_value();
  }

  const plan::RankPlan rank_ = TwoLanes();
  const std::vector<TransferRef> before_ =
      BeforeInOtherLanes(0, rank_.lanes[0].transfers[1]);
  LaunchedTransfers table_{rank_};
};

TEST_F(LaunchedTransfersTest, ATransferWaitsForThoseOfOtherLanes) {
  EXPECT_THAT(before_, ElementsAre(TransferRef{1, 1}, TransferRef{1, 2}));
  EXPECT_THAT(BeforeInOtherLanes(1, rank_.lanes[1].transfers[1]), IsEmpty());
  EXPECT_FALSE(MayLaunch(0));
  table_.MarkLaunched({1, 1}, Event());
  EXPECT_FALSE(MayLaunch(0));
  table_.MarkLaunched({1, 2}, Event());
  EXPECT_TRUE(MayLaunch(0));
  EXPECT_TRUE(table_.EventsBefore({}, 0).has_value());
}

TEST_F(LaunchedTransfersTest, ItIsLaunchedBehindTheirMoments) {
  HostStream stream("ls-test", HostStream::Execution::kOnWait);
  stream.Enqueue([] { return absl::OkStatus(); });
  const Event done = stream.Record();
  table_.MarkLaunched({1, 1}, done);
  table_.MarkLaunched({1, 2}, Event());
  const auto events = table_.EventsBefore(before_, 0);
  ASSERT_EQ(events->size(), 2u);
  EXPECT_EQ((*events)[0].state(), done.state());
}

TEST_F(LaunchedTransfersTest, AnotherRunOfThePipelineLaunchesThemAnew) {
  table_.BeginRun();
  EXPECT_TRUE(table_.running());
  table_.MarkLaunched({1, 1}, Event());
  table_.MarkLaunched({1, 2}, Event());
  table_.EndRun();
  EXPECT_FALSE(table_.running());
  EXPECT_TRUE(table_.AreLaunched(before_));
  table_.BeginRun();
  EXPECT_FALSE(table_.AreLaunched(before_));
  EXPECT_FALSE(MayLaunch(0));
}

// The pipeline has been run, or was not: nothing will be marked any more.
TEST_F(LaunchedTransfersTest, AStepThatIsFinishedWaitsForNothing) {
  table_.EndStep();
  EXPECT_TRUE(MayLaunch(0));
  EXPECT_THAT(*table_.EventsBefore(before_, 0), IsEmpty());
  EXPECT_FALSE(MayLaunch(1)) << "the next step does";
  table_.MarkLaunched({1, 1}, Event());
  table_.MarkLaunched({1, 2}, Event());
  EXPECT_TRUE(MayLaunch(1));
  EXPECT_THAT(*table_.EventsBefore(before_, 0), IsEmpty());
}

TEST_F(LaunchedTransfersTest, OnlyWhatIsAwaitedIsTold) {
  int told = 0;
  table_.SetListener([&] {
    ++told;
    EXPECT_FALSE(MayLaunch(0)) << "the table can be asked meanwhile";
  });
  table_.MarkLaunched({0, 0}, Event());
  table_.MarkLaunched({1, 0}, Event());
  EXPECT_EQ(told, 0);
  table_.MarkLaunched({1, 1}, Event());
  EXPECT_EQ(told, 1);
  table_.SetListener(nullptr);
  table_.MarkLaunched({1, 2}, Event());
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace lockstep::executor
