// Ranks with different amounts of data, compared with one process that has all
// of it.

#include <cmath>
#include <random>

#include "client/gradient/disagreement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/engine_job.h"
#include "tests/support/sanitizers.h"

namespace lockstep::gradient {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

constexpr int kFeatures = 5;
constexpr double kRate = 0.1;
constexpr double kMaxNorm = 2;  // clips some steps, not all

struct Sample {
  double x[kFeatures];
  double y;
};
using Batch = std::vector<Sample>;
using Weights = std::vector<double>;

// batches[rank][step]: ranks have different numbers of batches of different
// sizes, some of them empty.
std::vector<std::vector<Batch>> UnevenCut(int world, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<double> normal;
  std::vector<std::vector<Batch>> cut(world);
  for (int rank = 0; rank < world; ++rank) {
    cut[rank].resize(1 + random() % 12);
    for (Batch& batch : cut[rank]) {
      batch.resize(random() % 7);
      for (Sample& sample : batch) {
        for (double& x : sample.x) x = normal(random);
        sample.y = 3 * sample.x[0] - sample.x[1] + 0.1 * normal(random);
      }
    }
  }
  return cut;
}

// The sum over the batch of the gradients of (w x - y)^2 / 2.
void AddGradient(const Weights& w, const Batch& batch, double* gradient) {
  for (const Sample& sample : batch) {
    double error = -sample.y;
    for (int i = 0; i < kFeatures; ++i) error += w[i] * sample.x[i];
    for (int i = 0; i < kFeatures; ++i) gradient[i] += error * sample.x[i];
  }
}

// All samples of a step in one process: the clipped mean over them.
Weights TrainAlone(const std::vector<std::vector<Batch>>& cut, size_t steps) {
  Weights w(kFeatures);
  for (size_t step = 0; step < steps; ++step) {
    double gradient[kFeatures] = {};
    size_t samples = 0;
    for (const auto& batches : cut) {
      if (step >= batches.size()) continue;
      AddGradient(w, batches[step], gradient);
      samples += batches[step].size();
    }
    if (samples == 0) continue;
    double norm = 0;
    for (double& g : gradient) {
      g /= static_cast<double>(samples);
      norm += g * g;
    }
    const double clip = std::min(1.0, kMaxNorm / std::sqrt(norm));
    for (int i = 0; i < kFeatures; ++i) w[i] -= kRate * clip * gradient[i];
  }
  return w;
}

struct Trained {
  Weights weights;
  Verdict last;
};

// The loop of gradient_sync.h.
Trained TrainRank(Engine& engine, const std::vector<Batch>& batches) {
  Trained trained{.weights = Weights(kFeatures)};
  size_t next = 0;
  do {
    const bool has = next < batches.size();
    double samples = 0;
    if (has) {
      double gradient[kFeatures] = {};
      AddGradient(trained.weights, batches[next], gradient);
      samples = static_cast<double>(batches[next].size());
      EXPECT_TRUE(engine.Submit(0, gradient, sizeof gradient, nullptr).ok());
      ++next;
    }
    const auto verdict =
        FinishAndWait(engine, {.samples = samples,
                               .more_data = next < batches.size(),
                               .per_sample = true});
    if (!verdict.ok()) {
      ADD_FAILURE() << verdict.status();
      break;
    }
    trained.last = *verdict;
    const double factor = verdict->UpdateFactor(kMaxNorm);
    const absl::Span<double> reduced = ViewAs<double>(engine, 0);
    for (int i = 0; i < kFeatures; ++i) {
      trained.weights[i] -= kRate * factor * reduced[i];
    }
  } while (!trained.last.IsLast());
  return trained;
}

std::vector<Trained> TrainTogether(const std::vector<std::vector<Batch>>& cut,
                                   Uneven uneven) {
  const int world = static_cast<int>(cut.size());
  EngineJob job(("data=" + std::to_string(world)).c_str(),
                {{{.name = "w",
                   .shape = {kFeatures},
                   .dtype = DType::kF64,
                   .op = ReduceOp::kSum}}},
                {}, {}, uneven);
  std::vector<Trained> trained(world);
  job.Run([&](int rank, Engine& engine) {
    trained[rank] = TrainRank(engine, cut[rank]);
  });
  return trained;
}

std::vector<size_t> Lengths(const std::vector<std::vector<Batch>>& cut) {
  std::vector<size_t> lengths;
  for (const auto& batches : cut) lengths.push_back(batches.size());
  return lengths;
}

class UnevenCuts : public testing::TestWithParam<int> {};

void ExpectAsAlone(int seed, Uneven uneven) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto cut = UnevenCut(4, seed);
  const std::vector<size_t> lengths = Lengths(cut);
  const size_t steps = uneven == Uneven::kStop
                           ? *std::min_element(lengths.begin(), lengths.end())
                           : *std::max_element(lengths.begin(), lengths.end());
  const Weights alone = TrainAlone(cut, steps);
  const std::vector<Trained> together = TrainTogether(cut, uneven);
  for (const Trained& rank : together) {
    EXPECT_EQ(rank.last.step, steps - 1);
    EXPECT_EQ(rank.last.ending, Ending::kOutOfData);
    EXPECT_EQ(rank.weights, together[0].weights) << "bit for bit";
    EXPECT_THAT(rank.weights, Pointwise(DoubleNear(1e-12), alone));
  }
}

