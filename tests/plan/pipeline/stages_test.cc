// When the gradients of a rank's stages are reduced.

#include "plan/pipeline/stages.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/plan_json.h"
#include "plan/shard.h"
#include "plan/verify/verify.h"
#include "tests/plan/pipeline/pipelines.h"
#include "tests/plan/registrations.h"
#include "tests/plan/schedule/shapes.h"

namespace lockstep::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using enum PipelineSchedule;

int LastTaskOf(const RankPlan& rank, int stage) {
  int last = -1;
  for (size_t i = 0; i < rank.tasks.size(); ++i) {
    if (rank.tasks[i].stage == stage) last = static_cast<int>(i);
  }
  return last;
}

// The stages of the rank's buckets, in the order of its gradient lane.
std::vector<int> StagesInLane(const Plan& plan, int rank) {
  std::vector<int> stages;
  for (const Transfer& t : plan.ranks[rank].lanes[0].transfers) {
    stages.push_back(StageOf(plan, plan.buckets[t.bucket]));
  }
  return stages;
}

// The number of messages that the rank launches after the stage's reduction.
int MessagesBehind(const Plan& plan, int rank, int stage) {
  const RankPlan& mine = plan.ranks[rank];
  int behind = -1;
  for (const TransferRef& ref : mine.launch_order) {
    const Transfer& t = mine.lanes[ref.lane].transfers[ref.index];
    if (IsPointToPoint(t.kind)) {
      behind += behind >= 0 ? 1 : 0;
    } else if (t.bucket >= 0 &&
               StageOf(plan, plan.buckets[t.bucket]) == stage) {
      behind = 0;
    }
  }
  return behind;
}

TEST(StagesTest, AStagesGradientsTravelOnceItIsDone) {
  const Plan plan = *Compile(PipelineInput({kInterleaved, 2, 4, 2}, 2));
  ASSERT_EQ(Verify(plan), absl::OkStatus());
  // Stage 2 is rank 0's second and is done first; stage 0 is done at the end.
  EXPECT_THAT(StagesInLane(plan, 0), ElementsAre(2, 0));
  EXPECT_THAT(StagesInLane(plan, 1), ElementsAre(3, 1));
  for (const RankPlan& rank : plan.ranks) {
    for (const Transfer& t : rank.lanes[0].transfers) {
      EXPECT_EQ(t.after_task,
                LastTaskOf(rank, StageOf(plan, plan.buckets[t.bucket])));
    }
    const Transfer& first = rank.lanes[0].transfers[0];
    EXPECT_LT(first.after_task + 1, static_cast<int>(rank.tasks.size()));
  }
  EXPECT_GT(MessagesBehind(plan, 0, 2), 0);
  EXPECT_GT(MessagesBehind(plan, 1, 3), 0);
  EXPECT_EQ(MessagesBehind(plan, 0, 0), 0);
}

TEST(StagesTest, EverySchedulesReductionsFollowTheirStage) {
  for (const ScheduleShape& shape : AllShapes(4, 6, 3)) {
    SCOPED_TRACE(testing::PrintToString(shape));
    const Plan plan = *Compile(PipelineInput(shape, 2));
    ASSERT_EQ(Verify(plan), absl::OkStatus());
    for (const RankPlan& rank : plan.ranks) {
      int before = -1;
      for (const Transfer& t : rank.lanes[0].transfers) {
        const int stage = StageOf(plan, plan.buckets[t.bucket]);
        ASSERT_EQ(t.after_task, LastTaskOf(rank, stage));
        ASSERT_GT(t.after_task, before) << "stages in the order of their ends";
        before = t.after_task;
      }
    }
  }
}

// Also with slices and leaves. Parameters are gathered before any task.
TEST(StagesTest, EveryModesReductionsFollowTheirStage) {
  for (const ScheduleShape& shape : AllShapes(3, 4, 2)) {
    SCOPED_TRACE(testing::PrintToString(shape));
    PlanInput slices = PipelineInput(shape, 2);
    slices.sync = SyncMode::kReduceScatter;
    PlanInput leaves = PipelineInput(shape, 2);
    leaves.leaves = 4;
    for (const PlanInput& input : {slices, leaves}) {
      const Plan plan = *Compile(input);
      ASSERT_EQ(Verify(plan), absl::OkStatus());
      for (const RankPlan& rank : plan.ranks) {
        for (const Transfer& t : rank.lanes[0].transfers) {
          const Bucket& bucket = plan.buckets[t.bucket];
          const int last = LastTaskOf(rank, StageOf(plan, bucket));
          ASSERT_EQ(t.after_task, GathersParameters(plan, t) ? -1 : last);
        }
      }
    }
  }
}

TEST(StagesTest, TheOrderOfRegistrationChangesNothing) {
  PlanInput input = PipelineInput({kInterleaved, 2, 4, 2}, 2);
  const Plan plan = *Compile(input);
  for (auto& rank : input.registrations) {
    std::reverse(rank.begin(), rank.end());
  }
  const Plan reversed = *Compile(input);
  EXPECT_THAT(StagesInLane(reversed, 0), ElementsAre(2, 0));
  // An observed order does not change it either.
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < plan.parameters.size(); ++i) order.push_back(i);
  for (int turn = 0; turn < 2; ++turn) {
    const absl::StatusOr<Plan> recut = Recut(plan, input.policy, order);
    ASSERT_TRUE(recut.ok()) << recut.status();
    EXPECT_THAT(StagesInLane(*recut, 0), ElementsAre(2, 0));
    std::reverse(order.begin(), order.end());
  }
}

