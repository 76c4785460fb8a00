// The digits as pipelines on fake GPUs: two replicas of two ranks, one thread
// each, with the real coordinator core; compared with one process.

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "examples/digits/pipe_worker.h"
#include "examples/digits/stages.h"
#include "examples/digits/trainer.h"
#include "examples/digits/weights_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/samples.h"
#include "tests/examples/digits/fake_device.h"
#include "tests/support/fake_gpu_job.h"

namespace lockstep::digits {
namespace {

constexpr int kWorkers = 4;
constexpr int kMicroBatches = 4;

struct Schedule {
  PipelineSchedule kind;
  int virtual_stages = 1;
};

std::vector<NamedWeights> Sorted(std::vector<NamedWeights> weights) {
  std::sort(weights.begin(), weights.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return weights;
}

class FakeGpuPipe : public testing::TestWithParam<Schedule> {
 protected:
  FakeGpuPipe() {
    recipe_.steps = 3;
    JobSpec& spec = job_.spec();
    spec.mesh = {{{"data", 2}, {"pipe", 2}}};
    const int64_t samples = recipe_.global_batch / 2 / kMicroBatches;
    const int stages = 2 * GetParam().virtual_stages;
    spec.pipeline = {.schedule = GetParam().kind,
                     .micro_batches = kMicroBatches,
                     .virtual_stages = GetParam().virtual_stages};
    for (int stage = 0; stage + 1 < stages; ++stage) {
      spec.pipeline.activations.push_back(
          {{{DType::kF64, {samples, OutputOfStage(stage, stages).size()}}}});
    }
  }

  struct Lived {
    int rank = -1;
    std::vector<NamedWeights> weights;
  };

  absl::StatusOr<Lived> Live(int worker) {
    const transport::nccl::Tables tables = job_.TablesOf(worker);
    auto session = job_.Join(worker, tables);
    if (!session.ok()) return session.status();
    FakeDevice device(&job_.gpus(), tables, session->get());
    auto weights = TrainPipe({.recipe = recipe_, .device = &device}, **session);
    if (!weights.ok()) return weights.status();
    const int rank = (*session)->rank();
    if (absl::Status left = (*session)->Leave(); !left.ok()) return left;
    return Lived{rank, *std::move(weights)};
  }

  std::vector<NamedWeights> TrainAlone() {
    static const auto* const dataset =
        new Dataset(ParseDigits(EmbeddedCsv()).value());
    Network<double> network = DigitsNetwork<double>(recipe_.seed);
    const SampleStream stream{.seed = recipe_.seed,
                              .dataset_size = 1437,
                              .global_batch = recipe_.global_batch};
    Trainer<double> trainer(
        network, recipe_, {*dataset, SplitRows(1797).value().train},
        [&](int64_t step) { return SamplesOfStep(stream, step); }, {});
    EXPECT_TRUE(trainer.Run(0, recipe_.steps).ok());
    return Snapshot<double>(network.parameters());
  }

  Recipe recipe_;
  session::FakeGpuJob job_{{.name = "digits", .transport = "nccl"}, 5};
};

TEST_P(FakeGpuPipe, TrainsWhatOneProcessTrains) {
  std::vector<std::future<absl::StatusOr<Lived>>> lives;
  for (int worker = 0; worker < kWorkers; ++worker) {
    lives.push_back(std::async(std::launch::async,
                               [this, worker] { return Live(worker); }));
  }
  std::vector<NamedWeights> replicas[2];
  for (auto& incarnation : lives) {
    absl::StatusOr<Lived> lived = incarnation.get();
    ASSERT_TRUE(lived.ok()) << lived.status();
    std::vector<NamedWeights>& replica = replicas[lived->rank / 2];
    replica.insert(replica.end(), lived->weights.begin(), lived->weights.end());
  }
  EXPECT_EQ(LargestDifference(Sorted(replicas[0]), Sorted(replicas[1])).value(),
            0);
  EXPECT_LE(
      LargestDifference(Sorted(TrainAlone()), Sorted(replicas[0])).value(),
      1e-12);
  EXPECT_THAT(job_.gpus().violations(), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Schedules, FakeGpuPipe,
                         testing::Values(Schedule{PipelineSchedule::kOneFOneB},
                                         Schedule{
                                             PipelineSchedule::kInterleaved, 2},
                                         Schedule{PipelineSchedule::kZbV, 2}),
                         [](const auto& info) {
                           std::string name(Name(info.param.kind));
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace lockstep::digits
