// Steps in graphs that the program captures and launches itself, on fake GPUs.

#include <barrier>
#include <latch>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/replay_rank.h"
#include "tests/support/sanitizers.h"

namespace lockstep::gradient {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const BucketPolicy kSmallBuckets = {.first_bytes_max = 8, .bytes_max = 64};

// Whole numbers, so that sums are exact.
float BatchOf(uint64_t seed, int rank, uint64_t launch) {
  std::mt19937_64 random(seed * 1000 + rank * 100 + launch);
  return static_cast<float>(random() % 64);
}

class ReplayTest : public testing::TestWithParam<int> {
 protected:
  ReplayTest() : backend_(std::make_unique<FakeGpuBackend>(seed())) {}
  ~ReplayTest() override { EXPECT_THAT(backend_->violations(), IsEmpty()); }

  uint64_t seed() const { return static_cast<uint64_t>(GetParam()); }
  FakeGpuBackend* backend() { return backend_.get(); }
  BackendJob::Options Options(int world = 2) {
    return {.world = world, .parameters = kThree, .policy = kSmallBuckets};
  }
  // The gradient of w that all ranks apply in a launch.
  float SumOf(int world, uint64_t launch) {
    float sum = 0;
    for (int rank = 0; rank < world; ++rank) {
      sum += BatchOf(seed(), rank, launch);
    }
    return sum;
  }

 private:
  std::unique_ptr<FakeGpuBackend> backend_;
};

INSTANTIATE_TEST_SUITE_P(Seeds, ReplayTest, testing::Range(1, 6));

TEST_P(ReplayTest, LaunchesOfTheProgramTrain) {
  const int world = 2 + GetParam() % 2;
  constexpr uint64_t kLaunches = 20;
  BackendJob job(backend(), Options(world));
  job.Run([&](int rank, Engine& engine) {
    ReplayRank mine(&job, backend(), rank);
    ASSERT_EQ(mine.Capture({.samples = 3}), absl::OkStatus());
    for (uint64_t launch = 0; launch < kLaunches; ++launch) {
      mine.Launch(BatchOf(seed(), rank, launch));
    }
    float sum = 0;
    for (uint64_t launch = 0; launch < kLaunches; ++launch) {
      const auto next = mine.Next();
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_EQ(next->launch, launch);
      EXPECT_EQ(next->verdict.step, launch);
      EXPECT_EQ(next->verdict.samples, 3 * world);
      sum += SumOf(world, launch);
    }
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], sum);
    EXPECT_EQ(engine.step(), kLaunches);
    mine.AwaitDecided(kLaunches);
  });
}

TEST_P(ReplayTest, EagerStepsAndOtherGraphsComeBetween) {
  BackendJob job(backend(), Options());
  job.Run([&](int rank, Engine&) {
    ReplayRank mine(&job, backend(), rank);
    float sum = 0;
    const auto eager = [&](uint64_t at) {
      mine.Load(BatchOf(seed(), rank, at));
      ASSERT_EQ(mine.Step({.samples = 1}), absl::OkStatus());
      EXPECT_TRUE(mine.Wait().ok());
      sum += SumOf(2, at);
    };
    eager(0);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    eager(1);
    ASSERT_EQ(mine.Capture({.samples = 2}, /*times=*/3), absl::OkStatus());
    uint64_t launch = 0;
    for (int turn = 0; turn < 3; ++turn) {
      for (const int graph : {0, 1, 1}) {
        mine.Launch(BatchOf(seed(), rank, launch), graph);
        sum += (graph == 0 ? 1 : 3) * SumOf(2, launch);
        ++launch;
      }
      eager(2 + turn);
    }
    for (uint64_t i = 0; i < launch; ++i) {
      const auto next = mine.Next();
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_EQ(next->launch, i);
      EXPECT_EQ(next->verdict.step, i + 2 + i / 3);
      EXPECT_EQ(next->verdict.samples, i % 3 == 0 ? 2 : 4);
    }
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], sum);
  });
}

