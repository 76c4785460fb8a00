// Launches by the program between steps of the library, on fake GPUs: each is
// behind the one before it, on the host as on the device.

#include <algorithm>
#include <barrier>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/replay_rank.h"

namespace lockstep::gradient {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Whether eager steps submit gradients in their views.
class MixedTest : public testing::TestWithParam<bool> {
 protected:
  ~MixedTest() override { EXPECT_THAT(backend_.violations(), IsEmpty()); }

  using Body = std::function<void(ReplayRank& mine, Engine& engine, int rank)>;
  // On two ranks, each with a graph.
  void Run(const Body& body) {
    BackendJob job(&backend_, {.world = 2, .parameters = kThree});
    job.Run([&](int rank, Engine& engine) {
      ReplayRank mine(&job, &backend_, rank);
      ASSERT_EQ(mine.Capture(), absl::OkStatus());
      body(mine, engine, rank);
    });
  }
  absl::Status Eager(ReplayRank& mine, float batch,
                     const FinishOptions& options = {.samples = 1}) {
    mine.Load(batch);
    return mine.Step(options, /*times=*/1, /*in_views=*/GetParam());
  }

  FakeGpuBackend backend_;
};

INSTANTIATE_TEST_SUITE_P(InViews, MixedTest, testing::Bool());

TEST_P(MixedTest, LaunchesBehindAnEagerLastStepAreVoid) {
  Run([&](ReplayRank& mine, Engine& engine, int) {
    ASSERT_EQ(Eager(mine, 1, {.samples = 1, .more_data = false}),
              absl::OkStatus());
    for (int i = 0; i < 3; ++i) mine.Launch(1);
    const auto last = mine.Wait();
    ASSERT_TRUE(last.ok()) << last.status();
    EXPECT_TRUE(last->IsLast());
    EXPECT_TRUE(absl::IsCancelled(mine.Next().status()));
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(engine.step(), 1u);
    EXPECT_EQ(mine.weights()[0], 2);
  });
}

TEST_P(MixedTest, LaunchesBehindAnEagerStepWithWhichTheJobEndsAreVoid) {
  for (const bool grows : {false, true}) {
    Run([&](ReplayRank& mine, Engine& engine, int) {
      if (grows) {
        engine.Receive({.growths = 1});
      } else {
        engine.Receive({.commands = {Command::kStop}, .number = 1});
      }
      uint64_t steps = 0;
      while (Eager(mine, 1).ok() && mine.Wait().ok()) ++steps;
      for (int i = 0; i < 3; ++i) mine.Launch(1);
      ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
      EXPECT_EQ(mine.weights()[0], 2.0f * static_cast<float>(steps));
      EXPECT_EQ(engine.step(), steps);
    });
  }
}

TEST_P(MixedTest, AnEagerStepIsBehindTheLaunchesBeforeIt) {
  Run([&](ReplayRank& mine, Engine&, int) {
    float sum = 0;
    uint64_t step = 0;
    for (int round = 0; round < 4; ++round) {
      ASSERT_EQ(Eager(mine, 1), absl::OkStatus());
      for (int i = 0; i < 3; ++i) mine.Launch(10);
      sum += 2 + 60;
      const auto eager = mine.Wait();
      ASSERT_TRUE(eager.ok()) << eager.status();
      EXPECT_EQ(eager->step, step);
      step += 4;
    }
    for (uint64_t launch = 0; launch < 12; ++launch) {
      const auto next = mine.Next();
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_EQ(next->launch, launch);
      EXPECT_EQ(next->verdict.step, launch / 3 * 4 + launch % 3 + 1);
    }
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], sum);
  });
}

TEST_P(MixedTest, AnEagerStepWaitsForTheEndOfAPause) {
  std::barrier both(2);
  Run([&](ReplayRank& mine, Engine& engine, int) {
    engine.Receive({.commands = {Command::kPause}, .number = 1});
    both.arrive_and_wait();
    mine.Launch(10);
    mine.Launch(10);
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    std::thread resume([&] {
      absl::SleepFor(absl::Milliseconds(20));
      both.arrive_and_wait();
      engine.Receive({.number = 2});
    });
    ASSERT_EQ(Eager(mine, 1), absl::OkStatus());
    resume.join();
    const auto eager = mine.Wait();
    ASSERT_TRUE(eager.ok()) << eager.status();
    EXPECT_EQ(eager->step, 1u);  // one launch was void
    EXPECT_EQ(mine.Next()->launch, 0u);
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], 20 + 2);
  });
}

