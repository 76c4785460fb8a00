// The digits on fake GPUs: a whole job in one process, one thread for each
// rank, with the real coordinator core; compared with the network in one
// process.

#include <array>
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "examples/digits/device/device_training.h"
#include "examples/digits/trainer.h"
#include "examples/digits/weights_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/samples.h"
#include "tests/examples/digits/fake_device.h"
#include "tests/support/failing_calls.h"
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

std::string NameOfSetting(const testing::TestParamInfo<Setting>& info) {
  const Setting& setting = info.param;
  return absl::StrCat(
      setting.sync == SyncMode::kStatic ? "Static" : "Negotiated", "Of",
      setting.world, "Ahead", setting.run_ahead);
}

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

  // Runs one worker, and starts it again when it ends with an error, as a
  // launcher does. Returns its weights, or the error of a job that is over.
  absl::StatusOr<std::vector<NamedWeights>> Live(int worker) {
    transport::nccl::Tables tables = job_.TablesOf(worker);
    calls_[worker].Decorate(&tables);
    for (;;) {
      auto session = job_.Join(worker, tables);
      if (!session.ok()) return session.status();
      EXPECT_EQ((*session)->device(), worker);
      Network<double> network = DigitsNetwork<double>(recipe_.seed);
      const absl::Status trained = Train(worker, tables, *session, network);
      if (trained.ok()) {
        absl::Status left = (*session)->Leave();
        if (!left.ok()) return left;
        return WeightsOf(network);
      }
      if (job_.spec().limits.max_restarts == 0) return trained;
    }
  }

  absl::Status Train(int worker, const transport::nccl::Tables& tables,
                     std::unique_ptr<Session>& session,
                     Network<double>& network) {
    const TrainingSet set = TheTrainingSet();
    const auto samples = [&](int64_t step) {
      Fail(worker, step, *session);
      return ShareOfStep(Stream(), step, session->rank(),
                         session->world_size());
    };
    const auto make_device = [&](Session& its) {
      return std::make_unique<FakeDevice>(&job_.gpus(), tables, &its,
                                          &launches_left_[worker]);
    };
    const auto join_again = [&](const Recovery& recovered)
        -> absl::StatusOr<std::unique_ptr<Session>> {
      calls_[worker].End();
      launches_left_[worker] = 0;
      if (dying_[worker].exchange(false)) return absl::UnknownError("it died");
      return job_.Join(worker, tables, recovered);
    };
    return DeviceTraining<double>({.recipe = recipe_,
                                   .make_device = make_device,
                                   .join_again = join_again},
                                  set, samples, session, network)
        .Run();
  }

  // What happens to a worker when it begins a step, once.
  enum class Fault { kNone, kFails, kDies, kCallFails, kLaunchFails };
  struct StepFault {
    Fault fault = Fault::kNone;
    int call = 0;  // which one fails
  };
  void Fail(int worker, int64_t step, Session& session) {
    StepFault now;
    {
      MutexLock lock(&mutex_);
      std::swap(now, faults_[{worker, step}]);
    }
    if (now.fault == Fault::kNone) return;
    if (now.fault == Fault::kLaunchFails) {
      launches_left_[worker] = now.call;
      return;
    }
    if (now.fault == Fault::kCallFails) {
      return calls_[worker].FailAt(now.call, /*captured=*/false);
    }
    dying_[worker] = now.fault == Fault::kDies;
    session.ReportFailure("a test", absl::InternalError("injected"));
  }

  std::vector<std::vector<NamedWeights>> LiveAll() {
    std::vector<std::future<absl::StatusOr<std::vector<NamedWeights>>>> lives;
    for (int worker = 0; worker < GetParam().world; ++worker) {
      lives.push_back(std::async(std::launch::async,
                                 [this, worker] { return Live(worker); }));
    }
    std::vector<std::vector<NamedWeights>> learnt;
    for (auto& life : lives) {
      absl::StatusOr<std::vector<NamedWeights>> weights = life.get();
      EXPECT_TRUE(weights.ok()) << weights.status();
      if (weights.ok()) learnt.push_back(*std::move(weights));
    }
    return learnt;
  }

  // The weights of the same training in one process, without an end.
  std::vector<NamedWeights> WeightsOfOne() {
    Network<double> alone = DigitsNetwork<double>(recipe_.seed);
    Trainer<double> trainer(
        alone, recipe_, TheTrainingSet(),
        [this](int64_t step) { return SamplesOfStep(Stream(), step); }, {});
    EXPECT_TRUE(trainer.Run(0, recipe_.steps).ok());
    return WeightsOf(alone);
  }

  Recipe recipe_;
  session::FakeGpuJob job_{{.name = "digits", .transport = "nccl"}, 5};
  std::array<fake::FailingCalls, 4> calls_;  // by worker
  std::array<std::atomic<int>, 4> launches_left_ = {};
  std::array<std::atomic<bool>, 4> dying_ = {};
  Mutex mutex_;
  std::map<std::pair<int, int64_t>, StepFault> faults_;
};

TEST_P(FakeGpuDigits, TrainWhatOneProcessTrains) {
  const std::vector<std::vector<NamedWeights>> learnt = LiveAll();
  ASSERT_EQ(learnt.size(), static_cast<size_t>(GetParam().world));
  const std::vector<NamedWeights> alone = WeightsOfOne();
  for (const auto& weights : learnt) {
    EXPECT_EQ(LargestDifference(weights, learnt[0]).value(), 0);
  }
  const double difference = LargestDifference(alone, learnt[0]).value();
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
                         NameOfSetting);

class RecoveringFakeGpuDigits : public FakeGpuDigits {};

// Workers fail, are started again without their weights, and lack memory for a
// call or a launch: training goes on, and no step is lost or counted twice.
TEST_P(RecoveringFakeGpuDigits, TrainWhatOneProcessTrains) {
  std::mt19937 random(static_cast<unsigned>(GetParam().steps));
  job_.spec().limits.max_restarts = 1000;
  int faults = 0;
  for (int64_t step = 1; step < recipe_.steps; ++step) {
    if (random() % 2 == 0) continue;
    const int worker = static_cast<int>(random() % GetParam().world);
    faults_[{worker, step}] = {static_cast<Fault>(1 + random() % 4),
                               1 + static_cast<int>(random() % 60)};
    faults += 1;
  }
  ASSERT_GT(faults, 0);
  const std::vector<std::vector<NamedWeights>> learnt = LiveAll();
  ASSERT_EQ(learnt.size(), static_cast<size_t>(GetParam().world));
  for (const auto& weights : learnt) {
    EXPECT_EQ(LargestDifference(weights, learnt[0]).value(), 0);
  }
  EXPECT_LE(LargestDifference(WeightsOfOne(), learnt[0]).value(),
            kLargestDifference);
  EXPECT_GT(job_.Describe().epoch.value, 1u);
  EXPECT_THAT(job_.gpus().violations(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Jobs, RecoveringFakeGpuDigits,
                         testing::Values(Setting{2, SyncMode::kStatic, 10},
                                         Setting{3, SyncMode::kStatic, 11},
                                         Setting{2, SyncMode::kNegotiated, 9},
                                         Setting{2, SyncMode::kStatic, 12, 1},
                                         Setting{3, SyncMode::kStatic, 13, 2}),
                         NameOfSetting);

}  // namespace
}  // namespace lockstep::digits
