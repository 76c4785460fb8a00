// The engine over the in-process transport: every rank is a thread.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/engine_job.h"

namespace lockstep::gradient {
namespace {

using ::testing::ElementsAre;
using Job = EngineJob;

const std::vector<Registered> kTwo = {
    {{.name = "w", .shape = {3}, .op = ReduceOp::kSum}},
    {{.name = "b", .shape = {2}, .op = ReduceOp::kMean}}};

TEST(EngineTest, SumsAndMeansOverAllRanks) {
  Job job("data=4", kTwo);
  job.Run([](int rank, Engine& engine) {
    for (int step = 0; step < 3; ++step) {
      FillView(engine, 1, static_cast<float>(rank));
      ASSERT_TRUE(engine.Submit(1, nullptr, 0, nullptr).ok());
      FillView(engine, 0, static_cast<float>(rank + 1));
      ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());

      const auto verdict = FinishAndWait(engine, {.samples = 16.0 + rank});
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->step, static_cast<uint64_t>(step));
      EXPECT_EQ(verdict->samples, 70);
      EXPECT_TRUE(verdict->finite);
      EXPECT_EQ(verdict->revision_holders, 0);
      EXPECT_THAT(Floats(engine, 0), ElementsAre(10, 10, 10));
      EXPECT_THAT(Floats(engine, 1), ElementsAre(1.5f, 1.5f));
      EXPECT_DOUBLE_EQ(verdict->global_norm, std::sqrt(3 * 100 + 2 * 2.25));
      EXPECT_EQ(engine.step(), step + 1u);
    }
  });
}

