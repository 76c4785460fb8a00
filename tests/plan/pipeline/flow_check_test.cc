// What the verifier says of tasks, buffers and results that go astray.

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/verify.h"
#include "tests/plan/pipeline/pipelines.h"

namespace lockstep::plan {
namespace {

using testing::HasSubstr;
using enum PipelineSchedule;

// Rank 0: F0 F1 B0 F2 B1 F3 B2 B3, rank 1: F0 B0 F1 B1 F2 B2 F3 B3. Lanes:
// gradient, to rank 1, from rank 1 (and the other way round).
Plan TwoStages() { return *Compile(PipelineInput({kOneFOneB, 2, 4, 1})); }

int LaneIndex(const RankPlan& rank, const std::string& name) {
  for (size_t i = 0; i < rank.lanes.size(); ++i) {
    if (rank.lanes[i].name == name) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no lane " << name;
  return 0;
}

std::vector<Transfer>& Sends(Plan& plan) {
  RankPlan& rank = plan.ranks[0];
  return rank.lanes[LaneIndex(rank, "to rank 1")].transfers;
}
std::vector<Transfer>& Receives(Plan& plan) {
  RankPlan& rank = plan.ranks[1];
  return rank.lanes[LaneIndex(rank, "from rank 0")].transfers;
}

void ExpectRefused(const std::function<void(Plan&)>& damage,
                   const std::string& why) {
  Plan plan = TwoStages();
  ASSERT_EQ(Verify(plan), absl::OkStatus());
  damage(plan);
  const absl::Status status = Verify(plan);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(FlowCheckTest, ATaskThatComesTwiceIsRefused) {
  ExpectRefused(
      [](Plan& plan) { plan.ranks[0].tasks[1] = plan.ranks[0].tasks[0]; },
      "a second time");
}

TEST(FlowCheckTest, ABackwardPassBeforeItsForwardIsRefused) {
  ExpectRefused(
      [](Plan& plan) {
        std::swap(plan.ranks[1].tasks[0], plan.ranks[1].tasks[1]);
      },
      "before what it is computed from");
}

TEST(FlowCheckTest, TasksOfNoKindOrPlaceAreRefused) {
  ExpectRefused(
      [](Plan& plan) { plan.ranks[0].tasks[0].work = static_cast<Work>(9); },
      "of no kind");
  ExpectRefused([](Plan& plan) { plan.ranks[0].tasks[0].stage = -1; },
                "of no kind");
  ExpectRefused(
      [](Plan& plan) {
        plan.ranks[0].tasks[0].after = {{7, 0}};
      },
      "does not exist");
  ExpectRefused([](Plan& plan) { Sends(plan)[0].after_task = 99; },
                "task 99 of 8");
  ExpectRefused([](Plan& plan) { Sends(plan)[0].after_task = -2; },
                "task -2 of 8");
}

TEST(FlowCheckTest, ABufferThatIsStillHeldIsRefused) {
  ExpectRefused(
      [](Plan& plan) { Sends(plan)[1].buffer = Sends(plan)[0].buffer; },
      "may still hold");
  ExpectRefused(
      [](Plan& plan) { Receives(plan)[1].buffer = Receives(plan)[0].buffer; },
      "may still hold");
  ExpectRefused([](Plan& plan) { Receives(plan)[3].after_task = -1; },
                "may still hold");
  ExpectRefused([](Plan& plan) { plan.ranks[0].tasks[3].after.clear(); },
                "may still hold");
}

TEST(FlowCheckTest, ABufferThatNoTaskFillsIsRefused) {
  ExpectRefused([](Plan& plan) { Sends(plan)[0].after_task = -1; },
                "no task fills");
  ExpectRefused([](Plan& plan) { Sends(plan)[0].buffer = -2; },
                "no task fills");
  ExpectRefused([](Plan& plan) { plan.ranks[1].tasks[0].after.clear(); },
                "no task fills");
}

TEST(FlowCheckTest, AResultThatGoesToAnotherMicroBatchIsRefused) {
  // The same tags, types and order of messages, but another result in them.
  ExpectRefused(
      [](Plan& plan) {
        std::swap(Sends(plan)[0].after_task, Sends(plan)[1].after_task);
        for (RankPlan& rank : plan.ranks) {
          for (Lane& lane : rank.lanes) {
            for (Transfer& transfer : lane.transfers) transfer.buffer = -1;
          }
        }
      },
      "brings the forward of stage 0, micro-batch 1");
}

TEST(FlowCheckTest, ATaskWithoutWhatItNeedsIsRefused) {
  ExpectRefused(
      [](Plan& plan) {
        plan.ranks[1].tasks[0].after.clear();
        for (Transfer& transfer : Receives(plan)) transfer.buffer = -1;
      },
      "which no transfer brings");
}

TEST(FlowCheckTest, ASpecThatDoesNotFitTheMeshIsRefused) {
  ExpectRefused([](Plan& plan) { plan.pipeline.axis = "depth"; },
                "pipeline.axis");
}

TEST(FlowCheckTest, ATransferTakenOutIsMissedByName) {
  ExpectRefused([](Plan& plan) { Sends(plan).pop_back(); },
                "from rank 0 to rank 1: sent by nothing, received by transfer "
                "3 of lane from rank 0");
}

TEST(FlowCheckTest, ACircleThroughTasksIsTold) {
  Plan plan = TwoStages();
  // The first forward pass waits for a message that is sent after the second.
  plan.ranks[0].tasks[0].after = {{LaneIndex(plan.ranks[0], "to rank 1"), 1}};
  const absl::Status status = Verify(plan);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(
                  HasSubstr("rank 0 task 0 (forward of stage 0, micro-batch 0)"
                            " comes after rank 0 transfer 1 of lane to rank 1"),
                  HasSubstr("even if every lane runs by itself")));
}

}  // namespace
}  // namespace lockstep::plan
