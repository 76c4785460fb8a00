// A pipeline computes the same as one process, with every schedule. Sends are
// rendezvous: inproc has no others.

#include "client/pipeline/runner.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/pipeline/stages.h"
#include "plan/timeline/timeline.h"
#include "tests/client/pipeline/pipeline_world.h"
#include "tests/plan/schedule/shapes.h"
#include "tests/support/inproc/inproc.h"
#include "tests/support/sanitizers.h"

namespace lockstep::pipeline {
namespace {

using plan::ScheduleShape;
using testing::AllOf;
using testing::HasSubstr;
using enum PipelineSchedule;

// Every schedule on 2, 4 and 8 ranks.
std::vector<ScheduleShape> Shapes() {
  std::vector<ScheduleShape> shapes;
  for (const int ranks : {2, 4, 8}) {
    if (kUnderSanitizer && ranks > 4) continue;
    const int m = 2 * ranks;
    for (const ScheduleShape& shape :
         {ScheduleShape{kGPipe, ranks, m, 1},
          ScheduleShape{kOneFOneB, ranks, m, 1},
          ScheduleShape{kInterleaved, ranks, m, 2},
          ScheduleShape{kZbH1, ranks, m, 1}, ScheduleShape{kZbV, ranks, m, 2},
          ScheduleShape{kOneFOneB, ranks, 1, 1}}) {
      shapes.push_back(shape);
    }
  }
  return shapes;
}

TEST(RunnerTest, EveryScheduleComputesWhatOneProcessDoes) {
  for (const ScheduleShape& shape : Shapes()) {
    SCOPED_TRACE(testing::PrintToString(shape));
    PipelineWorld world({.shape = shape});
    for (const int step : {0, 1, 2}) world.ExpectEqualToOneProcess(step);
    if (HasFailure()) return;
  }
}

TEST(RunnerTest, TransfersThatComeLateChangeNothing) {
  for (const ScheduleShape& shape : Shapes()) {
    SCOPED_TRACE(testing::PrintToString(shape));
    PipelineWorld world({.shape = shape, .late = 0.4});
    for (const int step : {0, 1}) world.ExpectEqualToOneProcess(step);
    if (HasFailure()) return;
  }
}

TEST(RunnerTest, EverySmallShapeComputesWhatOneProcessDoes) {
  for (const ScheduleShape& shape : plan::AllShapes(3, 4, 3)) {
    SCOPED_TRACE(testing::PrintToString(shape));
    PipelineWorld world({.shape = shape});
    world.ExpectEqualToOneProcess(7);
    if (HasFailure()) return;
  }
}

TEST(RunnerTest, MicroBatchesCountByTheirWeights) {
  for (const PipelineSchedule kind : {kGPipe, kOneFOneB, kZbH1}) {
    PipelineWorld world(
        {.shape = {kind, 2, 4, 1}, .weights = {0.5, 0.25, 0, 2}});
    world.ExpectEqualToOneProcess(3);
  }
}

TEST(RunnerTest, SharedGradientsAreThoseOfBothStages) {
  for (const ScheduleShape& shape : Shapes()) {
    // With ZB-V the first and the last stage are on one rank.
    if (shape.kind == kZbV || shape.ranks > 4) continue;
    SCOPED_TRACE(testing::PrintToString(shape));
    PipelineWorld world({.shape = shape, .shared = true});
    for (const int step : {0, 1}) world.ExpectEqualToOneProcess(step);
  }
}

// One process for each rank; each rank's stages enqueue on a stream.
class EnqueueingNetwork final : public Network {
 public:
  explicit EnqueueingNetwork(int ranks) : sites_(ranks) {}
  transport::Transport& at(int) override { return *transport_; }
  Worksite* SiteOf(int rank, bool) override { return &sites_[rank]; }

