// Pipelines through the NCCL adapter, over fake GPUs that run one operation at
// a time: a launch order that could deadlock does so there.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "client/transport/nccl/cuda_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/pipeline/pipeline_world.h"
#include "tests/client/transport/nccl/fake_world.h"
#include "tests/plan/schedule/shapes.h"

namespace lockstep {
// This program uses only the FakeGpuWorld of the suite.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorConformance);
}  // namespace lockstep

namespace lockstep::pipeline {
namespace {

class FakeGpuNetwork final : public Network {
 public:
  enum class Stages { kHost, kKernels };

  FakeGpuNetwork(uint64_t seed, Stages stages)
      : world_({.seed = seed, .residents_max = 1}), stages_(stages) {}

  transport::Transport& at(int rank) override { return world_.at(rank); }
  fake::FakeGpus& gpus() { return world_.gpus(); }

  Worksite* SiteOf(int rank, bool other) override {
    if (stages_ == Stages::kHost) return nullptr;
    MutexLock lock(&mutex_);
    std::unique_ptr<Worksite>& site = sites_[{rank, other}];
    if (site == nullptr) site = std::make_unique<Site>(&world_, rank);
    return site.get();
  }
  std::unique_ptr<Arena> MakeArena(int rank) override {
    return stages_ == Stages::kHost ? MakePlainArena()
                                    : world_.at(rank).MakeArena();
  }

 private:
  // Runs stages as kernels on memory that the host cannot access.
  class Site final : public Worksite {
   public:
    Site(fake::FakeGpuWorld* world, int rank)
        : world_(*world), stream_(world->MakeStream(rank, "stages")) {}
    Stream& stream() override { return *stream_; }
    absl::Status Enqueue(std::function<void()> work) override {
      world_.Enqueue(*stream_, std::move(work));
      return absl::OkStatus();
    }
    void StallUntil(std::function<bool()> open) override {
      world_.gpus().StallUntil(
          static_cast<transport::nccl::CudaStream&>(*stream_).handle(),
          std::move(open));
    }
    void* Reach(void* at) override { return world_.gpus().Reach(at); }

   private:
    fake::FakeGpuWorld& world_;
    const std::unique_ptr<Stream> stream_;
  };

  fake::FakeGpuWorld world_;
  const Stages stages_;
  Mutex mutex_;
  std::map<std::pair<int, bool>, std::unique_ptr<Worksite>> sites_
      ABSL_GUARDED_BY(mutex_);
};

using plan::ScheduleShape;
using enum PipelineSchedule;

void RunEverySchedule(FakeGpuNetwork::Stages stages) {
  uint64_t seed = 0;
  for (const ScheduleShape& shape :
       {ScheduleShape{kGPipe, 2, 4, 1}, ScheduleShape{kOneFOneB, 2, 4, 1},
        ScheduleShape{kInterleaved, 2, 4, 2}, ScheduleShape{kZbH1, 2, 4, 1},
        ScheduleShape{kZbV, 2, 4, 2}, ScheduleShape{kOneFOneB, 3, 5, 1},
        ScheduleShape{kInterleaved, 3, 3, 2}, ScheduleShape{kZbV, 3, 3, 2}}) {
    SCOPED_TRACE(testing::PrintToString(shape));
    FakeGpuNetwork network(++seed, stages);
    {
      PipelineWorld world({.shape = shape, .network = &network});
      for (const int step : {0, 1}) world.ExpectEqualToOneProcess(step);
      if (stages == FakeGpuNetwork::Stages::kKernels) {
        world.ExpectBackToBackEqualToOneProcess(/*steps=*/3);
      }
    }
    EXPECT_THAT(network.gpus().violations(), testing::IsEmpty());
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RunnerNcclTest, EveryScheduleRunsWithOneResidentOperation) {
  RunEverySchedule(FakeGpuNetwork::Stages::kHost);
}

// The host launches whole steps ahead; the device keeps the order.
TEST(RunnerNcclTest, EveryScheduleRunsAsKernelsInDeviceMemory) {
  RunEverySchedule(FakeGpuNetwork::Stages::kKernels);
}

}  // namespace
}  // namespace lockstep::pipeline
