#include "client/gradient/lane.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "client/gradient/step_word.h"
#include "gtest/gtest.h"

namespace lockstep::gradient {
namespace {

using protocol::Phase;

class LaneTest : public testing::Test {
 protected:
  std::vector<int> launched_;
  Lane lane_{{2, 1, 1}, [this](int item) { launched_.push_back(item); }};
};

TEST_F(LaneTest, LaunchesInOrderWhateverIsReadyFirst) {
  ASSERT_TRUE(lane_.Ready(1).ok());
  ASSERT_TRUE(lane_.Ready(0).ok());
  EXPECT_EQ(launched_, std::vector<int>{});
  ASSERT_TRUE(lane_.Ready(0).ok());
  EXPECT_EQ(launched_, std::vector<int>({0, 1}));
}

TEST_F(LaneTest, TheVerdictIsLastAndTheNextStepBegins) {
  for (int step = 0; step < 3; ++step) {
    launched_.clear();
    ASSERT_TRUE(lane_.Close().ok());
    for (int item : {2, 0, 1, 0}) ASSERT_TRUE(lane_.Ready(item).ok());
    EXPECT_EQ(launched_, std::vector<int>({0, 1, 2, 3}));
  }
}

TEST_F(LaneTest, RefusesAGradientOfAStepThatHasNotBegun) {
  ASSERT_TRUE(lane_.Ready(1).ok());
  EXPECT_EQ(lane_.Ready(1).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(lane_.Close().ok());
  EXPECT_EQ(lane_.Close().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(LaneOfNothingTest, LaunchesTheVerdictAtClose) {
  std::vector<int> launched;
  Lane lane({}, [&](int item) { launched.push_back(item); });
  ASSERT_TRUE(lane.Close().ok());
  EXPECT_EQ(launched, std::vector<int>({0}));
}

TEST(LaneBesideOthersTest, AnItemWaitsUntilOtherLanesAreThatFar) {
  std::vector<int> launched;
  bool may = false;
  Lane lane(
      {1, 1}, [&](int item) { launched.push_back(item); },
      [&](int item) { return item != 0 || may; });
  ASSERT_TRUE(lane.Ready(1).ok());
  ASSERT_TRUE(lane.Ready(0).ok());
  ASSERT_TRUE(lane.Close().ok());
  lane.Look();
  EXPECT_EQ(launched, std::vector<int>({}));
  may = true;
  lane.Look();
  EXPECT_EQ(launched, std::vector<int>({0, 1, 2}));
}

class LaneRaces : public testing::TestWithParam<int> {};

TEST_P(LaneRaces, KeepTheOrderWithManyThreads) {
  std::mt19937 rng(GetParam());
  std::vector<int> pending;
  std::vector<int> arrivals;
  for (int item = 0; item < 40; ++item) {
    pending.push_back(1 + static_cast<int>(rng() % 4));
    arrivals.insert(arrivals.end(), pending.back(), item);
  }
  std::shuffle(arrivals.begin(), arrivals.end(), rng);

  std::vector<int> launched;  // under the lane's lock
  Lane lane(pending, [&](int item) { launched.push_back(item); });
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < arrivals.size(); i += 4) {
        EXPECT_TRUE(lane.Ready(arrivals[i]).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(launched.size(), 40u);
  ASSERT_TRUE(lane.Close().ok());

  std::vector<int> expected(41);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(launched, expected) << "seed " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Seeds, LaneRaces, testing::Range(0, 20));

TEST(StepWordTest, PassesOnlyTheStepInProgress) {
  StepWord word(7);
  EXPECT_FALSE(word.Pass(6));
  EXPECT_FALSE(word.Pass(8));
  EXPECT_TRUE(word.Pass(7));
  EXPECT_EQ(word.steps(), 8u);
}

TEST(StepWordTest, NothingPassesAfterQuiescing) {
  StepWord word(7);
  word.Enter(Phase::kTransfer);
  const protocol::Position there{7, Phase::kTransfer};
  EXPECT_EQ(word.Quiesce(), there);
  EXPECT_FALSE(word.Pass(7));
  word.Enter(Phase::kVerdict);
  EXPECT_EQ(word.Quiesce(), there);
}

TEST(StepWordTest, AStepGoesThroughItsPhasesAndNeverBack) {
  StepWord word(7);
  EXPECT_EQ(word.position(), (protocol::Position{7, Phase::kIdle}));
  word.Enter(Phase::kVerdict);
  word.Enter(Phase::kCompute);  // of the next, which was begun early
  EXPECT_EQ(word.position(), (protocol::Position{7, Phase::kVerdict}));
  EXPECT_TRUE(word.Pass(7));
  EXPECT_EQ(word.position(), (protocol::Position{8, Phase::kIdle}));
  word.Enter(Phase::kCompute);
  EXPECT_EQ(word.position(), (protocol::Position{8, Phase::kCompute}));
}

TEST(StepWordTest, NothingFollowsTheLastStep) {
  StepWord word(7);
  EXPECT_TRUE(word.Pass(7, /*last=*/true));
  word.Enter(Phase::kTransfer);  // of a step that was in flight
  EXPECT_FALSE(word.Pass(8));
  EXPECT_EQ(word.Quiesce(), (protocol::Position{8, Phase::kIdle}));
}

// What was reported stays true, whoever wins the race.
TEST(StepWordTest, APassThatLosesTheRaceDoesNotHappen) {
  for (int round = 0; round < 2000; ++round) {
    StepWord word(0);
    bool passed = false;
    std::thread passer([&] { passed = word.Pass(0); });
    const uint64_t reported = word.Quiesce().step;
    passer.join();
    EXPECT_EQ(passed, reported == 1) << "round " << round;
    EXPECT_EQ(word.steps(), reported);
  }
}

}  // namespace
}  // namespace lockstep::gradient