TEST_P(UnevenCuts, JoinTrainsOnEverySampleAsOneProcessWould) {
  ExpectAsAlone(GetParam(), Uneven::kJoin);
}

TEST_P(UnevenCuts, StopEndsAllRanksWithTheFirst) {
  ExpectAsAlone(GetParam(), Uneven::kStop);
}

INSTANTIATE_TEST_SUITE_P(Seeds, UnevenCuts,
                         testing::Range(0, kUnderSanitizer ? 8 : 25));

// --- Single cases -----------------------------------------------------------

const std::vector<Registered> kSum = {
    {{.name = "w", .shape = {1}, .op = ReduceOp::kSum}}};
const std::vector<Registered> kMean = {{{.name = "w", .shape = {1}}}};

TEST(UnevenTest, NoSamplesAtAllAreNoDivisionByZero) {
  EngineJob job("data=2", kSum);
  job.Run([](int, Engine& engine) {
    const auto verdict = FinishAndWait(engine, {.per_sample = true});
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(verdict->samples, 0);
    EXPECT_EQ(verdict->global_norm, 0);
    EXPECT_EQ(verdict->UpdateFactor(1), 0);
    EXPECT_EQ(verdict->UpdateFactor(kInfinity), 0);
  });
}

TEST(UnevenTest, NormAndFactorAreOfTheMeanOverSamples) {
  EngineJob job("data=2", kSum);
  job.Run([](int rank, Engine& engine) {
    FillView(engine, 0, 30);
    ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
    const auto verdict = FinishAndWait(
        engine,
        {.samples = 5.0 + 10 * rank, .inverse_scale = 0.5, .per_sample = true});
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_DOUBLE_EQ(verdict->global_norm, 60 * 0.5 / 20);
    EXPECT_DOUBLE_EQ(verdict->UpdateFactor(kInfinity), 0.5 / 20);
    EXPECT_DOUBLE_EQ(verdict->UpdateFactor(0.75), 0.5 / 20 * 0.5);
  });
}

// gradient_sync.h warns of this.
TEST(UnevenTest, AMeanCountsARankWithoutDataAsZero) {
  EngineJob job("data=2", kMean, {}, {}, Uneven::kJoin);
  job.Run([](int rank, Engine& engine) {
    if (rank == 0) {
      ASSERT_TRUE(FinishAndWait(engine, {.more_data = false}).ok());
    } else {
      ASSERT_TRUE(FinishAndWait(engine).ok());
      FillView(engine, 0, 8);
      ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
    }
    const auto verdict = FinishAndWait(engine, {.more_data = false});
    ASSERT_TRUE(verdict.ok());
    EXPECT_TRUE(verdict->IsLast());
    EXPECT_THAT(Floats(engine, 0), ElementsAre(4));
  });
}

