// Pipelines through the NCCL adapter, over fake GPUs on which one operation at
// a time is resident: there a launch order that could wait in a circle does.

#include <cstdint>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/pipeline/pipeline_world.h"
#include "tests/client/transport/nccl/fake_world.h"
#include "tests/plan/schedule/shapes.h"

namespace lockstep {
// Its suite is linked for the world of fake GPUs alone.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorConformance);
}  // namespace lockstep

namespace lockstep::pipeline {
namespace {

class FakeGpuNetwork final : public Network {
 public:
  explicit FakeGpuNetwork(uint64_t seed)
      : world_({.seed = seed, .residents_max = 1}) {}

  transport::Transport& at(int rank) override { return world_.at(rank); }
  std::unique_ptr<Stream> MakeStream(int rank,
                                     const std::string& name) override {
    return world_.MakeStream(rank, name);
  }
  fake::FakeGpus& gpus() { return world_.gpus(); }

 private:
  fake::FakeGpuWorld world_;
};

using plan::ScheduleShape;
using enum PipelineSchedule;

TEST(ExecutorNcclTest, EveryScheduleRunsWithOneResidentOperation) {
  uint64_t seed = 0;
  for (const ScheduleShape& shape :
       {ScheduleShape{kGPipe, 2, 4, 1}, ScheduleShape{kOneFOneB, 2, 4, 1},
        ScheduleShape{kInterleaved, 2, 4, 2}, ScheduleShape{kZbH1, 2, 4, 1},
        ScheduleShape{kZbV, 2, 4, 2}, ScheduleShape{kOneFOneB, 3, 5, 1},
        ScheduleShape{kInterleaved, 3, 3, 2}, ScheduleShape{kZbV, 3, 3, 2}}) {
    SCOPED_TRACE(testing::PrintToString(shape));
    FakeGpuNetwork network(++seed);
    {
      PipelineWorld world({.shape = shape, .network = &network});
      for (const int step : {0, 1}) world.ExpectEqualToOneProcess(step);
    }
    EXPECT_THAT(network.gpus().violations(), testing::IsEmpty());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lockstep::pipeline