TEST_P(ReplayTest, ALaunchMayHaveAnInputOfItsOwn) {
  BackendJob job(backend(), Options());
  job.Run([&](int rank, Engine& engine) {
    ReplayRank mine(&job, backend(), rank);
    ASSERT_EQ(mine.Capture({.samples = 3}), absl::OkStatus());
    for (uint64_t launch = 0; launch < 6; ++launch) {
      if (launch % 2 == 1) {
        const FinishOptions input{.samples = 10.0 + rank,
                                  .inverse_scale = 0.5,
                                  .more_data = launch < 5};
        ASSERT_EQ(engine.SetReplayInput(launch, input), absl::OkStatus());
      }
      mine.Launch(1);
    }
    for (uint64_t launch = 0; launch < 6; ++launch) {
      const auto next = mine.Next();
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_EQ(next->verdict.samples, launch % 2 == 1 ? 21 : 6);
      EXPECT_EQ(next->verdict.inverse_scale, launch % 2 == 1 ? 0.5 : 1);
      EXPECT_EQ(next->verdict.IsLast(), launch == 5);
    }
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], 3 * 2 + 3 * 1);
    EXPECT_TRUE(absl::IsCancelled(mine.Next().status()));
  });
}

// --- Void launches -----------------------------------------------------------

TEST_P(ReplayTest, LaunchesBehindTheLastStepAreVoid) {
  BackendJob job(backend(), Options());
  job.Run([&](int rank, Engine& engine) {
    ReplayRank mine(&job, backend(), rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    ASSERT_EQ(engine.SetReplayInput(2, {.samples = 1, .more_data = rank == 0}),
              absl::OkStatus());
    for (int launch = 0; launch < 8; ++launch) mine.Launch(1);
    for (int launch = 0; launch < 3; ++launch) {
      const auto next = mine.Next();
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_EQ(next->verdict.IsLast(), launch == 2);
    }
    EXPECT_TRUE(absl::IsCancelled(mine.Next().status()));
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], 3 * 2);
    mine.AwaitDecided(8);
  });
}

// Each rank sees the end at another launch.
TEST_P(ReplayTest, LaunchesThatWaitForNobodyEnd) {
  BackendJob job(backend(), Options());
  job.Run([&](int rank, Engine& engine) {
    ReplayRank mine(&job, backend(), rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    ASSERT_EQ(engine.SetReplayInput(2, {.samples = 1, .more_data = rank == 0}),
              absl::OkStatus());
    for (int launch = 0; launch < 3 + 2 * rank; ++launch) mine.Launch(1);
    for (int launch = 0; launch < 3; ++launch) {
      ASSERT_TRUE(mine.Next().ok());
    }
    (void)mine.stream().Synchronize();
    EXPECT_EQ(mine.weights()[0], 3 * 2);
    EXPECT_TRUE(absl::IsCancelled(mine.Next().status()));
  });
}

TEST_P(ReplayTest, APauseMakesLaunchesVoid) {
  BackendJob job(backend(), Options());
  std::barrier both(2);
  job.Run([&](int rank, Engine& engine) {
    ReplayRank mine(&job, backend(), rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    mine.Launch(1);
    ASSERT_TRUE(mine.Next().ok());
    engine.Receive({.commands = {Command::kPause}, .number = 1});
    both.arrive_and_wait();
    for (int launch = 0; launch < 4; ++launch) mine.Launch(1);
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], 2 * 2);  // the first, and the one that pauses
    EXPECT_TRUE(engine.progress().paused);
    EXPECT_TRUE(
        absl::IsDeadlineExceeded(mine.Next(absl::Milliseconds(10)).status()));
    both.arrive_and_wait();
    engine.Receive({.number = 2});
    both.arrive_and_wait();
    for (int launch = 0; launch < 2; ++launch) mine.Launch(1);
    std::vector<uint64_t> launches;
    for (int i = 0; i < 3; ++i) {
      const auto next = mine.Next();
      ASSERT_TRUE(next.ok()) << next.status();
      launches.push_back(next->launch);
    }
    EXPECT_THAT(launches, testing::ElementsAre(1, 5, 6));
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], 4 * 2);
    both.arrive_and_wait();
  });
}

TEST_P(ReplayTest, ASaveIsOfTheStateBehindItsStepOnAllRanks) {
  BackendJob job(backend(), Options());
  std::barrier both(2);
  job.Run([&](int rank, Engine& engine) {
    ReplayRank mine(&job, backend(), rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    engine.Receive({.saves = 1});
    both.arrive_and_wait();
    for (int launch = 0; launch < 4; ++launch) mine.Launch(1);
    const auto save = mine.Next();
    ASSERT_TRUE(save.ok()) << save.status();
    EXPECT_TRUE(save->verdict.Holds(Command::kSave));
    mine.AwaitDecided(4);
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], 2);
    both.arrive_and_wait();
    // Rank 1 is slow to save: no launch of rank 0 passes meanwhile.
    if (rank == 0) {
      EXPECT_TRUE(
          absl::IsDeadlineExceeded(mine.Next(absl::Milliseconds(5)).status()));
    }
    both.arrive_and_wait();
    for (int launch = 0; launch < 2; ++launch) mine.Launch(1);
    mine.AwaitDecided(6);
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], 2);
    both.arrive_and_wait();
    if (rank == 1) {
      EXPECT_TRUE(
          absl::IsDeadlineExceeded(mine.Next(absl::Milliseconds(5)).status()));
    }
    both.arrive_and_wait();
    mine.Launch(1);
    const auto next = mine.Next();
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(next->launch, 6u);
    EXPECT_FALSE(next->verdict.Holds(Command::kSave));
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], 4);
    both.arrive_and_wait();
  });
}

