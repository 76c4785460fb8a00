// A step's transfers on a helper thread or on the thread that closes the step:
// the same bits, the same contract, and the measurements of it.

#include <barrier>
#include <future>
#include <random>

#include "gtest/gtest.h"
#include "tests/client/gradient/engine_job.h"
#include "tests/support/manual_clock.h"

namespace lockstep::gradient {
namespace {

const std::vector<Registered> kOne = {
    {{.name = "w", .shape = {3}, .op = ReduceOp::kSum}}};

std::vector<Registered> Several() {
  std::vector<Registered> registered;
  for (int p = 0; p < 8; ++p) {
    registered.push_back({{.name = "p" + std::to_string(p),
                           .shape = {10 + p},
                           .op = p % 2 ? ReduceOp::kSum : ReduceOp::kMean}});
  }
  return registered;
}

constexpr BucketPolicy kSmall = {.first_bytes_max = 128, .bytes_max = 256};

// All results of rank 0, in `steps` steps of random gradients.
std::vector<float> Train(Overlap overlap, int steps) {
  EngineJob job("data=3", Several(), kSmall, {}, Uneven::kStop,
                {.overlap = overlap});
  std::vector<float> seen;
  job.Run([&](int rank, Engine& engine) {
    std::mt19937 random(rank);
    std::normal_distribution<float> values;
    for (int step = 0; step < steps; ++step) {
      for (int p = 7; p >= 0; --p) {
        for (float& x : ViewAs<float>(engine, p)) x = values(random);
        ASSERT_TRUE(engine.Submit(p, nullptr, 0, nullptr).ok());
      }
      const auto verdict = FinishAndWait(engine);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      if (rank != 0) continue;
      for (int p = 0; p < 8; ++p) {
        for (const float x : Floats(engine, p)) seen.push_back(x);
      }
      seen.push_back(static_cast<float>(verdict->global_norm));
    }
  });
  return seen;
}

TEST(OverlapTest, WhoRunsTheTransfersDoesNotChangeABit) {
  constexpr int kSteps = OverlapChoice::kWarmUp + OverlapChoice::kTurns + 3;
  const std::vector<float> thread = Train(Overlap::kThread, kSteps);
  ASSERT_FALSE(thread.empty());
  EXPECT_EQ(Train(Overlap::kInline, kSteps), thread);
  EXPECT_EQ(Train(Overlap::kAuto, kSteps), thread);
}

// One thread runs both ranks: a Submit that waited for the other would hang.
TEST(OverlapTest, WithoutAHelperSubmitDoesNotWaitAndNothingTravelsYet) {
  EngineJob job("data=2", kOne, {}, {}, Uneven::kStop,
                {.overlap = Overlap::kInline});
  for (int rank : {0, 1}) {
    FillView(job.engine(rank), 0, 1.0f + static_cast<float>(rank));
    ASSERT_TRUE(job.engine(rank).Submit(0, nullptr, 0, nullptr).ok());
  }
  EXPECT_EQ(Floats(job.engine(0), 0), std::vector<float>(3, 1));
  job.Run([](int, Engine& engine) {
    ASSERT_TRUE(FinishAndWait(engine).ok());
    EXPECT_EQ(Floats(engine, 0), std::vector<float>(3, 3));
  });
}

// The last gradient is submitted on a stream, after Finish: then the stream
// runs the step.
TEST(OverlapTest, WithoutAHelperWhoBringsTheLastGradientRunsTheStep) {
  EngineJob job("data=2", Several(), kSmall, {}, Uneven::kStop,
                {.overlap = Overlap::kInline});
  job.Run([](int, Engine& engine) {
    std::promise<void> open;
    HostStream stream("test-stream");
    stream.Enqueue([gate = open.get_future().share()] {
      gate.wait();
      return absl::OkStatus();
    });
    std::vector<std::vector<float>> gradients;
    for (int p = 0; p < 8; ++p) gradients.emplace_back(10 + p, 1.0f);
    for (int p = 0; p < 8; ++p) {
      ASSERT_TRUE(engine
                      .Submit(p, gradients[p].data(),
                              gradients[p].size() * sizeof(float), &stream)
                      .ok());
    }
    auto pending = engine.Finish({}, kInfinity, nullptr);
    ASSERT_TRUE(pending.ok()) << pending.status();
    open.set_value();
    ASSERT_TRUE((*pending)->Wait().ok());
    EXPECT_EQ(Floats(engine, 1), std::vector<float>(11, 2));
    ASSERT_TRUE(stream.Synchronize().ok());
  });
}

TEST(OverlapTest, WithoutAHelperAStreamRunsTheStepsThatAreInFlightOnIt) {
  EngineJob job("data=2", kOne, {}, {}, Uneven::kStop,
                {.overlap = Overlap::kInline});
  job.Run([](int rank, Engine& engine) {
    HostStream stream("test-stream");
    std::vector<std::vector<float>> gradients;
    for (int step = 0; step < 5; ++step) {
      gradients.emplace_back(3, static_cast<float>(step * (rank + 1)));
    }
    std::vector<std::vector<float>> seen(5);
    std::vector<std::shared_ptr<PendingVerdict::State>> pending;
    for (int step = 0; step < 5; ++step) {
      ASSERT_TRUE(
          engine.Submit(0, gradients[step].data(), 3 * sizeof(float), &stream)
              .ok());
      auto finished = engine.Finish({}, kInfinity, &stream);
      ASSERT_TRUE(finished.ok()) << finished.status();
      pending.push_back(*finished);
      stream.Enqueue([&engine, &seen, step] {
        seen[step] = Floats(engine, 0);
        return absl::OkStatus();
      });
    }
    ASSERT_TRUE(stream.Synchronize().ok());
    for (int step = 0; step < 5; ++step) {
      EXPECT_TRUE(pending[step]->Wait().ok());
      EXPECT_EQ(seen[step],
                std::vector<float>(3, static_cast<float>(step * 3)));
    }
  });
}

TEST(OverlapTest, WithoutAHelperAnAbortEndsTheWaitOfWhoRunsTheStep) {
  EngineJob job("data=2", kOne, {}, {}, Uneven::kStop,
                {.overlap = Overlap::kInline});
  auto waits = std::async(std::launch::async,
                          [&] { return FinishAndWait(job.engine(0)); });
  job.engine(0).Abort(absl::AbortedError("the epoch is over"));
  EXPECT_FALSE(waits.get().ok());
  EXPECT_EQ(job.engine(0).Submit(0, nullptr, 0, nullptr),
            absl::AbortedError("the epoch is over"));
}

TEST(OverlapTest, WithoutAHelperAnEngineMayBeDestroyedInsideAStep) {
  EngineJob job("data=2", Several(), kSmall, {}, Uneven::kStop,
                {.overlap = Overlap::kInline});
  for (int p = 7; p >= 3; --p) {
    ASSERT_TRUE(job.engine(0).Submit(p, nullptr, 0, nullptr).ok());
  }
  job.engines()[0].reset();
  EXPECT_FALSE(FinishAndWait(job.engine(1)).ok());
}

TEST(OverlapTest, AllRanksChooseWhatTakesLessTimeOnTheMean) {
  ManualClock clock;
  EngineJob job("data=2", kOne, {}, {}, Uneven::kStop,
                {.overlap = Overlap::kAuto, .clock = &clock});
  std::barrier both(2);
  job.Run([&](int rank, Engine& engine) {
    for (int step = 0; step < 40; ++step) {
      // Only rank 0 can measure a difference.
      if (rank == 0) {
        clock.Advance(absl::Seconds(
            engine.overlap() == Overlap::kInline ? 0.060 : 0.050));
      }
      both.arrive_and_wait();
      ASSERT_TRUE(FinishAndWait(engine).ok());
      both.arrive_and_wait();
    }
  });
  EXPECT_EQ(job.engine(0).overlap(), Overlap::kThread);
  EXPECT_EQ(job.engine(1).overlap(), Overlap::kThread);
}

TEST(OverlapTest, ExposedIsTheTimeFromFinishToTheVerdict) {
  ManualClock clock;
  EngineJob job("data=2", kOne, {}, {}, Uneven::kStop, {.clock = &clock});
  clock.Advance(absl::Seconds(5));  // the backward pass
  auto pending = job.engine(0).Finish({}, kInfinity, nullptr);
  ASSERT_TRUE(pending.ok());
  clock.Advance(absl::Seconds(3));  // rank 1 is late
  ASSERT_TRUE(FinishAndWait(job.engine(1)).ok());
  ASSERT_TRUE((*pending)->Wait().ok());
  EXPECT_EQ(job.engine(0).exposed_seconds(), 3);
  EXPECT_EQ(job.engine(1).exposed_seconds(), 0);
  const protocol::Progress progress = job.engine(0).progress();
  EXPECT_EQ(progress.step_seconds, 8);
  EXPECT_EQ(progress.exposed_seconds, 3);
  EXPECT_EQ(progress.overlap, Overlap::kThread);
}

// Finish was called long before the stream reached it.
TEST(OverlapTest, OnAStreamExposedBeginsWhereTheStreamGotToFinish) {
  ManualClock clock;
  EngineJob job("data=2", kOne, {}, {}, Uneven::kStop, {.clock = &clock});
  std::promise<void> backward_ends;
  HostStream stream("test-stream");
  stream.Enqueue([done = backward_ends.get_future().share()] {
    done.wait();
    return absl::OkStatus();
  });
  auto pending = job.engine(0).Finish({}, kInfinity, &stream);
  ASSERT_TRUE(pending.ok());
  clock.Advance(absl::Seconds(7));
  backward_ends.set_value();
  ASSERT_TRUE(FinishAndWait(job.engine(1)).ok());
  ASSERT_TRUE((*pending)->Wait().ok());
  EXPECT_EQ(job.engine(0).exposed_seconds(), 0);
  ASSERT_TRUE(stream.Synchronize().ok());
}

}  // namespace
}  // namespace lockstep::gradient