 private:
  transport::InprocHub hub_;
  const std::unique_ptr<transport::Transport> transport_ =
      transport::MakeInprocTransport(&hub_);
  std::vector<HostSite> sites_;
};

TEST(RunnerTest, StagesMayEnqueueTheirWork) {
  for (const ScheduleShape& shape : Shapes()) {
    if (shape.ranks > 4) continue;
    SCOPED_TRACE(testing::PrintToString(shape));
    for (const double late : {0.0, 0.4}) {
      EnqueueingNetwork network(shape.ranks);
      PipelineWorld world({.shape = shape, .late = late, .network = &network});
      for (const int step : {0, 1}) world.ExpectEqualToOneProcess(step);
      if (HasFailure()) return;
    }
  }
}

TEST(RunnerTest, AStageIsDoneWhereItsGradientsAreLaunched) {
  for (const ScheduleShape& shape : Shapes()) {
    if (shape.ranks > 4) continue;
    SCOPED_TRACE(testing::PrintToString(shape));
    PipelineWorld world({.shape = shape});
    world.ExpectEqualToOneProcess(0);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const plan::RankPlan& mine = world.plan().ranks[rank];
      std::vector<int> stages;
      for (const plan::Transfer& t : mine.lanes[0].transfers) {
        stages.push_back(StageOf(world.plan(), world.plan().buckets[t.bucket]));
        const int passes = static_cast<int>(std::count_if(
            mine.tasks.begin(), mine.tasks.begin() + t.after_task + 1,
            [](const auto& task) { return plan::EndsMicroBatch(task.work); }));
        EXPECT_EQ(world.PassesWhenDone(rank, stages.back()), passes);
      }
      EXPECT_EQ(world.StagesDone(rank), stages);
    }
  }
}

TEST(RunnerTest, BuffersAreThoseOfThePlan) {
  PipelineWorld world({.shape = {kOneFOneB, 4, 8, 1}});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(static_cast<int64_t>(world.runner(rank).buffer_bytes()),
              plan::BufferBytes(world.plan().ranks[rank]));
  }
}

TEST(RunnerTest, ACallbackThatFailsIsToldToEveryRank) {
  for (const ScheduleShape& shape : Shapes()) {
    if (shape.micro_batches < 3) continue;
    PipelineWorld world({.shape = shape});
    world.ExpectEqualToOneProcess(0);
    world.Stage(1).fail = [](int micro_batch) {
      return micro_batch == 2 ? absl::OutOfRangeError("the loss is not finite")
                              : absl::OkStatus();
    };
    for (const absl::Status& status : world.Run(1)) {
      EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("forward of stage 1, micro-batch 2"),
                        HasSubstr("the loss is not finite")));
    }
    // No step runs after that.
    for (const absl::Status& status : world.Run(2)) EXPECT_FALSE(status.ok());
  }
}

TEST(RunnerTest, ARankThatLeavesEndsTheStepOfAll) {
  PipelineWorld world({.shape = {kOneFOneB, 4, 8, 1}});
  world.ExpectEqualToOneProcess(0);
  world.Leave(2);
  const std::vector<absl::Status> statuses = world.Run(1);
  for (const int rank : {0, 1, 3}) EXPECT_FALSE(statuses[rank].ok()) << rank;
}

TEST(RunnerTest, AStepThatDoesNotFitThePlanIsRefused) {
  PipelineWorld world({.shape = {kOneFOneB, 2, 4, 1}});
  TanhStage stage(WeightOf(0));
  SquareLoss loss;
  const Activation output{{{DType::kF64, {kSamples, kWidth}}}};
  const Step steps[] = {
      {.stages = {}, .loss = &loss, .output = output},
      {.stages = {&stage, &stage}, .loss = &loss, .output = output},
      {.stages = {&stage}, .loss = &loss, .output = output, .weights = {1}},
      {.stages = {&stage}, .output = output},
      {.stages = {&stage}, .loss = &loss},
      {.stages = {&stage},
       .loss = &loss,
       .output = output,
       .shared = {TensorView{}}},
      {.stages = {nullptr}, .loss = &loss, .output = output},
  };
  for (const Step& step : steps) {
    EXPECT_EQ(world.runner(1).Run(step).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  world.ExpectEqualToOneProcess(0);
}

// The lanes would reduce other memory than planned.
TEST(RunnerTest, SharedGradientsOfAnotherTypeAreRefused) {
  PipelineWorld world({.shape = {kOneFOneB, 2, 2, 1}, .shared = true});
  TanhStage stage(WeightOf(0));
  std::vector<double> memory(kWidth * kWidth);
  for (const TensorView& wrong :
       {TensorView{nullptr, {DType::kF64, {kWidth, kWidth}}},
        TensorView{memory.data(), {DType::kF32, {kWidth, kWidth}}},
        TensorView{memory.data(), {DType::kF64, {kWidth}}}}) {
    const absl::Status refused =
        world.runner(0).Run({.stages = {&stage}, .shared = {wrong}}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("the shared gradient of tied"));
  }
  world.ExpectEqualToOneProcess(0);
}

}  // namespace
}  // namespace lockstep::pipeline
