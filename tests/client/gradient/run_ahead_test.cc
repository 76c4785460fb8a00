// Steps that are enqueued before the host has acted on the verdicts of those
// before them: on fake GPUs, with a set of buckets for each step in flight.

#include <algorithm>
#include <atomic>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/gradient/backend_job.h"

namespace lockstep::gradient {
namespace {

// The run-ahead, and whether gradients are in their views.
using Case = std::tuple<int, bool>;

class RunAheadTest : public testing::TestWithParam<Case> {
 protected:
  RunAheadTest()
      : job_(&backend_,
             {.parameters = {{.name = "w", .shape = {3}, .op = ReduceOp::kSum},
                             {.name = "v", .shape = {2}, .op = ReduceOp::kSum}},
              .policy = {.first_bytes_max = 1, .bytes_max = 1},
              .run_ahead = ahead(),
              .on_failure = [this](int, const absl::Status& error) {
                ADD_FAILURE() << error;
                failed_ = true;
              }}) {}
  ~RunAheadTest() override {
    EXPECT_EQ(backend_.violations(), std::vector<std::string>());
  }

  static int ahead() { return std::get<0>(GetParam()); }
  static bool in_views() { return std::get<1>(GetParam()); }

  // How many steps are enqueued when this one begins on a device that waits for
  // as many as there may be. Where there is one set of buckets, a program with
  // gradients in views waits for each verdict.
  static int QueuedBehind(int step, int steps) {
    if (ahead() == 0 && in_views()) return step;
    return std::min(step + 1 + ahead(), steps);
  }

  // The sum of w's gradients over ranks and steps [0, steps).
  static float SumOf(uint64_t steps) {
    float sum = 0;
    for (uint64_t s = 0; s < steps; ++s) sum += static_cast<float>(3 * (s + 1));
    return sum;
  }

  // A rank whose host never waits, and whose update adds w's gradients.
  class Rank {
   public:
    Rank(BackendJob* job, int rank)
        : job_(*job),
          rank_(rank),
          engine_(job->engine(rank)),
          stream_(job->MakeStream(rank)),
          weights_(job->Buffer(rank, {0, 0, 0})) {
      buffers_.push_back(job->Buffer(rank, {0, 0, 0}));
      buffers_.push_back(job->Buffer(rank, {0, 0}));
    }
    ~Rank() { (void)stream_->Synchronize(); }

    absl::StatusOr<std::shared_ptr<PendingVerdict::State>> Step(
        const FinishOptions& options = {.samples = 1}) {
      const auto value = static_cast<float>((rank_ + 1) * (++steps_));
      const float* reduced = nullptr;
      for (const int p : {1, 0}) {
        const auto got = engine_.View(p);
        if (!got.ok()) return got.status();
        const absl::Span<std::byte> view = *got;
        if (p == 0) reduced = job_.Floats(view.data());
        std::byte* const at = in_views() ? view.data() : buffers_[p].data();
        const size_t count = view.size() / sizeof(float);
        float* const to = job_.Floats(at);
        job_.Enqueue(*stream_, [=] { std::fill_n(to, count, value); });
        absl::Status done =
            engine_.Submit(p, in_views() ? nullptr : at,
                           in_views() ? 0 : view.size(), stream_.get());
        if (!done.ok()) return done;
      }
      auto pending = engine_.Finish(
          options, std::numeric_limits<double>::infinity(), stream_.get());
      if (!pending.ok()) return pending;
      Update(**pending, reduced);
      last_ = *pending;
      return pending;
    }

    void Update(PendingVerdict::State& verdict, const float* reduced) {
      const auto* const scalars = reinterpret_cast<const VerdictScalars*>(
          job_.Reach(verdict.scalars()));
      float* const weights = job_.Floats(weights_.data());
      job_.Enqueue(*stream_, [=] {
        if (!MayUpdate(*scalars)) return;
        for (int i = 0; i < 3; ++i) weights[i] += reduced[i];
      });
    }

    absl::StatusOr<std::shared_ptr<Captured>> Capture() {
      return engine_.Capture(*stream_, [this]() -> absl::Status {
        const auto state = Step();
        if (state.ok()) captured_.push_back(*state);
        return state.status();
      });
    }
    size_t captures() const { return captured_.size(); }

    Stream& stream() { return *stream_; }
    std::vector<float> weights() {
      EXPECT_EQ(stream_->Synchronize(), absl::OkStatus());
      // Before the engine is destroyed, which would end the epoch.
      if (last_ != nullptr) last_->AwaitResult().IgnoreError();
      return job_.Get(weights_.data(), 3);
    }

