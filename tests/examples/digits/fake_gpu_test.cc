// The digits on fake GPUs: a whole job in one process, one thread for each
// rank, with the real coordinator core; compared with the network in one
// process.

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "examples/digits/device/device_training.h"
#include "examples/digits/trainer.h"
#include "examples/digits/weights_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/samples.h"
#include "tests/examples/digits/fake_device.h"
#include "tests/support/fake_gpu_job.h"

namespace lockstep::digits {
namespace {

using testing::IsEmpty;

constexpr double kLargestDifference = 1e-12;

const Dataset& TheDigits() {
  static const auto* const dataset =
      new Dataset(ParseDigits(EmbeddedCsv()).value());
  return *dataset;
}

TrainingSet TheTrainingSet() {
  return {TheDigits(), SplitRows(1797).value().train};
}

std::vector<NamedWeights> WeightsOf(const Network<double>& network) {
  return Snapshot<double>(network.parameters());
}

struct Setting {
  int world;
  SyncMode sync;
  int64_t steps;
  int run_ahead = 0;
};

class FakeGpuDigits : public testing::TestWithParam<Setting> {
 protected:
  FakeGpuDigits() {
    recipe_.steps = GetParam().steps;
    JobSpec& spec = job_.spec();
    spec.mesh = {{{"data", GetParam().world}}};
    spec.sync = GetParam().sync;
    spec.run_ahead = GetParam().run_ahead;
    spec.buckets = {.first_bytes_max = 8 << 10, .bytes_max = 32 << 10};
  }

  SampleStream Stream() const {
    return {.seed = recipe_.seed,
            .dataset_size = 1437,
            .global_batch = recipe_.global_batch};
  }

  // Runs one worker; returns its weights or an error.
  absl::StatusOr<std::vector<NamedWeights>> Live(int worker) {
    const transport::nccl::Tables tables = job_.TablesOf(worker);
    auto session = job_.Join(worker, tables);
    if (!session.ok()) return session.status();
    Network<double> network = DigitsNetwork<double>(recipe_.seed);
    FakeDevice device(&job_.gpus(), tables, session->get());
    const auto samples = [&](int64_t step) {
      return ShareOfStep(Stream(), step, (*session)->rank(),
                         (*session)->world_size());
    };
    absl::Status trained =
        TrainOnDevice<double>(recipe_, TheTrainingSet(), samples, **session,
                              device, network, nullptr);
    if (!trained.ok()) return trained;
    if (absl::Status left = (*session)->Leave(); !left.ok()) return left;
    return WeightsOf(network);
  }

  Recipe recipe_;
  session::FakeGpuJob job_{{.name = "digits", .transport = "nccl"}, 5};
};

TEST_P(FakeGpuDigits, TrainWhatOneProcessTrains) {
  std::vector<std::future<absl::StatusOr<std::vector<NamedWeights>>>> lives;
  for (int worker = 0; worker < GetParam().world; ++worker) {
    lives.push_back(std::async(std::launch::async,
                               [this, worker] { return Live(worker); }));
  }
  Network<double> alone = DigitsNetwork<double>(recipe_.seed);
  Trainer<double> trainer(
      alone, recipe_, TheTrainingSet(),
      [this](int64_t step) { return SamplesOfStep(Stream(), step); }, {});
  ASSERT_TRUE(trainer.Run(0, recipe_.steps).ok());

  std::vector<std::vector<NamedWeights>> learnt;
  for (auto& incarnation : lives) {
    absl::StatusOr<std::vector<NamedWeights>> weights = incarnation.get();
    ASSERT_TRUE(weights.ok()) << weights.status();
    learnt.push_back(*std::move(weights));
  }
  for (const auto& weights : learnt) {
    EXPECT_EQ(LargestDifference(weights, learnt[0]).value(), 0);
  }
  const double difference =
      LargestDifference(WeightsOf(alone), learnt[0]).value();
  EXPECT_LE(difference, kLargestDifference);
  if (GetParam().world == 1) {
    EXPECT_EQ(difference, 0) << "one rank adds in the host's order";
  } else {
    EXPECT_GT(difference, 0) << "were the shards summed at all?";
  }
  EXPECT_GT(LargestDifference(WeightsOf(DigitsNetwork<double>(recipe_.seed)),
                              learnt[0])
                .value(),
            1e-3)
      << "was anything learnt?";
  EXPECT_THAT(job_.gpus().violations(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Jobs, FakeGpuDigits,
                         testing::Values(Setting{1, SyncMode::kStatic, 4},
                                         Setting{2, SyncMode::kStatic, 8},
                                         Setting{4, SyncMode::kStatic, 4},
                                         Setting{2, SyncMode::kNegotiated, 4},
                                         Setting{2, SyncMode::kStatic, 8, 1},
                                         Setting{2, SyncMode::kStatic, 9, 2}),
                         [](const testing::TestParamInfo<Setting>& info) {
                           return std::string(info.param.sync ==
                                                      SyncMode::kStatic
                                                  ? "Static"
                                                  : "Negotiated") +
                                  "Of" + std::to_string(info.param.world) +
                                  "Ahead" +
                                  std::to_string(info.param.run_ahead);
                         });

}  // namespace
}  // namespace lockstep::digits
