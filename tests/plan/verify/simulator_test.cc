#include "plan/verify/simulator.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/verify/verify.h"
#include "tests/plan/plans.h"
#include "tests/plan/verify/builder.h"

namespace lockstep::plan {
namespace {

std::optional<std::vector<Wait>> Circle(const Plan& plan, QueueSharing queues) {
  return FindDeadlock(plan, TrafficOf(plan), queues);
}

void ExpectRuns(const Plan& plan) {
  EXPECT_EQ(Verify(WithVerdicts(plan)), absl::OkStatus());
}

// Expects that each wait is followed by a wait of the transfer (or its group)
// that it waits for, and that the last leads back to the first.
void ExpectCircle(const Plan& plan, const std::vector<Wait>& circle) {
  ASSERT_FALSE(circle.empty());
  for (size_t i = 0; i < circle.size(); ++i) {
    const PlanNode& awaited = circle[i].awaited;
    const PlanNode& next = circle[(i + 1) % circle.size()].waiter;
    EXPECT_EQ(awaited.rank, next.rank);
    EXPECT_EQ(awaited.ref.lane, next.ref.lane);
    const int group = At(plan, awaited).group;
    EXPECT_TRUE(awaited == next ||
                (group != 0 && group == At(plan, next).group));
  }
}

void ExpectDeadlock(const Plan& plan, QueueSharing queues, size_t waits) {
  const auto circle = Circle(plan, queues);
  ASSERT_TRUE(circle.has_value());
  ExpectCircle(plan, *circle);
  EXPECT_EQ(circle->size(), waits) << Describe(plan, *circle);
  EXPECT_EQ(Verify(WithVerdicts(plan)).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SimulatorTest, ASendMeetsItsReceive) {
  PlanBuilder builder(2);
  builder.Add(0, "a", SendTo(kEveryone, 1));
  builder.Add(1, "a", RecvFrom(kEveryone, 0));
  builder.Add(0, "a", RecvFrom(kEveryone, 1));
  builder.Add(1, "a", SendTo(kEveryone, 0));
  ExpectRuns(builder.plan());
}

TEST(SimulatorTest, TwoRanksThatBothSendFirstWaitForEver) {
  PlanBuilder builder(2);
  for (const int rank : {0, 1}) {
    builder.Add(rank, "a", SendTo(kEveryone, 1 - rank));
    builder.Add(rank, "a", RecvFrom(kEveryone, 1 - rank));
  }
  ExpectDeadlock(builder.plan(), QueueSharing::kEachLane, 4);
  const std::string message(Verify(WithVerdicts(builder.plan())).message());
  EXPECT_THAT(message, testing::HasSubstr("rank 0 transfer 0 of lane a (send"));
  EXPECT_THAT(message, testing::HasSubstr("rank 1 transfer 1 of lane a (recv"));
}

TEST(SimulatorTest, AsOneGroupTheyExchange) {
  PlanBuilder builder(2);
  for (const int rank : {0, 1}) {
    builder.Add(rank, "a", InGroup(SendTo(kEveryone, 1 - rank), 1));
    builder.Add(rank, "a", InGroup(RecvFrom(kEveryone, 1 - rank), 1));
  }
  ExpectRuns(builder.plan());
}

TEST(SimulatorTest, NeighboursOfDifferentGroupsAreNotOne) {
  PlanBuilder builder(2);
  for (const int rank : {0, 1}) {
    builder.Add(rank, "a", InGroup(SendTo(kEveryone, 1 - rank), 1));
    builder.Add(rank, "a", InGroup(RecvFrom(kEveryone, 1 - rank), 2));
  }
  ExpectDeadlock(builder.plan(), QueueSharing::kEachLane, 4);
}

TEST(SimulatorTest, ARingOfSendsWaitsForEver) {
  PlanBuilder builder(5);
  for (int rank = 0; rank < 5; ++rank) {
    builder.Add(rank, "a", SendTo(kEveryone, (rank + 1) % 5));
    builder.Add(rank, "a", RecvFrom(kEveryone, (rank + 4) % 5));
  }
  ExpectDeadlock(builder.plan(), QueueSharing::kEachLane, 10);
}

TEST(SimulatorTest, ARingWithOneRankThatReceivesFirstRuns) {
  PlanBuilder builder(5);
  for (int rank = 0; rank < 5; ++rank) {
    if (rank == 0) builder.Add(rank, "a", RecvFrom(kEveryone, 4));
    builder.Add(rank, "a", SendTo(kEveryone, (rank + 1) % 5));
    if (rank != 0) builder.Add(rank, "a", RecvFrom(kEveryone, rank - 1));
  }
  ExpectRuns(builder.plan());
}

// A typical NCCL deadlock: two communicators, two orders.
PlanBuilder TwoLanesOnTwoRanks(bool contradict) {
  PlanBuilder builder(2);
  const int other = builder.Group("other", {0, 1});
  builder.Add(0, "a", Together(kEveryone));
  builder.Add(0, "b", Together(other));
  if (contradict) {
    builder.Add(1, "b", Together(other));
    builder.Add(1, "a", Together(kEveryone));
  } else {
    builder.Add(1, "a", Together(kEveryone));
    builder.Add(1, "b", Together(other));
  }
  return builder;
}

TEST(SimulatorTest, ContradictingLaunchOrdersRunOnlyInIndependentLanes) {
  Plan plan = TwoLanesOnTwoRanks(true).plan();
  EXPECT_FALSE(Circle(plan, QueueSharing::kEachLane).has_value());
  ExpectDeadlock(plan, QueueSharing::kEachRank, 4);
  EXPECT_THAT(std::string(Verify(WithVerdicts(plan)).message()),
              testing::HasSubstr("launch order"));
}

TEST(SimulatorTest, AgreeingLaunchOrdersRun) {
  ExpectRuns(TwoLanesOnTwoRanks(false).plan());
}

TEST(SimulatorTest, AContradictionAroundThreeRanksIsFound) {
  PlanBuilder builder(3);
  const int ab = builder.Group("ab", {0, 1});
  const int bc = builder.Group("bc", {1, 2});
  const int ca = builder.Group("ca", {2, 0});
  builder.Add(0, "ab", Together(ab));
  builder.Add(0, "ca", Together(ca));
  builder.Add(1, "bc", Together(bc));
  builder.Add(1, "ab", Together(ab));
  builder.Add(2, "ca", Together(ca));
  builder.Add(2, "bc", Together(bc));
  EXPECT_FALSE(Circle(builder.plan(), QueueSharing::kEachLane).has_value());
  ExpectDeadlock(builder.plan(), QueueSharing::kEachRank, 6);
}

TEST(SimulatorTest, DependenciesInACircleAreFound) {
  PlanBuilder builder(1);
  const int other = builder.Group("other", {0});
  builder.Add(0, "a", After(Together(kEveryone), {{1, 0}}));
  builder.Add(0, "b", After(Together(other), {{0, 0}}));
  ExpectDeadlock(builder.plan(), QueueSharing::kEachLane, 2);
}

TEST(SimulatorTest, ADependencyOnALaterTransferOfTheLaneIsFound) {
  PlanBuilder builder(1);
  builder.Add(0, "a", After(Together(kEveryone), {{0, 1}}));
  builder.Add(0, "a", Together(kEveryone));
  ExpectDeadlock(builder.plan(), QueueSharing::kEachLane, 2);
}

TEST(SimulatorTest, ADependencyInsideAGroupIsFound) {
  PlanBuilder builder(2);
  for (const int rank : {0, 1}) {
    builder.Add(rank, "a", InGroup(SendTo(kEveryone, 1 - rank), 1));
    builder.Add(rank, "a",
                After(InGroup(RecvFrom(kEveryone, 1 - rank), 1), {{0, 0}}));
  }
  ExpectDeadlock(builder.plan(), QueueSharing::kEachLane, 1);
}

TEST(SimulatorTest, DependenciesAcrossRanksInACircleAreFound) {
  PlanBuilder builder(2);
  const int other = builder.Group("other", {0, 1});
  builder.Add(0, "a", Together(kEveryone));
  builder.Add(0, "b", After(Together(other), {{0, 0}}));
  builder.Add(1, "b", Together(other));
  builder.Add(1, "a", After(Together(kEveryone), {{0, 0}}));
  ExpectDeadlock(builder.plan(), QueueSharing::kEachLane, 4);
}

TEST(SimulatorTest, DependenciesThatTheOrderKeepsAreHarmless) {
  PlanBuilder builder(2);
  const int other = builder.Group("other", {0, 1});
  for (const int rank : {0, 1}) {
    const TransferRef first = builder.Add(rank, "a", Together(kEveryone));
    builder.Add(rank, "b", After(Together(other), {first, first}));
  }
  ExpectRuns(builder.plan());
}

TEST(SimulatorTest, ALaunchOrderAgainstADependencyIsFound) {
  PlanBuilder builder(1);
  const int other = builder.Group("other", {0});
  builder.Add(0, "a", After(Together(kEveryone), {{1, 0}}));
  builder.Add(0, "b", Together(other));
  EXPECT_FALSE(Circle(builder.plan(), QueueSharing::kEachLane).has_value());
  ExpectDeadlock(builder.plan(), QueueSharing::kEachRank, 2);
}

// One forward and one backward message for each micro-batch and boundary; a
// lane for each direction. The launch order is the schedule.
Plan Pipeline(const std::vector<std::string>& schedule_of_rank) {
  const int stages = static_cast<int>(schedule_of_rank.size());
  PlanBuilder builder(stages);
  std::vector<int> forward;
  std::vector<int> backward;
  for (int stage = 0; stage + 1 < stages; ++stage) {
    forward.push_back(
        builder.Group("f" + std::to_string(stage), {stage, stage + 1}));
    backward.push_back(
        builder.Group("b" + std::to_string(stage), {stage, stage + 1}));
  }
  for (int stage = 0; stage < stages; ++stage) {
    for (const char work : schedule_of_rank[stage]) {
      const bool is_forward = work == 'F';
      const std::vector<int>& lanes = is_forward ? forward : backward;
      const int from = is_forward ? stage - 1 : stage + 1;
      const int to = is_forward ? stage + 1 : stage - 1;
      if (from >= 0 && from < stages) {
        builder.Add(stage, std::string(1, work) + " in",
                    RecvFrom(lanes[std::min(from, stage)], is_forward ? 0 : 1));
      }
      if (to >= 0 && to < stages) {
        builder.Add(stage, std::string(1, work) + " out",
                    SendTo(lanes[std::min(to, stage)], is_forward ? 1 : 0));
      }
    }
  }
  return builder.plan();
}

TEST(SimulatorTest, AGPipeScheduleRuns) {
  ExpectRuns(Pipeline({"FFFFBBBB", "FFFFBBBB", "FFFFBBBB"}));
}

// With rendezvous sends and one operation at a time, 1F1B deadlocks where a
// stage sends a second activation while its successor sends a gradient back:
// the reason why the compiler makes launch orders.
TEST(SimulatorTest, AOneFOneBScheduleNeedsItsLanes) {
  const Plan plan = Pipeline({"FFBFBB", "FBFBFB"});
  EXPECT_FALSE(Circle(plan, QueueSharing::kEachLane).has_value());
  ExpectDeadlock(plan, QueueSharing::kEachRank, 4);
}

TEST(SimulatorTest, WhatTheCompilerMakesRuns) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const absl::StatusOr<Plan> plan = Compile(RandomInput(seed));
    ASSERT_TRUE(plan.ok()) << "seed " << seed;
    ASSERT_TRUE(Verify(*plan).ok()) << "seed " << seed << ": " << Verify(*plan);
  }
}

TEST(SimulatorTest, TakesAThousandParametersOnSixtyFourWorkers) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 1000; ++i) {
    parameters.push_back({.name = absl::StrCat("p", i), .shape = {512, 512}});
  }
  const absl::StatusOr<Plan> plan =
      Compile(Alike(MeshOf({{"data", 64}}), parameters));
  ASSERT_TRUE(plan.ok());
  EXPECT_GT(plan->buckets.size(), 40u);
  ExpectRuns(*plan);
}
}  // namespace
}  // namespace lockstep::plan