TEST(EngineTest, AParameterWithoutAGradientContributesZeros) {
  Job job("data=2", kTwo);
  job.Run([](int rank, Engine& engine) {
    // Values left from an earlier step must not be reduced.
    FillView(engine, 0, 99);
    FillView(engine, 1, 99);
    if (rank == 1) {
      FillView(engine, 0, 5);
      ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
    }
    const auto verdict = FinishAndWait(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_THAT(Floats(engine, 0), ElementsAre(5, 5, 5));
    EXPECT_THAT(Floats(engine, 1), ElementsAre(0, 0));
    EXPECT_THAT(verdict->contributed, ElementsAre(true, false));
  });
}

TEST(EngineTest, PacksExternalBuffersAndAccumulatesWeightedMicroBatches) {
  Job job("data=2", kTwo);
  job.Run([](int rank, Engine& engine) {
    const float first[] = {4, 8, 12};
    const float last[] = {40, 80, 120};
    engine.SetMicroBatchWeight(0.25);
    ASSERT_TRUE(engine.BeginNoSync().ok());
    ASSERT_TRUE(engine.Submit(0, first, sizeof first, nullptr).ok());
    engine.EndNoSync();
    engine.SetMicroBatchWeight(0.5);
    ASSERT_TRUE(engine.Submit(0, last, sizeof last, nullptr).ok());
    const auto verdict = FinishAndWait(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_THAT(Floats(engine, 0), ElementsAre(42, 84, 126)) << "rank " << rank;

    // The next step starts with zeros.
    engine.SetMicroBatchWeight(1);
    ASSERT_TRUE(engine.Submit(0, first, sizeof first, nullptr).ok());
    ASSERT_TRUE(FinishAndWait(engine).ok());
    EXPECT_THAT(Floats(engine, 0), ElementsAre(8, 16, 24));
  });
}

TEST(EngineTest, ZeroingLeavesWhatWasAddedUpFromBuffers) {
  Job job("data=2", kTwo);
  job.Run([](int, Engine& engine) {
    const float gradient[] = {1, 2, 3};
    ASSERT_TRUE(engine.BeginNoSync().ok());
    ASSERT_TRUE(engine.Submit(0, gradient, sizeof gradient, nullptr).ok());
    engine.EndNoSync();
    engine.ZeroGradients();
    ASSERT_TRUE(engine.Submit(0, gradient, sizeof gradient, nullptr).ok());
    ASSERT_TRUE(FinishAndWait(engine).ok());
    EXPECT_THAT(Floats(engine, 0), ElementsAre(4, 8, 12));
  });
}

TEST(EngineTest, WhatWasAccumulatedTravelsThoughTheLastPassDidNotTouchIt) {
  Job job("data=2", kTwo);
  job.Run([](int, Engine& engine) {
    const float gradient[] = {1, 2, 3};
    ASSERT_TRUE(engine.BeginNoSync().ok());
    ASSERT_TRUE(engine.Submit(0, gradient, sizeof gradient, nullptr).ok());
    engine.EndNoSync();
    const auto verdict = FinishAndWait(engine);
    ASSERT_TRUE(verdict.ok());
    EXPECT_THAT(Floats(engine, 0), ElementsAre(2, 4, 6));
    EXPECT_THAT(verdict->contributed, ElementsAre(true, false));
  });
}

// As DDP's no_sync: all micro-batches except the last in one scope.
TEST(EngineTest, ANoSyncScopeHoldsManyBackwardPasses) {
  Job job("data=2", kTwo);
  job.Run([](int, Engine& engine) {
    const float gradient[] = {1, 2, 3};
    ASSERT_TRUE(engine.BeginNoSync().ok());
    for (int pass = 0; pass < 3; ++pass) {
      const absl::Status submitted =
          engine.Submit(0, gradient, sizeof gradient, nullptr);
      ASSERT_TRUE(submitted.ok()) << submitted;
    }
    engine.EndNoSync();
    ASSERT_TRUE(engine.Submit(0, gradient, sizeof gradient, nullptr).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(
        engine.Submit(0, gradient, sizeof gradient, nullptr)));
    ASSERT_TRUE(FinishAndWait(engine).ok());
    EXPECT_THAT(Floats(engine, 0), ElementsAre(8, 16, 24));
  });
}

TEST(EngineTest, ATiedParameterThatIsSubmittedOnceContributesThat) {
  Job job("data=2",
          {{{.name = "embedding", .shape = {2}, .op = ReduceOp::kSum}, 2}});
  job.Run([](int rank, Engine& engine) {
    const float one_side[] = {1, 2};
    ASSERT_TRUE(engine.Submit(0, one_side, sizeof one_side, nullptr).ok());
    if (rank == 0) {
      ASSERT_TRUE(engine.Submit(0, one_side, sizeof one_side, nullptr).ok());
    }
    const auto verdict = FinishAndWait(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_THAT(Floats(engine, 0), ElementsAre(3, 6));
    EXPECT_THAT(verdict->contributed, ElementsAre(true));
  });
}

// --- The order and the rounding of sums, as docs/gradients.md has them
// --------

TEST(EngineTest, RanksAreAddedInTheirOrder) {
  Job job("data=4", {{{.name = "w", .shape = {2}, .op = ReduceOp::kSum}}});
  job.Run([](int rank, Engine& engine) {
    const float up[] = {1e8f, 1, -1e8f, 1};
    const float down[] = {1e8f, -1e8f, 1, 1};
    const float gradient[] = {up[rank], down[rank]};
    ASSERT_TRUE(engine.Submit(0, gradient, sizeof gradient, nullptr).ok());
    ASSERT_TRUE(FinishAndWait(engine).ok());
    EXPECT_THAT(Floats(engine, 0), ElementsAre(1, 2));
  });
}

TEST(EngineTest, AMeanIsTheSumTimesTheRoundedShare) {
  Job job("data=7", {{{.name = "w", .shape = {1}}}});
  job.Run([](int, Engine& engine) {
    const float gradient[] = {3};
    ASSERT_TRUE(engine.Submit(0, gradient, sizeof gradient, nullptr).ok());
    ASSERT_TRUE(FinishAndWait(engine).ok());
    EXPECT_THAT(Floats(engine, 0), ElementsAre(3.0000002384185791f));
  });
}

TEST(EngineTest, AMicroBatchsWeightAndItsProductAreRounded) {
  Job job("data=1", {{{.name = "w", .shape = {1}, .op = ReduceOp::kSum}}});
  job.Run([](int, Engine& engine) {
    const float gradient[] = {3};
    engine.SetMicroBatchWeight(1.0 / 7);
    ASSERT_TRUE(engine.BeginNoSync().ok());
    for (int pass = 0; pass < 6; ++pass) {
      ASSERT_TRUE(engine.Submit(0, gradient, sizeof gradient, nullptr).ok());
    }
    engine.EndNoSync();
    ASSERT_TRUE(engine.Submit(0, gradient, sizeof gradient, nullptr).ok());
    ASSERT_TRUE(FinishAndWait(engine).ok());
    float sum = 0;
    for (int pass = 0; pass < 7; ++pass) sum += 3 * (1.0f / 7);
    EXPECT_THAT(Floats(engine, 0), ElementsAre(sum));
    EXPECT_NE(sum, 3);
  });
}

// The reduced gradients of each parameter, and the norm.
struct InBuckets {
  std::vector<std::vector<float>> gradients;
  double norm = 0;
};
InBuckets ReducedInBucketsOf(int64_t bytes_max) {
  std::vector<Registered> parameters;
  for (int p = 0; p < 5; ++p) {
    parameters.push_back(
        {{.name = "p" + std::to_string(p), .shape = {100 + 70 * p}}});
  }
  Job job("data=3", parameters,
          {.first_bytes_max = bytes_max, .bytes_max = bytes_max});
  InBuckets reduced;
  job.Run([&](int rank, Engine& engine) {
    std::mt19937 random(17 + rank);
    std::uniform_real_distribution<float> any(-1, 1);
    for (int p = 0; p < 5; ++p) {
      const absl::Span<float> view = ViewAs<float>(engine, p);
      std::generate(view.begin(), view.end(), [&] { return any(random); });
      ASSERT_TRUE(engine.Submit(p, nullptr, 0, nullptr).ok());
    }
    const auto verdict = FinishAndWait(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    if (rank != 0) return;
    reduced.norm = verdict->global_norm;
    for (int p = 0; p < 5; ++p) reduced.gradients.push_back(Floats(engine, p));
  });
  return reduced;
}

TEST(EngineTest, GradientsHaveTheSameBitsInAnyBuckets) {
  const InBuckets together = ReducedInBucketsOf(1 << 20);
  for (const int64_t bytes_max : {1, 1000, 2000}) {
    const InBuckets apart = ReducedInBucketsOf(bytes_max);
    EXPECT_EQ(apart.gradients, together.gradients) << bytes_max;
    EXPECT_NEAR(apart.norm, together.norm, 1e-12 * together.norm);
  }
}

TEST(EngineTest, ATiedParameterAddsUpItsUses) {
  Job job("data=2",
          {{{.name = "embedding", .shape = {2}, .op = ReduceOp::kSum}, 2}});
  job.Run([](int, Engine& engine) {
    const float input_side[] = {1, 2};
    const float output_side[] = {10, 20};
    ASSERT_TRUE(
        engine.Submit(0, output_side, sizeof output_side, nullptr).ok());
    ASSERT_TRUE(engine.Submit(0, input_side, sizeof input_side, nullptr).ok());
    ASSERT_TRUE(FinishAndWait(engine).ok());
    EXPECT_THAT(Floats(engine, 0), ElementsAre(22, 44));
  });
}

// Each wrong call returns a precise error and changes nothing: the step
// continues.
TEST(EngineTest, WrongCallsChangeNothing) {
  Job job("data=2", kTwo);
  job.Run([](int, Engine& engine) {
    const float gradient[] = {1, 2, 3};
    EXPECT_EQ(engine.Submit(7, nullptr, 0, nullptr).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(engine.Submit(0, gradient, sizeof gradient - 4, nullptr).code(),
              absl::StatusCode::kInvalidArgument);
    ASSERT_TRUE(engine.Submit(0, gradient, sizeof gradient, nullptr).ok());
    EXPECT_EQ(engine.Submit(0, gradient, sizeof gradient, nullptr).code(),
              absl::StatusCode::kInvalidArgument);
    ASSERT_TRUE(FinishAndWait(engine).ok());
    EXPECT_THAT(Floats(engine, 0), ElementsAre(2, 4, 6));
  });
}

TEST(EngineTest, AStreamOfAnotherKindIsRefusedAndChangesNothing) {
  class Foreign : public Stream {
    Event Record() override { return {}; }
    void WaitFor(const Event&) override {}
    absl::Status Synchronize() override { return absl::OkStatus(); }
  } stream;
  Job job("data=1", kTwo);
  Engine& engine = job.engine(0);
  EXPECT_EQ(engine.Submit(0, nullptr, 0, &stream).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      engine.Finish({.more_data = false}, kInfinity, &stream).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
  EXPECT_TRUE(FinishAndWait(engine).ok());
}

// Such a scale would make the update wrong though the gradients are finite.
TEST(EngineTest, RefusesAScaleThatIsNoScale) {
  Job job("data=1", kTwo);
  Engine& engine = job.engine(0);
  EXPECT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
  for (const double scale : {0.0, -1.0, kInfinity, double{NAN}}) {
    EXPECT_EQ(engine.Finish({.inverse_scale = scale}, kInfinity, nullptr)
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument)
        << scale;
  }
  EXPECT_TRUE(FinishAndWait(engine).ok()) << "the step goes on";
}

TEST(EngineTest, SeesNonFiniteGradientsOnEveryRank) {
  Job job("data=2", kTwo);
  job.Run([](int rank, Engine& engine) {
    FillView(engine, 0, 2);
    if (rank == 1) ViewAs<float>(engine, 0)[2] = NAN;
    ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
    const auto verdict = FinishAndWait(engine, {.inverse_scale = 0.5});
    ASSERT_TRUE(verdict.ok());
    EXPECT_FALSE(verdict->finite);
    EXPECT_EQ(verdict->nonfinite, 1);
    EXPECT_DOUBLE_EQ(verdict->global_norm, 0.5 * std::sqrt(32.0));
  });
}

// Every dtype, with a reduction whose answer is exact in each of them.
class EngineDTypes : public testing::TestWithParam<DType> {};

TEST_P(EngineDTypes, ReduceExactly) {
  const DType dtype = GetParam();
  Job job(
      "data=4",
      {{{.name = "sum", .shape = {257}, .dtype = dtype, .op = ReduceOp::kSum}},
       {{.name = "mean", .shape = {9}, .dtype = dtype}}});
  // Small whole numbers, written through f64.
  const auto store = [dtype](absl::Span<std::byte> view, double value) {
    const size_t n = view.size() / SizeOf(dtype);
    for (size_t i = 0; i < n; ++i) {
      std::byte* at = view.data() + i * SizeOf(dtype);
      const float f = static_cast<float>(value);
      uint32_t bits;
      std::memcpy(&bits, &f, sizeof bits);
      if (dtype == DType::kF64) std::memcpy(at, &value, 8);
      if (dtype == DType::kF32) std::memcpy(at, &f, 4);
      if (dtype == DType::kBF16) {
        const uint16_t half = static_cast<uint16_t>(bits >> 16);
        std::memcpy(at, &half, 2);
      }
      if (dtype == DType::kF16) {
        // Exact for whole numbers up to 2048.
        const uint16_t half =
            value == 0
                ? 0
                : static_cast<uint16_t>((((bits >> 23) - 127 + 15) << 10) |
                                        ((bits >> 13) & 0x3ff));
        std::memcpy(at, &half, 2);
      }
    }
  };
  job.Run([&](int rank, Engine& engine) {
    store(*engine.View(0), rank + 1);
    store(*engine.View(1), 2 * rank + 1);
    ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
    ASSERT_TRUE(engine.Submit(1, nullptr, 0, nullptr).ok());
    const auto verdict = FinishAndWait(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    std::vector<std::byte> expected(engine.View(0)->size());
    store(absl::MakeSpan(expected), 10);
    EXPECT_EQ(
        std::memcmp(expected.data(), engine.View(0)->data(), expected.size()),
        0);
    expected.resize(engine.View(1)->size());
    store(absl::MakeSpan(expected), 4);
    EXPECT_EQ(
        std::memcmp(expected.data(), engine.View(1)->data(), expected.size()),
        0);
    EXPECT_DOUBLE_EQ(verdict->global_norm, std::sqrt(257 * 100.0 + 9 * 16.0));
  });
}

INSTANTIATE_TEST_SUITE_P(Floats, EngineDTypes,
                         testing::Values(DType::kF16, DType::kBF16, DType::kF32,
                                         DType::kF64),
                         [](const auto& info) {
                           return std::string(Name(info.param));
                         });

TEST(EngineTest, GroupsReduceOverTheirOwnRanks) {
  Job job("data=2,pipe=2",
          {{{.name = "stage",
             .shape = {1},
             .op = ReduceOp::kSum,
             .axes = {"data"}}},
           {{.name = "shared", .shape = {1}, .op = ReduceOp::kSum}}});
  job.Run([](int rank, Engine& engine) {
    FillView(engine, 0, static_cast<float>(1 << rank));
    FillView(engine, 1, static_cast<float>(1 << rank));
    ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
    ASSERT_TRUE(engine.Submit(1, nullptr, 0, nullptr).ok());
    const auto verdict = FinishAndWait(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_THAT(Floats(engine, 0), ElementsAre(rank % 2 == 0 ? 1 + 4 : 2 + 8));
    EXPECT_THAT(Floats(engine, 1), ElementsAre(15));
    EXPECT_DOUBLE_EQ(verdict->global_norm, std::sqrt(25.0 + 100.0 + 225.0));
  });
}

// Each rank submits in its own order from its own streams, with several steps
// in flight; the result equals that of a sequential run.
class EngineHistories : public testing::TestWithParam<int> {};

TEST_P(EngineHistories, AreTheSameWhateverTheOrder) {
  const int seed = GetParam();
  constexpr int kSteps = 4;
  std::vector<Registered> registered;
  std::mt19937 shapes(seed);
  for (int p = 0; p < 12; ++p) {
    registered.push_back({{.name = "p" + std::to_string(p),
                           .shape = {static_cast<int64_t>(shapes() % 50)},
                           .op = ReduceOp::kSum}});
  }
  Job job("data=3", registered, {.first_bytes_max = 256, .bytes_max = 512});
  ASSERT_GT(job.plan().buckets.size(), 2u);

  job.Run([&](int rank, Engine& engine) {
    std::mt19937 rng(seed * 100 + rank);
    HostStream stream("test-stream");
    std::vector<std::vector<float>> buffers;
    std::vector<std::shared_ptr<PendingVerdict::State>> pending;
    std::vector<std::vector<float>> seen;  // by step: all gradients, in a row
    seen.resize(kSteps);
    buffers.reserve(kSteps * registered.size());
    for (int step = 0; step < kSteps; ++step) {
      std::vector<int> order(registered.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), rng);
      for (int p : order) {
        const size_t n = registered[p].parameter.shape[0];
        buffers.emplace_back(n + 1,
                             static_cast<float>((step + 1) * (rank + 1) + p));
        ASSERT_TRUE(
            engine.Submit(p, buffers.back().data(), n * sizeof(float), &stream)
                .ok());
      }
      auto verdict = engine.Finish({.samples = 1}, kInfinity, &stream);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      pending.push_back(*verdict);
      stream.Enqueue([&engine, &seen, step, state = *verdict] {
        EXPECT_EQ(state->scalars()->commit, 1);
        EXPECT_EQ(state->scalars()->samples, 3);
        for (int p = 0; p < 12; ++p) {
          const std::vector<float> gradient = Floats(engine, p);
          seen[step].insert(seen[step].end(), gradient.begin(), gradient.end());
        }
        return absl::OkStatus();
      });
    }
    ASSERT_TRUE(stream.Synchronize().ok()) << "seed " << seed;
    for (int step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(pending[step]->Wait().ok());
      std::vector<float> expected;
      for (int p = 0; p < 12; ++p) {
        expected.insert(expected.end(), registered[p].parameter.shape[0],
                        static_cast<float>(6 * (step + 1) + 3 * p));
      }
      EXPECT_EQ(seen[step], expected) << "seed " << seed << ", step " << step;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Seeds, EngineHistories, testing::Range(0, 20));

TEST(EngineTest, ASubmitWithoutAStreamWaitsForTheVerdictBefore) {
  Job job("data=2", kTwo);
  HostStream stream("test-stream");
  // Rank 1 has not arrived: the verdict cannot be known.
  auto pending = job.engine(0).Finish({}, kInfinity, &stream);
  ASSERT_TRUE(pending.ok());
  EXPECT_EQ(job.engine(0).Submit(0, nullptr, 0, nullptr).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(job.engine(0).Finish({}, kInfinity, nullptr).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(FinishAndWait(job.engine(1)).ok());
  ASSERT_TRUE((*pending)->Wait().ok());
  EXPECT_TRUE(job.engine(0).Submit(0, nullptr, 0, nullptr).ok());
  EXPECT_TRUE(stream.Synchronize().ok());
}

TEST(EngineTest, ZeroGradientsLeavesAloneWhatTravels) {
  Job job("data=2", kTwo);
  HostStream stream("test-stream");
  Engine& engine = job.engine(0);
  FillView(engine, 0, 3);
  FillView(engine, 1, 7);
  ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
  engine.ZeroGradients();
  EXPECT_THAT(Floats(engine, 0), ElementsAre(3, 3, 3));
  EXPECT_THAT(Floats(engine, 1), ElementsAre(0, 0));
  FillView(engine, 1, 4);
  ASSERT_TRUE(engine.Submit(1, nullptr, 0, nullptr).ok());
  auto pending = engine.Finish({}, kInfinity, &stream);
  ASSERT_TRUE(pending.ok());
  engine.ZeroGradients();  // the whole step is in flight
  ASSERT_TRUE(FinishAndWait(job.engine(1)).ok());
  ASSERT_TRUE((*pending)->Wait().ok());
  EXPECT_THAT(Floats(engine, 0), ElementsAre(3, 3, 3));
  EXPECT_THAT(Floats(engine, 1), ElementsAre(2, 2));
  engine.ZeroGradients();
  EXPECT_THAT(Floats(engine, 0), ElementsAre(0, 0, 0));
  EXPECT_TRUE(stream.Synchronize().ok());
}

TEST(EngineTest, NobodyCommitsWhenARankIsOutOfStep) {
  Job job("data=3", kTwo, {}, {5, 5, 6});
  job.Run([&](int rank, Engine& engine) {
    EXPECT_EQ(FinishAndWait(engine).status().code(),
              absl::StatusCode::kAborted);
    EXPECT_EQ(engine.step(), rank == 2 ? 6u : 5u) << "no step was passed";
    EXPECT_FALSE(job.failure(rank).ok()) << "the owner was told";
  });
}

TEST(EngineTest, AbortUnblocksAFinishThatWaitsForAnotherRank) {
  Job job("data=2", kTwo);
  std::thread waiter([&] {
    EXPECT_EQ(FinishAndWait(job.engine(0)).status(),
              absl::AbortedError("worker-1 (rank 1) died"));
    EXPECT_EQ(job.engine(0).Submit(0, nullptr, 0, nullptr),
              absl::AbortedError("worker-1 (rank 1) died"));
  });
  // In the transfer phase it can only wait: rank 1 never arrives.
  while (job.engine(0).progress().position.phase !=
         protocol::Phase::kTransfer) {
    std::this_thread::yield();
  }
  job.engine(0).Abort(absl::AbortedError("worker-1 (rank 1) died"));
  const protocol::EpochReport report = *job.engine(0).Report();
  waiter.join();
  EXPECT_EQ(report.position.step, 0u);
  EXPECT_EQ(report.verdict, "");
  EXPECT_TRUE(job.failure(0).ok()) << "an abort is not this rank's failure";
}

TEST(EngineTest, AbortCompletesAStepWhoseStreamNeverGetsThere) {
  Job job("data=1", kTwo);
  HostStream stream("test-stream");
  Mutex mutex;
  CondVar opened;
  bool open = false;
  stream.Enqueue([&] {
    MutexLock lock(&mutex);
    while (!open) opened.Wait(&mutex);
    return absl::OkStatus();
  });
  auto pending = job.engine(0).Finish({}, kInfinity, &stream);
  ASSERT_TRUE(pending.ok());
  job.engine(0).Abort(absl::AbortedError("stopped"));
  EXPECT_EQ((*pending)->Wait().status(), absl::AbortedError("stopped"));
  EXPECT_EQ((*pending)->scalars()->commit, 0);
  {
    MutexLock lock(&mutex);
    open = true;
    opened.NotifyAll();
  }
  EXPECT_FALSE(stream.Synchronize().ok());
}

// The engine's stream reports the phase of a step.
TEST(EngineTest, AStepIsWhereItsStreamIs) {
  Job job("data=1", kTwo);
  Engine& engine = job.engine(0);
  HostStream stream("test-stream");
  std::promise<void> go;
  stream.Enqueue([go = go.get_future()]() mutable {
    go.wait();
    return absl::OkStatus();
  });
  ASSERT_TRUE(engine.Submit(0, nullptr, 0, &stream).ok());
  auto pending = engine.Finish({}, kInfinity, &stream);
  ASSERT_TRUE(pending.ok());
  EXPECT_EQ(engine.progress().position,
            (protocol::Position{0, protocol::Phase::kCompute}));
  go.set_value();
  ASSERT_TRUE((*pending)->Wait().ok());
  EXPECT_EQ(engine.progress().position,
            (protocol::Position{1, protocol::Phase::kIdle}));
  EXPECT_TRUE(stream.Synchronize().ok());
}

TEST(EngineTest, ReportsWhereItStands) {
  Job job("data=1", kTwo);
  Engine& engine = job.engine(0);
  EXPECT_EQ(engine.progress().position,
            (protocol::Position{0, protocol::Phase::kIdle}));
  ASSERT_TRUE(engine.Submit(1, nullptr, 0, nullptr).ok());
  const protocol::Progress computing = engine.progress();
  EXPECT_EQ(computing.position,
            (protocol::Position{0, protocol::Phase::kCompute}));
  EXPECT_EQ(computing.submitted, 1u);
  EXPECT_THAT(computing.missing, ElementsAre("w"));
  ASSERT_TRUE(FinishAndWait(engine).ok());
  EXPECT_EQ(engine.progress().position,
            (protocol::Position{1, protocol::Phase::kIdle}));
  engine.Abort(absl::AbortedError("over"));
  const protocol::EpochReport report = *engine.Report();
  EXPECT_EQ(report.position.step, 1u);
  EXPECT_EQ(report.verdict.size(), sizeof(SummaryVectors))
      << "the verdict it passed";
}

// Gradients need no transfer, so a rank waits for the verdict alone.
const Registered kAlone[] = {
    {{.name = "w", .shape = {4}, .axes = {"data"}}, 1}};

// Rank 0 of a job whose rank 1 never enters the verdict of its step.
class RollForwardTest : public testing::Test {
 protected:
  explicit RollForwardTest(uint64_t step = 5)
      : job_("data=1,model=2", {std::begin(kAlone), std::end(kAlone)}, {},
             {step, step}) {}

  // The bytes of a verdict that both ranks of such a job passed.
  static std::string PassedAt(uint64_t step) {
    Job passed("data=1,model=2", {std::begin(kAlone), std::end(kAlone)}, {},
               {step, step});
    passed.Run([](int rank, Engine& engine) {
      FillView(engine, 0, static_cast<float>(rank + 2));
      EXPECT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
      EXPECT_TRUE(FinishAndWait(engine, {.samples = 3.0 + rank}).ok());
    });
    EXPECT_EQ(passed.engine(1).last_verdict(), passed.engine(0).last_verdict());
    return passed.engine(1).last_verdict();
  }

  protocol::EpochReport EndInTheVerdict() {
    Engine& engine = job_.engine(0);
    FillView(engine, 0, 2);
    EXPECT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
    std::thread waiter(
        [&] { EXPECT_FALSE(FinishAndWait(engine, {.samples = 3}).ok()); });
    while (engine.progress().position.phase != protocol::Phase::kVerdict) {
      std::this_thread::yield();
    }
    engine.Abort(absl::AbortedError("rank 1 died"));
    const protocol::EpochReport report = *engine.Report();
    waiter.join();
    return report;
  }

  Job job_;
};

TEST_F(RollForwardTest, AppliesTheVerdictThatAnotherRankPassed) {
  const std::string verdict = PassedAt(5);
  const protocol::EpochReport report = EndInTheVerdict();
  EXPECT_EQ(report.position,
            (protocol::Position{5, protocol::Phase::kVerdict}));
  EXPECT_EQ(report.verdict, "");
  const auto passed = job_.engine(0).RollForward(verdict);
  ASSERT_TRUE(passed.ok()) << passed.status();
  EXPECT_EQ(passed->step, 5u);
  EXPECT_EQ(passed->samples, 7);
  EXPECT_DOUBLE_EQ(passed->global_norm, std::sqrt(4 * 4.0 + 4 * 9.0));
  EXPECT_TRUE(passed->finite);
  EXPECT_THAT(passed->contributed, ElementsAre(true));
  EXPECT_THAT(Floats(job_.engine(0), 0), ElementsAre(2, 2, 2, 2));
}

TEST_F(RollForwardTest, RefusesTheVerdictOfAnotherStep) {
  const std::string later = PassedAt(6);
  EndInTheVerdict();
  EXPECT_EQ(job_.engine(0).RollForward(later).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(job_.engine(0).RollForward("short").status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(RollForwardTest, IsForRanksThatWaitForAVerdict) {
  const std::string verdict = PassedAt(5);
  EXPECT_EQ(job_.engine(0).RollForward(verdict).status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "the epoch lives";
  job_.engine(0).Abort(absl::AbortedError("over"));
  EXPECT_EQ(job_.engine(0).RollForward(verdict).status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "no step is in progress";
}

absl::StatusOr<ArenaBuffer> NoMemory(size_t) {
  return absl::ResourceExhaustedError("there is none");
}

TEST(EngineTest, RefusesAPlanWithoutItsParameters) {
  Job job("data=1", kTwo);
  SystemClock clock;
  const auto engine =
      Engine::Create({.plan = job.plan(),
                      .executor = *executor::Executor::Create(
                          {}, transport::MakeHostDeviceContext()),
                      .names = {"w", "other"},
                      .uses = {1, 1},
                      .allocate = NoMemory,
                      .clock = &clock});
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::gradient