   private:
    BackendJob& job_;
    const int rank_;
    Engine& engine_;
    const std::unique_ptr<Stream> stream_;
    const ArenaBuffer weights_;
    std::vector<ArenaBuffer> buffers_;
    std::vector<std::shared_ptr<PendingVerdict::State>> captured_;
    std::shared_ptr<PendingVerdict::State> last_;
    uint64_t steps_ = 0;
  };

  std::atomic<bool> failed_{false};
  FakeGpuBackend backend_{1};
  BackendJob job_;
};

TEST_P(RunAheadTest, WeightsAreThoseOfAllStepsThoughNoVerdictIsWaitedFor) {
  job_.Run([&](int r, Engine&) {
    Rank rank(&job_, r);
    std::vector<std::shared_ptr<PendingVerdict::State>> pending;
    for (int step = 0; step < 12; ++step) {
      auto state = rank.Step({.samples = 1, .more_data = step < 11});
      ASSERT_TRUE(state.ok()) << state.status();
      pending.push_back(*state);
    }
    for (uint64_t step = 0; step < pending.size(); ++step) {
      const auto verdict = pending[step]->Wait();
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->step, step);
      EXPECT_EQ(verdict->IsLast(), step == 11);
      EXPECT_TRUE(verdict->contributed[0]);
    }
    EXPECT_EQ(rank.weights(), std::vector<float>(3, SumOf(12)));
  });
}

// With the device stalled in the first step, the host enqueues all that it may.
TEST_P(RunAheadTest, TheHostEnqueuesStepsBehindOneThatRuns) {
  std::atomic<bool> enqueued{false};
  job_.Run([&](int r, Engine& engine) {
    Rank rank(&job_, r);
    if (r == 0) {
      backend_.gpus().StallUntil(
          static_cast<transport::nccl::CudaStream&>(rank.stream()).handle(),
          [&] { return enqueued.load(); });
    }
    // Views wait for the host's verdict where there is one set of buckets.
    if (ahead() == 0 && in_views()) enqueued = true;
    for (int step = 0; step <= ahead(); ++step) {
      ASSERT_TRUE(rank.Step().ok());
    }
    const bool is_ahead = ahead() > 0 || !in_views();
    if (r == 0 && is_ahead) {
      EXPECT_EQ(engine.step(), 0u);
    }
    if (r == 0) enqueued = true;
    ASSERT_TRUE(rank.Step({.samples = 1, .more_data = false}).ok());
    EXPECT_EQ(rank.weights(),
              std::vector<float>(3, SumOf(static_cast<uint64_t>(ahead()) + 2)));
  });
}

// Each step begins on the device once run_ahead more are enqueued: the host
// needs nothing of it for that, in any step.
TEST_P(RunAheadTest, TheDeviceHasStepsQueuedInEveryStep) {
  constexpr int kSteps = 12;
  std::atomic<int> enqueued[2] = {};
  job_.Run([&](int r, Engine& engine) {
    Rank rank(&job_, r);
    for (int step = 0; step < kSteps; ++step) {
      const int later = QueuedBehind(step, kSteps);
      backend_.gpus().StallUntil(
          static_cast<transport::nccl::CudaStream&>(rank.stream()).handle(),
          [&, later] { return enqueued[r] >= later; });
      ASSERT_TRUE(
          rank.Step({.samples = 1, .more_data = step + 1 < kSteps}).ok());
      ++enqueued[r];
      EXPECT_GE(engine.step() + static_cast<uint64_t>(ahead()),
                static_cast<uint64_t>(step));
    }
    EXPECT_EQ(rank.weights(), std::vector<float>(3, SumOf(kSteps)));
  });
}

TEST_P(RunAheadTest, LaunchesAreQueuedInEveryStep) {
  constexpr int kSteps = 12;
  std::atomic<int> enqueued[2] = {};
  job_.Run([&](int r, Engine& engine) {
    Rank rank(&job_, r);
    const auto graph = rank.Capture();
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (int step = 0; step < kSteps; ++step) {
      const int later = QueuedBehind(step, kSteps);
      backend_.gpus().StallUntil(
          static_cast<transport::nccl::CudaStream&>(rank.stream()).handle(),
          [&, later] { return enqueued[r] >= later; });
      const auto state =
          engine.Launch(*graph, {.samples = 1, .more_data = step + 1 < kSteps},
                        rank.stream());
      ASSERT_TRUE(state.ok()) << state.status();
      ++enqueued[r];
    }
    EXPECT_EQ(rank.stream().Synchronize(), absl::OkStatus());
  });
}

TEST_P(RunAheadTest, StepsBehindTheLastDataAreVoid) {
  constexpr uint64_t kLast = 4;
  job_.Run([&](int r, Engine&) {
    Rank rank(&job_, r);
    std::vector<std::shared_ptr<PendingVerdict::State>> pending;
    absl::Status over;
    for (uint64_t step = 0; over.ok(); ++step) {
      // Rank 0 has no more data, and says so once; rank 1 goes on.
      if (r == 0 && step > kLast) break;
      auto state =
          rank.Step({.samples = 1, .more_data = r == 1 || step < kLast});
      over = state.status();
      if (state.ok()) pending.push_back(*state);
    }
    for (uint64_t step = 0; step < pending.size(); ++step) {
      const auto verdict = pending[step]->Wait();
      if (step > kLast) {
        EXPECT_TRUE(absl::IsCancelled(verdict.status())) << verdict.status();
        continue;
      }
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->ending,
                step == kLast ? Ending::kOutOfData : Ending::kNone);
    }
    EXPECT_EQ(absl::IsCancelled(over), r == 1) << over;
    EXPECT_LE(pending.size(), kLast + 1 + static_cast<size_t>(ahead()));
    EXPECT_EQ(rank.weights(), std::vector<float>(3, SumOf(kLast + 1)));
  });
}