TEST_P(ReplayTest, LaunchesBehindTheStepWithWhichTheJobGrowsAreVoid) {
  BackendJob job(backend(), Options());
  job.Run([&](int rank, Engine& engine) {
    ReplayRank mine(&job, backend(), rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    engine.Receive({.growths = 1});
    for (int launch = 0; launch < 5; ++launch) mine.Launch(1);
    std::optional<Verdict> last;
    absl::StatusOr<ReplayedVerdict> next;
    while ((next = mine.Next()).ok()) last = next->verdict;
    EXPECT_TRUE(absl::IsAborted(next.status())) << next.status();
    ASSERT_TRUE(last.has_value());
    EXPECT_TRUE(last->Grows());
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], 2.0f * static_cast<float>(last->step + 1));
  });
}

// --- The end of the epoch ----------------------------------------------------

// A rank that is behind has the gradients of the step that its peer passed,
// whatever it has launched since.
TEST_P(ReplayTest, AnEndAtAnyMomentLosesNoStep) {
  for (int round = 0; round < (kUnderThreadSanitizer ? 3 : 8); ++round) {
    SCOPED_TRACE(round);
    BackendJob job(backend(), Options());
    std::mt19937_64 random(seed() * 100 + round);
    const uint64_t turns = random() % 200;
    std::latch launched(2);
    std::thread coordinator([&] {
      launched.wait();
      for (uint64_t i = 0; i < turns; ++i) std::this_thread::yield();
      job.AbortAll(absl::AbortedError("over"));
    });
    std::vector<protocol::EpochReport> reports(2);
    std::vector<std::vector<float>> weights(2);
    job.Run([&](int rank, Engine& engine) {
      ReplayRank mine(&job, backend(), rank);
      ASSERT_EQ(mine.Capture(), absl::OkStatus());
      launched.count_down();
      for (uint64_t launch = 0; launch < 12; ++launch) {
        mine.Launch(BatchOf(seed(), rank, launch));
      }
      absl::StatusOr<ReplayedVerdict> next;
      uint64_t passed = 0;
      while ((next = mine.Next()).ok()) ++passed;
      EXPECT_TRUE(absl::IsAborted(next.status())) << next.status();
      (void)mine.stream().Synchronize();
      weights[rank] = mine.weights();
      mine.DestroyGraphs();
      const auto report = engine.Report();
      ASSERT_TRUE(report.ok()) << report.status();
      reports[rank] = *report;
      EXPECT_EQ(reports[rank].position.step, passed);
    });
    coordinator.join();
    (void)job.RollForwardWhoIsBehind(reports);
    const uint64_t steps =
        std::max(reports[0].position.step, reports[1].position.step);
    for (int rank = 0; rank < 2; ++rank) {
      float sum = 0;
      for (uint64_t launch = 0; launch < steps; ++launch)
        sum += SumOf(2, launch);
      if (reports[rank].position.step < steps) {
        weights[rank][0] += job.Get(rank, 0)[0];
      }
      EXPECT_EQ(weights[rank][0], sum) << "rank " << rank << " of " << steps;
    }
  }
}

// --- Wrong calls -------------------------------------------------------------

class WrongReplayTest : public testing::Test {
 protected:
  ~WrongReplayTest() override { EXPECT_THAT(backend_.violations(), IsEmpty()); }
  FakeGpuBackend backend_;
};