TEST_P(MixedTest, AnEagerStepLeavesTheInputOfALaunch) {
  Run([&](ReplayRank& mine, Engine& engine, int) {
    ASSERT_EQ(engine.SetReplayInput(0, {.samples = 10}), absl::OkStatus());
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(Eager(mine, 1), absl::OkStatus());
      ASSERT_EQ(engine.SetReplayInput(1, {.samples = 5}), absl::OkStatus());
      const auto eager = mine.Wait();
      ASSERT_TRUE(eager.ok()) << eager.status();
      EXPECT_EQ(eager->samples, 2);
    }
    for (const double samples : {20, 10, 2}) {
      mine.Launch(1);
      const auto next = mine.Next();
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_EQ(next->verdict.samples, samples);
    }
  });
}

TEST_P(MixedTest, AnEagerStepBehindASaveIsRefusedUntilItIsKnown) {
  std::barrier both(2);
  Run([&](ReplayRank& mine, Engine& engine, int) {
    engine.Receive({.saves = 1});
    both.arrive_and_wait();
    mine.Launch(1);
    mine.AwaitDecided(1);
    const absl::Status refused = Eager(mine, 1);
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.message(), HasSubstr("holds a save"));
    both.arrive_and_wait();
    EXPECT_TRUE(mine.Next()->verdict.Holds(Command::kSave));
    EXPECT_EQ(Eager(mine, 1), absl::OkStatus());
    mine.Launch(1);
    EXPECT_EQ(mine.Next()->launch, 1u);
  });
}

TEST(ReplayedGraphsTest, AGraphThatOutlivesTheJobKeepsItsCommunicators) {
  FakeGpuBackend backend;
  auto job = std::make_unique<BackendJob>(
      &backend, BackendJob::Options{.world = 1, .parameters = kThree});
  auto* const world = static_cast<fake::FakeGpuWorld*>(&backend.world());
  const auto tables = world->TablesOf(0);
  transport::nccl::CudaGraphExecHandle exec = nullptr;
  {
    ReplayRank mine(job.get(), &backend, 0);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    mine.Launch(1);
    ASSERT_TRUE(mine.Next().ok());
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    exec = mine.TakeGraph();
  }
  job.reset();
  const transport::nccl::DeviceScope scope(*tables.cuda);
  tables.cuda->GraphExecDestroy(exec);
  EXPECT_THAT(backend.violations(), IsEmpty());
}

// Any order of launches, eager steps, inputs and pauses that all ranks share.
class AnyMixTest : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Seeds, AnyMixTest, testing::Range(1, 9));

TEST_P(AnyMixTest, TrainsWhatItsStepsSay) {
  const auto seed = static_cast<uint64_t>(GetParam());
  const int world = 1 + GetParam() % 3;
  FakeGpuBackend backend(seed);
  BackendJob job(&backend, {.world = world, .parameters = kThree});
  std::barrier all(world);
  job.Run([&](int rank, Engine& engine) {
    ReplayRank mine(&job, &backend, rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    std::mt19937_64 random(seed);  // the same on all ranks
    std::vector<float> batches;    // by launch
    float sum = 0;
    uint64_t number = 0;
    const auto sum_of = [&](float batch) {
      return batch * static_cast<float>(world * (world + 1) / 2);
    };
    for (int i = 0; i < 30; ++i) {
      const auto batch = static_cast<float>(1 + random() % 50);
      const float own = batch * static_cast<float>(rank + 1);
      const uint64_t what = random() % 8;
      if (what < 5) {
        if (what == 0) {
          ASSERT_EQ(engine.SetReplayInput(batches.size(), {.samples = 7}),
                    absl::OkStatus());
        }
        batches.push_back(batch);
        mine.Launch(own);
      } else if (what < 7) {
        mine.Load(own);
        ASSERT_EQ(mine.Step({.samples = 1}, 1, /*in_views=*/what == 5),
                  absl::OkStatus());
        ASSERT_TRUE(mine.Wait().ok());
        sum += sum_of(batch);
      } else {
        // Withdrawn at once: takes effect at some launches, or at none.
        engine.Receive({.commands = {Command::kPause}, .number = ++number});
        engine.Receive({.number = ++number});
      }
    }
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    mine.AwaitDecided(batches.size());
    absl::StatusOr<ReplayedVerdict> next;
    while ((next = mine.Next(absl::Milliseconds(5))).ok()) {
      ASSERT_LT(next->launch, batches.size());
      EXPECT_EQ(next->missed, 0u);
      sum += sum_of(batches[next->launch]);
    }
    EXPECT_TRUE(absl::IsDeadlineExceeded(next.status())) << next.status();
    EXPECT_EQ(mine.weights()[0], sum) << "seed " << seed;
    all.arrive_and_wait();
  });
  EXPECT_THAT(backend.violations(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::gradient