TEST_P(RunAheadTest, ADrainEndsWithTheNewestStepInFlight) {
  std::vector<uint64_t> ends(2);
  job_.Run([&](int r, Engine& engine) {
    Rank rank(&job_, r);
    engine.Receive({.commands = {Command::kDrain}, .number = 3});
    std::vector<std::shared_ptr<PendingVerdict::State>> pending;
    absl::Status over;
    while (over.ok()) {
      auto state = rank.Step();
      over = state.status();
      if (state.ok()) pending.push_back(*state);
    }
    EXPECT_TRUE(absl::IsCancelled(over)) << over;
    for (uint64_t step = 0; step < pending.size(); ++step) {
      const auto verdict = pending[step]->Wait();
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->IsLast(), step + 1 == pending.size());
    }
    ends[r] = pending.size();
    EXPECT_EQ(rank.weights(), std::vector<float>(3, SumOf(pending.size())));
  });
  EXPECT_EQ(ends[0], static_cast<uint64_t>(ahead()) + 1);
  EXPECT_EQ(ends[1], ends[0]);
}

// They may be those of a step that is to be rolled forward.
TEST_P(RunAheadTest, ThereAreNoViewsOnceTheEpochHasEnded) {
  job_.Run([&](int r, Engine&) {
    Rank rank(&job_, r);
    for (int step = 0; step < 4; ++step) ASSERT_TRUE(rank.Step().ok());
    EXPECT_EQ(rank.stream().Synchronize(), absl::OkStatus());
  });
  job_.AbortAll(absl::AbortedError("over"));
  for (int r = 0; r < 2; ++r) {
    const auto view = job_.engine(r).View(0);
    EXPECT_EQ(view.ok(), ahead() == 0) << view.status();
  }
}

TEST_P(RunAheadTest, GraphsOfAStepRunBackToBack) {
  job_.Run([&](int r, Engine& engine) {
    Rank rank(&job_, r);
    const auto graph = rank.Capture();
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(rank.captures(), static_cast<size_t>(ahead()) + 1);
    std::vector<std::shared_ptr<PendingVerdict::State>> pending;
    for (int step = 0; step < 9; ++step) {
      auto state = engine.Launch(*graph, {.samples = 1, .more_data = step < 8},
                                 rank.stream());
      ASSERT_TRUE(state.ok()) << state.status();
      pending.push_back(*state);
    }
    // Graph i was captured as step i, and gradients are those of its capture.
    float sum = 0;
    for (int step = 0; step < 9; ++step) {
      sum += static_cast<float>(3 * (step % (ahead() + 1) + 1));
    }
    for (const auto& state : pending) EXPECT_TRUE(state->Wait().ok());
    EXPECT_EQ(rank.weights(), std::vector<float>(3, sum));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Over, RunAheadTest,
    testing::Combine(testing::Values(0, 1, 2), testing::Bool()),
    [](const testing::TestParamInfo<Case>& info) {
      return "Ahead" + std::to_string(std::get<0>(info.param)) +
             (std::get<1>(info.param) ? "InViews" : "FromBuffers");
    });

}  // namespace
}  // namespace lockstep::gradient
