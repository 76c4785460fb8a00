// Steps as CUDA graphs, on fake GPUs.

#include <cmath>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/capture_rank.h"

namespace lockstep::gradient {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kTrainedSteps = 8;
const BucketPolicy kSmallBuckets = {.first_bytes_max = 8, .bytes_max = 64};

float BatchOf(uint64_t seed, int rank, uint64_t step) {
  std::mt19937_64 random(seed * 1000 + rank * 100 + step);
  return std::uniform_real_distribution<float>(-9, 9)(random);
}

// The state of each rank after a training.
struct Trained {
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<Verdict>> verdicts;
  bool operator==(const Trained&) const = default;
};

class CapturedTest : public testing::TestWithParam<int> {
 protected:
  CapturedTest() : backend_(std::make_unique<FakeGpuBackend>(seed())) {}
  ~CapturedTest() override { EXPECT_THAT(backend_->violations(), IsEmpty()); }

  uint64_t seed() const { return static_cast<uint64_t>(GetParam()); }
  FakeGpuBackend* backend() { return backend_.get(); }
  BackendJob::Options Options(int world = 2) {
    return {.world = world, .parameters = kThree, .policy = kSmallBuckets};
  }

  // Launches the steps for which `captured` returns true; runs the others
  // eagerly.
  template <typename F>
  Trained Train(int world, F captured) {
    FakeGpuBackend backend(seed());
    Trained trained{std::vector<std::vector<float>>(world),
                    std::vector<std::vector<Verdict>>(world)};
    {
      BackendJob job(&backend, Options(world));
      job.Run([&](int rank, Engine&) {
        CaptureRank mine(&job, rank);
        for (uint64_t step = 0; step < kTrainedSteps; ++step) {
          mine.Load(BatchOf(seed(), rank, step));
          const FinishOptions options = {.samples = 1.0 + rank + step,
                                         .inverse_scale = 1.0 / (1 + step),
                                         .more_data = step + 1 < kTrainedSteps};
          if (captured(step) && mine.step() == nullptr) {
            ASSERT_EQ(mine.Capture(), absl::OkStatus());
          }
          absl::StatusOr<Verdict> verdict;
          if (captured(step)) {
            verdict = mine.Launch(options);
          } else {
            auto pending = mine.Enqueue(options);
            ASSERT_TRUE(pending.ok()) << pending.status();
            verdict = (*pending)->Wait();
          }
          ASSERT_TRUE(verdict.ok()) << verdict.status();
          EXPECT_EQ(verdict->step, step);
          trained.verdicts[rank].push_back(*verdict);
        }
        ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
        trained.weights[rank] = mine.weights();
      });
    }
    EXPECT_THAT(backend.violations(), IsEmpty());
    return trained;
  }

