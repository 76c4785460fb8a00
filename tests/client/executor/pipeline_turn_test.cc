// When a rank may run its pipeline, and when it may finish a step.

#include "client/executor/pipeline_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::executor {
namespace {

using testing::HasSubstr;

void ExpectRefused(const absl::Status& status, const std::string& why) {
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(PipelineTurnTest, OneRunAStep) {
  PipelineRun run;
  run.Require();
  for (int step = 0; step < 2; ++step) {
    ExpectRefused(run.CheckFinish(true), "Finish without Pipeline::Run");
    ASSERT_EQ(run.Begin(), absl::OkStatus());
    ExpectRefused(run.Begin(), "another Run");
    ExpectRefused(run.CheckFinish(true), "in progress");
    ExpectRefused(run.CheckFinish(false), "in progress");
    run.End();
    ExpectRefused(run.Begin(), "a second time in one step");
    EXPECT_EQ(run.CheckFinish(true), absl::OkStatus());
    run.EndStep();
  }
}

TEST(PipelineTurnTest, NoRunBeginsIfItsStepMayNot) {
  PipelineRun run;
  run.SetMayBegin(
      [] { return absl::CancelledError("the last step has passed"); });
  EXPECT_TRUE(absl::IsCancelled(run.Begin()));
  EXPECT_FALSE(run.position().is_running);
  run.SetMayBegin(nullptr);
  EXPECT_EQ(run.Begin(), absl::OkStatus());
}

TEST(PipelineTurnTest, WhoHasNoDataNeedNotRun) {
  PipelineRun run;
  run.Require();
  EXPECT_EQ(run.CheckFinish(false), absl::OkStatus());
}

TEST(PipelineTurnTest, WithoutAPipelineNobodyRuns) {
  PipelineRun run;
  EXPECT_EQ(run.CheckFinish(true), absl::OkStatus());
}

TEST(PipelineTurnTest, SaysWhereTheRunIs) {
  PipelineRun run;
  EXPECT_FALSE(run.position().is_running);
  ASSERT_EQ(run.Begin(), absl::OkStatus());
  EXPECT_EQ(run.position().task, "");
  const plan::Task task{
      .work = plan::Work::kForward, .stage = 2, .micro_batch = 5};
  run.At(task);
  run.AwaitsRank(3);
  EXPECT_TRUE(run.position().is_running);
  EXPECT_EQ(run.position().task, "forward of stage 2, micro-batch 5");
  EXPECT_EQ(run.position().awaits, 3);
  run.AwaitsRank(-1);
  EXPECT_EQ(run.position().awaits, -1);
  run.End();
  EXPECT_FALSE(run.position().is_running);
  EXPECT_EQ(run.position().task, "");
}

}  // namespace
}  // namespace lockstep::executor