TEST_F(WrongReplayTest, AStreamThatIsNotCaptured) {
  BackendJob job(&backend_, {.world = 1, .parameters = kThree});
  ReplayRank mine(&job, &backend_, 0);
  ASSERT_EQ(mine.engine().BeginReplays(), absl::OkStatus());
  const absl::Status joined = mine.engine().JoinCapture(mine.stream());
  EXPECT_EQ(joined.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(joined.message(), HasSubstr("does not capture"));
  ASSERT_EQ(mine.Capture(), absl::OkStatus());
  mine.Launch(1);
  EXPECT_TRUE(mine.Next().ok());
}

TEST_F(WrongReplayTest, ACaptureWithoutFinish) {
  BackendJob job(&backend_, {.world = 1, .parameters = kThree});
  ReplayRank mine(&job, &backend_, 0);
  ASSERT_EQ(mine.engine().BeginReplays(), absl::OkStatus());
  mine.BeginCapture();
  ASSERT_EQ(mine.engine().JoinCapture(mine.stream()), absl::OkStatus());
  EXPECT_EQ(mine.engine().JoinCapture(mine.stream()).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(mine.engine().Submit(0, nullptr, 0, &mine.stream()),
            absl::OkStatus());
  mine.engine().LeaveCapture();
  EXPECT_FALSE(mine.EndCapture(absl::CancelledError("given up")).ok());
  ASSERT_EQ(mine.Capture(), absl::OkStatus());
  mine.Launch(1);
  EXPECT_TRUE(mine.Next().ok());
}

TEST_F(WrongReplayTest, ACaptureThatHasNotJoined) {
  BackendJob job(&backend_, {.world = 1, .parameters = kThree});
  ReplayRank mine(&job, &backend_, 0);
  mine.BeginCapture();
  const absl::Status submitted =
      mine.engine().Submit(0, nullptr, 0, &mine.stream());
  EXPECT_EQ(submitted.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(submitted.message(), HasSubstr("JoinCapture"));
  (void)mine.EndCapture(submitted);
}

TEST_F(WrongReplayTest, AnInputOfALaunchThatIsDecidedOrFarAhead) {
  BackendJob job(&backend_, {.world = 1, .parameters = kThree});
  ReplayRank mine(&job, &backend_, 0);
  ASSERT_EQ(mine.Capture(), absl::OkStatus());
  Engine& engine = mine.engine();
  mine.Launch(1);
  ASSERT_TRUE(mine.Next().ok());
  EXPECT_TRUE(absl::IsOutOfRange(engine.SetReplayInput(0, {.samples = 1})));
  EXPECT_TRUE(absl::IsOutOfRange(
      engine.SetReplayInput(1 + StepGate::kDepth, {.samples = 1})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      engine.SetReplayInput(1, {.samples = 1, .inverse_scale = 0})));
  EXPECT_EQ(engine.SetReplayInput(1, {.samples = 1}), absl::OkStatus());
}

TEST_F(WrongReplayTest, ARevisionAfterTheyHaveBegun) {
  BackendJob job(&backend_, {.world = 1, .parameters = kThree});
  Engine& engine = job.engine(0);
  engine.OnMoved([] {});
  EXPECT_TRUE(engine.CanMove());
  ASSERT_EQ(engine.BeginReplays(), absl::OkStatus());
  EXPECT_FALSE(engine.CanMove());
  plan::Plan next = job.plan();
  next.revision = {next.revision.value + 1};
  EXPECT_EQ(engine.Stage(next).code(), absl::StatusCode::kFailedPrecondition);
}

void ExpectNone(BackendJob::Options options, const char* why) {
  FakeGpuBackend backend;
  BackendJob job(&backend, options);
  const absl::Status begun = job.engine(0).BeginReplays();
  EXPECT_EQ(begun.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(begun.message(), HasSubstr(why));
}

TEST(ReplayModeTest, NotWithStepsInFlight) {
  ExpectNone({.world = 1, .parameters = kThree, .run_ahead = 1}, "run_ahead");
}

TEST(ReplayModeTest, NotWhereRanksMayGiveZeros) {
  ExpectNone({.world = 1, .parameters = kThree, .uneven = Uneven::kJoin},
             "uneven: join");
}

TEST(ReplayModeTest, NotWithLeaves) {
  ExpectNone({.world = 1, .parameters = kThree, .leaves = 2}, "leaves");
}

// --- Graphs that stay --------------------------------------------------------

TEST(ReplayedGraphTest, KeepsTheMemoryThatItMayWriteTo) {
  FakeGpuBackend backend;
  std::optional<BackendJob> job;
  job.emplace(&backend, BackendJob::Options{.world = 1, .parameters = kThree});
  ReplayRank mine(&*job, &backend, 0);
  ASSERT_EQ(mine.Capture(), absl::OkStatus());
  mine.Launch(1);
  ASSERT_TRUE(mine.Next().ok());
  EXPECT_EQ(job->engine(0).CheckNoGraphs().code(),
            absl::StatusCode::kFailedPrecondition);
  mine.DestroyGraphs();
  EXPECT_EQ(job->engine(0).CheckNoGraphs(), absl::OkStatus());
  EXPECT_THAT(backend.violations(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::gradient