TEST(StagesTest, StagesDoNotShareABucket) {
  PlanInput input = PipelineInput({kInterleaved, 2, 4, 2}, 2);
  input.policy.first_bytes_max = input.policy.bytes_max = 1 << 20;
  EXPECT_EQ(Compile(input)->buckets.size(), 4u);
  for (auto& rank : input.registrations) {
    for (Parameter& parameter : rank) parameter.stage = -1;
  }
  EXPECT_EQ(Compile(input)->buckets.size(), 2u);
}

// A parameter without a stage may get its gradient as late as in the rank's
// last task, so no bucket of that rank is launched before the task.
TEST(StagesTest, WithAParameterOfNoStageARankWaitsForItsLastTask) {
  PlanInput input = PipelineInput({kInterleaved, 2, 4, 2}, 2);
  for (const int rank : {0, 2}) {
    input.registrations[rank].push_back(
        {.name = "more", .shape = {3}, .axes = {"data"}});
  }
  const Plan plan = *Compile(input);
  ASSERT_EQ(Verify(plan), absl::OkStatus());
  for (const Transfer& t : plan.ranks[0].lanes[0].transfers) {
    EXPECT_EQ(t.after_task, static_cast<int>(plan.ranks[0].tasks.size()) - 1);
  }
  EXPECT_LT(plan.ranks[1].lanes[0].transfers[0].after_task + 1,
            static_cast<int>(plan.ranks[1].tasks.size()));
}

TEST(StagesTest, StagesThatShareParametersWaitForEachOther) {
  PlanInput input = PipelineInput({kInterleaved, 2, 4, 2}, 2);
  for (const int rank : {0, 1, 2, 3}) {
    input.registrations[rank].push_back({.name = "tied",
                                         .shape = {4},
                                         .axes = {"data"},
                                         .stage = rank % 2 == 0 ? 0 : 3});
  }
  input.pipeline.shared = {"tied"};
  const Plan plan = *Compile(input);
  ASSERT_EQ(Verify(plan), absl::OkStatus());
  const RankPlan& last = plan.ranks[1];
  for (const Transfer& t : last.lanes[0].transfers) {
    if (StageOf(plan, plan.buckets[t.bucket]) != 3) continue;
    EXPECT_EQ(t.after_task, static_cast<int>(last.tasks.size()) - 1);
  }
  // No bucket of a stage precedes the sum: the stage is done with all its
  // gradients.
  for (const RankPlan& rank : {plan.ranks[0], last}) {
    const auto place = [&](const auto& is_it) {
      return std::find_if(rank.launch_order.begin(), rank.launch_order.end(),
                          [&](const TransferRef& ref) {
                            return is_it(
                                rank.lanes[ref.lane],
                                rank.lanes[ref.lane].transfers[ref.index]);
                          });
    };
    const auto sum = place([](const Lane& lane, const Transfer&) {
      return lane.name == "shared";
    });
    const auto first = place([&](const Lane&, const Transfer& t) {
      if (t.bucket < 0) return false;
      const int stage = StageOf(plan, plan.buckets[t.bucket]);
      return stage == 0 || stage == 3;
    });
    ASSERT_NE(sum, rank.launch_order.end());
    ASSERT_NE(first, rank.launch_order.end());
    EXPECT_LT(sum, first);
  }
  // Stage 2 shares no parameter.
  EXPECT_LT(plan.ranks[0].lanes[0].transfers[0].after_task + 1,
            static_cast<int>(plan.ranks[0].tasks.size()));
}

TEST(StagesTest, AStageThatIsNotThereIsRefused) {
  PlanInput input = PipelineInput({kOneFOneB, 2, 4, 1}, 2);
  for (auto& rank : input.registrations) {
    for (Parameter& parameter : rank) parameter.stage = 2;
  }
  EXPECT_THAT(ErrorOf(input), HasSubstr("of stage 2, but the pipeline has "
                                        "stages 0 to 1"));
  for (auto& rank : input.registrations) {
    for (Parameter& parameter : rank) parameter.stage = 0;
  }
  EXPECT_THAT(ErrorOf(input),
              HasSubstr("stage1 is of stage 0, which rank 1 does not have"));
  for (auto& rank : input.registrations) {
    for (Parameter& parameter : rank) parameter.stage = -2;
  }
  EXPECT_THAT(ErrorOf(input), HasSubstr("stage is -2"));
  PlanInput no_pipeline = PipelineInput({kOneFOneB, 2, 4, 1}, 2);
  no_pipeline.pipeline = {};
  EXPECT_THAT(ErrorOf(no_pipeline), HasSubstr("the job has no pipeline"));
}

TEST(StagesTest, AReductionThatComesBeforeItsGradientsIsRefused) {
  const Plan good = *Compile(PipelineInput({kInterleaved, 2, 4, 2}, 2));
  for (const int lane_index : {0, 1}) {
    Plan plan = good;
    for (RankPlan& rank : plan.ranks) {
      rank.lanes[0].transfers[lane_index].after_task -= 1;
    }
    const absl::Status refused = Verify(plan);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("is complete with task"));
  }
}

TEST(StagesTest, TheJsonFormKeepsThem) {
  const Plan plan = *Compile(PipelineInput({kZbV, 2, 2, 2}, 1));
  const absl::StatusOr<Plan> read = PlanFromJson(PlanToJson(plan));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->parameters, plan.parameters);
  EXPECT_EQ(*read, plan);
}

}  // namespace
}  // namespace lockstep::plan