 private:
  std::unique_ptr<FakeGpuBackend> backend_;
};

INSTANTIATE_TEST_SUITE_P(Seeds, CapturedTest, testing::Range(1, 6));

TEST_P(CapturedTest, DoesWhatTheSameCallsDoOneByOne) {
  const int world = 2 + GetParam() % 2;
  const Trained eager = Train(world, [](uint64_t) { return false; });
  EXPECT_EQ(Train(world, [](uint64_t) { return true; }), eager);
  EXPECT_EQ(Train(world, [](uint64_t step) { return step % 3 != 1; }), eager);
  const Verdict& last = eager.verdicts[0].back();
  EXPECT_THAT(last.contributed, testing::ElementsAre(true, false, true));
  EXPECT_TRUE(last.IsLast());
}

// With steps in flight a graph without gradients is captured behind each.
TEST_P(CapturedTest, OnlyWhatNoLaunchSubmitsIsNamed) {
  for (const int run_ahead : {0, 1}) {
    BackendJob::Options options = Options();
    options.run_ahead = run_ahead;
    options.on_unsubmitted = OnUnsubmitted::kWarn;
    BackendJob job(backend(), options);
    job.Run([&](int rank, Engine& engine) {
      CaptureRank mine(&job, rank);
      ASSERT_EQ(mine.Capture(), absl::OkStatus());
      for (int step = 0; step < 4; ++step) {
        mine.Load(1);
        ASSERT_TRUE(mine.Launch().ok());
      }
      const protocol::Progress progress = engine.progress();
      EXPECT_THAT(progress.unsubmitted_by_all.names, testing::ElementsAre("b"));
      EXPECT_THAT(progress.unsubmitted_here.names, testing::IsEmpty());
      EXPECT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    });
  }
}

TEST_P(CapturedTest, NoGraphIsLaunchedBehindTheStepWithWhichTheJobGrows) {
  BackendJob job(backend(), Options());
  job.Run([&](int rank, Engine& engine) {
    CaptureRank mine(&job, rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    engine.Receive({.growths = 1});
    mine.Load(1);
    const auto verdict = mine.Launch();
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_TRUE(verdict->Grows());
    mine.Load(2);
    EXPECT_TRUE(absl::IsAborted(mine.Launch().status()));
    EXPECT_EQ(mine.stream().Synchronize(), absl::OkStatus());
  });
}

TEST_P(CapturedTest, WhatIsNotFiniteIsNotApplied) {
  BackendJob job(backend(), Options());
  job.Run([&](int rank, Engine&) {
    CaptureRank mine(&job, rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    mine.Load(1);
    ASSERT_TRUE(mine.Launch().ok());
    const std::vector<float> before = mine.weights();
    mine.Load(rank == 1 ? NAN : 1);
    const auto verdict = mine.Launch();
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_FALSE(verdict->finite);
    EXPECT_EQ(verdict->nonfinite, 7);
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights(), before);
    mine.Load(1);
    ASSERT_TRUE(mine.Launch().ok());
    EXPECT_NE(mine.weights(), before);
  });
}

// As launches of a graph, and eagerly.
TEST_P(CapturedTest, NobodyUpdatesIfTheTermsDiffer) {
  // The first rank that notices aborts its groups; the coordinator tells the
  // others.
  BackendJob* all = nullptr;
  BackendJob::Options options = Options();
  options.on_failure = [&all](int, const absl::Status& error) {
    all->AbortAll(error);
  };
  BackendJob job(backend(), options);
  all = &job;
  const bool eager = GetParam() % 2 == 0;
  job.Run([&](int rank, Engine& engine) {
    CaptureRank mine(&job, rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    mine.Load(1);
    ASSERT_TRUE(mine.Launch().ok());
    const std::vector<float> before = mine.weights();
    const FinishOptions mine_alone = {.inverse_scale = rank == 0 ? 1 : 0.5};
    absl::StatusOr<Verdict> verdict;
    if (eager) {
      auto pending = mine.Enqueue(mine_alone);
      verdict = pending.ok() ? (*pending)->Wait()
                             : absl::StatusOr<Verdict>(pending.status());
    } else {
      verdict = mine.Launch(mine_alone);
    }
    EXPECT_EQ(verdict.status().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(engine.step(), 1u);
    (void)mine.stream().Synchronize();  // may fail or not
    EXPECT_EQ(mine.weights(), before);
  });
}

TEST_P(CapturedTest, ARevisionMakesItStale) {
  BackendJob job(backend(), Options());
  const plan::Plan next = *plan::Recut(job.plan(), kSmallBuckets, {2, 0, 1});
  const uint64_t hold_at = 1 + seed() % 3;
  job.Run([&](int rank, Engine& engine) {
    CaptureRank mine(&job, rank);
    engine.OnMoved([] {});
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    float sum = 0;
    for (uint64_t step = 0; step < kTrainedSteps; ++step) {
      if (step == hold_at + rank) {  // the last rank decides
        ASSERT_EQ(engine.Stage(next), absl::OkStatus());
      }
      ASSERT_EQ(mine.stale(), step == hold_at + 2);
      if (mine.stale()) {
        EXPECT_EQ(mine.Launch().status().code(),
                  absl::StatusCode::kFailedPrecondition);
        ASSERT_EQ(mine.Capture(), absl::OkStatus());
      }
      mine.Load(static_cast<float>(step + 1));
      const auto verdict = mine.Launch();
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->step, step);
      ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
      sum += static_cast<float>(2 * (step + 1) * verdict->UpdateFactor(40));
      EXPECT_FLOAT_EQ(mine.weights()[0], sum);
      EXPECT_FLOAT_EQ(job.Get(rank, 0)[0], 2.0f * (step + 1));
    }
    EXPECT_EQ(engine.revision(), Revision{2});
  });
}

// --- Endings ----------------------------------------------------------------

// Rank 1 dies after the others have launched the step with its update.
TEST_P(CapturedTest, AnAbortUnderALaunchEndsIt) {
  BackendJob job(backend(), Options(3));
  std::latch all_are_waiting(3);
  std::thread coordinator([&] {
    all_are_waiting.wait();
    job.AbortAll(absl::AbortedError("rank 1 is gone"));
  });
  job.Run([&](int rank, Engine& engine) {
    CaptureRank mine(&job, rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    mine.Load(1);
    ASSERT_TRUE(mine.Launch().ok());
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    const std::vector<float> before = mine.weights();
    if (rank == 1) return all_are_waiting.count_down();
    auto pending = engine.Launch(mine.step(), {.samples = 1}, mine.stream());
    ASSERT_TRUE(pending.ok()) << pending.status();
    all_are_waiting.count_down();
    EXPECT_FALSE((*pending)->Wait().ok());
    EXPECT_FALSE(mine.stream().Synchronize().ok());
    EXPECT_EQ(mine.weights(), before);
    EXPECT_EQ(engine.step(), 1u);
    EXPECT_FALSE(mine.Launch().ok());
  });
  coordinator.join();
}

TEST_P(CapturedTest, AnEndAtAnyMomentAppliesWhatItReports) {
  BackendJob job(backend(), Options());
  std::mt19937_64 random(seed());
  const uint64_t end = random() % 4;
  const uint64_t turns = random() % 60;
  std::vector<uint64_t> passed(2);
  std::latch near_the_end(2);
  std::thread coordinator([&] {
    near_the_end.wait();
    for (uint64_t i = 0; i < turns; ++i) std::this_thread::yield();
    job.AbortAll(absl::AbortedError("over"));
  });
  job.Run([&](int rank, Engine& engine) {
    CaptureRank mine(&job, rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    mine.Load(1);  // the norm stays below max_norm: a clip of 1
    for (uint64_t step = 0;; ++step) {
      if (step == end) near_the_end.count_down();
      if (!mine.Launch().ok()) break;
    }
    (void)mine.stream().Synchronize();
    passed[rank] = engine.Report()->position.step;
    EXPECT_FLOAT_EQ(mine.weights()[0], 2.0f * passed[rank]);
  });
  coordinator.join();
  EXPECT_LE(std::max(passed[0], passed[1]) - std::min(passed[0], passed[1]),
            1u);
}

// Neither for the 5 s that a device may take.
TEST_P(CapturedTest, ALaunchOnALostDeviceEndsWithTheDevicesError) {
  BackendJob job(backend(), Options(1));
  CaptureRank mine(&job, 0);
  ASSERT_EQ(mine.Capture(), absl::OkStatus());
  mine.Load(1);
  ASSERT_TRUE(mine.Launch().ok());
  backend()->gpus().StallUntil(
      static_cast<transport::nccl::CudaStream&>(mine.stream()).handle(),
      [] { return false; });
  auto pending =
      job.engine(0).Launch(mine.step(), {.samples = 1}, mine.stream());
  ASSERT_TRUE(pending.ok()) << pending.status();
  backend()->gpus().BreakDevice(0);
  EXPECT_FALSE((*pending)->Wait().ok());
  const absl::Time asked = absl::Now();
  const absl::Status position = job.engine(0).Report().status();
  EXPECT_THAT(position.message(), HasSubstr("fake error"));
  EXPECT_LT(absl::Now() - asked, absl::Seconds(4));
}

TEST_P(CapturedTest, OneThatIsGivenBackUnderALaunchFinishesIt) {
  BackendJob job(backend(), Options());
  job.Run([&](int rank, Engine& engine) {
    CaptureRank mine(&job, rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    mine.Load(1);
    auto pending = engine.Launch(mine.step(), {.samples = 1}, mine.stream());
    ASSERT_TRUE(pending.ok()) << pending.status();
    mine.Forget();
    EXPECT_TRUE((*pending)->Wait().ok());
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_FLOAT_EQ(mine.weights()[0], 2);
  });
}

// --- Wrong calls ------------------------------------------------------------

class WrongCaptureTest : public testing::Test {
 protected:
  ~WrongCaptureTest() override {
    EXPECT_TRUE(FinishBlocking(engine()).ok());  // training continues
    EXPECT_THAT(backend_.violations(), IsEmpty());
  }
  Engine& engine() { return job_.engine(0); }
  absl::StatusCode CodeOf(absl::FunctionRef<absl::Status()> body) {
    return engine().Capture(*stream_, body).status().code();
  }
  absl::Status Submit(Stream* stream) {
    return engine().Submit(0, nullptr, 0, stream);
  }
  absl::Status FinishOn(Stream* stream) {
    return engine().Finish({}, 1, stream).status();
  }

  FakeGpuBackend backend_;
  BackendJob job_{&backend_, {.world = 1, .parameters = kThree}};
  const std::unique_ptr<Stream> stream_ = job_.MakeStream(0);
};

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

TEST(HostCaptureTest, SaysThatTheHostHasTheGradients) {
  HostMemoryBackend backend;
  BackendJob job(&backend, {.world = 1, .parameters = kThree});
  const auto stream = job.MakeStream(0);
  const auto step = job.engine(0).Capture(
      *stream, [] { return absl::InternalError("the body was called"); });
  EXPECT_THAT(step.status().ToString(), HasSubstr("in the host's memory"));
  EXPECT_THAT(job.engine(0).BeginReplays().ToString(),
              HasSubstr("in the host's memory"));
}

TEST_F(WrongCaptureTest, ABodyMustFinish) {
  EXPECT_EQ(CodeOf([&] { return Submit(stream_.get()); }), kFailedPrecondition);
  EXPECT_EQ(CodeOf([&] { return absl::DataLossError("no batch"); }),
            absl::StatusCode::kDataLoss);
}

TEST_F(WrongCaptureTest, ABodyFinishesOnce) {
  EXPECT_EQ(CodeOf([&] {
              absl::Status done = FinishOn(stream_.get());
              EXPECT_EQ(done, absl::OkStatus());
              return FinishOn(stream_.get());
            }),
            kFailedPrecondition);
}

TEST_F(WrongCaptureTest, ABodyUsesTheCapturedStream) {
  const auto other = job_.MakeStream(0);
  EXPECT_EQ(
      CodeOf([&] {
        for (Stream* stream : {static_cast<Stream*>(nullptr), other.get()}) {
          EXPECT_EQ(Submit(stream).code(), kFailedPrecondition);
          EXPECT_EQ(FinishOn(stream).code(), kFailedPrecondition);
        }
        return FinishOn(stream_.get());
      }),
      absl::StatusCode::kOk);
}

TEST_F(WrongCaptureTest, ItsVerdictIsNone) {
  CaptureRank mine(&job_, 0);
  ASSERT_EQ(mine.Capture(), absl::OkStatus());
  EXPECT_EQ(mine.captured().Wait().status().code(), kFailedPrecondition);
}

TEST_F(WrongCaptureTest, NotInTheMiddleOfAStep) {
  CaptureRank mine(&job_, 0);
  ASSERT_EQ(mine.Capture(), absl::OkStatus());
  ASSERT_EQ(Submit(nullptr), absl::OkStatus());
  EXPECT_EQ(mine.Launch().status().code(), kFailedPrecondition);
  EXPECT_EQ(mine.Capture().code(), kFailedPrecondition);
}

TEST_F(WrongCaptureTest, SomebodyElsesCaptureIsRefused) {
  const auto graph = transport::nccl::Capture(
      backend_.world().at(0),
      static_cast<transport::nccl::CudaStream&>(*stream_),
      [&] { return Submit(stream_.get()); });
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CaptureTest, NotWhereRanksMayGiveZeros) {
  FakeGpuBackend backend;
  BackendJob job(&backend,
                 {.world = 1, .parameters = kThree, .uneven = Uneven::kJoin});
  CaptureRank mine(&job, 0);
  EXPECT_EQ(mine.Capture().code(), kFailedPrecondition);
}

// A job of one rank refuses to capture, with the reason, and continues.
void ExpectNoCapture(const BackendJob::Options& options,
                     const std::string& because) {
  FakeGpuBackend backend;
  BackendJob job(&backend, options);
  Engine& engine = job.engine(0);
  const auto stream = job.MakeStream(0);
  bool began = false;
  const auto captured = engine.Capture(*stream, [&] {
    began = true;
    return absl::OkStatus();
  });
  EXPECT_EQ(captured.status().code(), kFailedPrecondition);
  EXPECT_THAT(captured.status().message(), HasSubstr(because));
  EXPECT_FALSE(began);
  if (options.sync == SyncMode::kReduceScatter) {
    ASSERT_EQ(engine.GatherParameters(nullptr), absl::OkStatus());
  }
  EXPECT_EQ(FinishBlocking(engine).status(), absl::OkStatus());
  EXPECT_THAT(backend.violations(), IsEmpty());
}

TEST(CaptureTest, NotWithSlices) {
  ExpectNoCapture(
      {.world = 1, .parameters = kThree, .sync = SyncMode::kReduceScatter},
      "reduce_scatter");
}

TEST(CaptureTest, NotWithLeaves) {
  ExpectNoCapture({.world = 1, .parameters = kThree, .leaves = 2}, "leaves");
}

// A wire dtype without error feedback has no state between steps.
TEST(CaptureTest, NotWithErrorFeedback) {
  BucketPolicy policy{.wire_dtype = DType::kBF16, .error_feedback = true};
  ExpectNoCapture({.world = 1, .parameters = kThree, .policy = policy},
                  "error_feedback");
  policy.error_feedback = false;
  FakeGpuBackend backend;
  BackendJob job(&backend,
                 {.world = 1, .parameters = kThree, .policy = policy});
  CaptureRank mine(&job, 0);
  EXPECT_EQ(mine.Capture(), absl::OkStatus());
  const auto launched = mine.Launch();
  EXPECT_EQ(launched.status(), absl::OkStatus());
}

TEST(CaptureTest, NotInTheHostsMemory) {
  HostMemoryBackend backend;
  BackendJob job(&backend, {.world = 1, .parameters = kThree});
  CaptureRank mine(&job, 0);
  EXPECT_EQ(mine.Capture().code(), kFailedPrecondition);
  EXPECT_TRUE(FinishBlocking(job.engine(0)).ok());
}

}  // namespace
}  // namespace lockstep::gradient