TEST(UnevenTest, WhoHasNoMoreDataMayOnlyFinishEmpty) {
  EngineJob job("data=2", kSum, {}, {}, Uneven::kJoin);
  job.Run([](int rank, Engine& engine) {
    ASSERT_TRUE(
        FinishAndWait(engine, {.samples = 1, .more_data = rank == 1}).ok());
    if (rank == 0) {
      const absl::StatusCode wrong = absl::StatusCode::kInvalidArgument;
      EXPECT_EQ(engine.Submit(0, nullptr, 0, nullptr).code(), wrong);
      EXPECT_EQ(FinishAndWait(engine, {.samples = 1, .more_data = false})
                    .status()
                    .code(),
                wrong);
      EXPECT_EQ(FinishAndWait(engine, {.more_data = true}).status().code(),
                wrong);
    }
    const auto verdict =
        FinishAndWait(engine, {.samples = 1.0 * rank, .more_data = false});
    ASSERT_TRUE(verdict.ok()) << "nothing is lost: " << verdict.status();
    EXPECT_EQ(verdict->step, 1u);
    EXPECT_EQ(verdict->ending, Ending::kOutOfData);
  });
}

TEST(UnevenTest, SamplesThatCannotBeAreRefused) {
  EngineJob job("data=1", kSum);
  for (const double samples : {-1.0, std::nan(""), kInfinity}) {
    EXPECT_EQ(
        FinishAndWait(job.engine(0), {.samples = samples}).status().code(),
        absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(FinishAndWait(job.engine(0)).ok());
}

TEST(UnevenTest, NormsThatCannotBeAreRefused) {
  EngineJob job("data=1", kSum);
  HostStream stream("test-stream");
  for (const double max_norm : {-1.0, 0.0, std::nan("")}) {
    EXPECT_EQ(
        job.engine(0).Finish({.samples = 1}, max_norm, &stream).status().code(),
        absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(FinishAndWait(job.engine(0)).ok());
}

TEST(UnevenTest, SumsOverSamplesMustBeSums) {
  EngineJob job("data=1", kMean);
  const auto refused = FinishAndWait(job.engine(0), {.per_sample = true});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(FinishAndWait(job.engine(0)).ok());
}

// For example, only one rank's loss scaler backed off.
TEST(UnevenTest, NobodyUpdatesIfLossScalesDiffer) {
  EngineJob job("data=2", kSum);
  job.Run([](int rank, Engine& engine) {
    const auto verdict =
        FinishAndWait(engine, {.inverse_scale = rank == 0 ? 1 : 0.5});
    EXPECT_EQ(verdict.status().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(engine.step(), 0u);
  });
}

// Payloads are the library's: a program that prints the error sees none.
TEST(UnevenTest, AStreamHasTheErrorWithoutPayloads) {
  EngineJob job("data=2", kSum);
  job.Run([](int rank, Engine& engine) {
    HostStream stream("test-stream");
    const auto pending = engine.Finish({.inverse_scale = rank == 0 ? 1 : 0.5},
                                       kInfinity, &stream);
    ASSERT_TRUE(pending.ok()) << pending.status();
    EXPECT_TRUE(IsOfAllRanks((*pending)->Wait().status()));
    const absl::Status error = stream.Synchronize();
    EXPECT_TRUE(absl::IsAborted(error)) << error;
    EXPECT_FALSE(IsOfAllRanks(error)) << error;
  });
}

TEST(UnevenTest, NobodyUpdatesIfOnlySomeSumOverSamples) {
  EngineJob job("data=2", kSum);
  job.Run([](int rank, Engine& engine) {
    EXPECT_EQ(FinishAndWait(engine, {.samples = 1, .per_sample = rank == 0})
                  .status()
                  .code(),
              absl::StatusCode::kAborted);
    EXPECT_EQ(engine.step(), 0u);
  });
}

}  // namespace
}  // namespace lockstep::gradient
