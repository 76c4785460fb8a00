// The engine's contract, in host memory and on fake GPUs.

#include <atomic>
#include <cmath>
#include <future>
#include <latch>
#include <limits>
#include <mutex>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/stream_rank.h"
#include "tests/support/sanitizers.h"

namespace lockstep::gradient {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class BackendTest : public testing::TestWithParam<BackendKind> {
 protected:
  ~BackendTest() override { EXPECT_THAT(backend_->violations(), IsEmpty()); }

  // A new backend for each seed.
  void Renew(uint64_t seed) {
    EXPECT_THAT(backend_->violations(), IsEmpty());
    backend_ = GetParam().make(seed);
  }
  MemoryBackend* backend() { return backend_.get(); }

 private:
  std::unique_ptr<MemoryBackend> backend_ = GetParam().make(1);
};

INSTANTIATE_TEST_SUITE_P(On, BackendTest, testing::Values(kHost, kFakeGpus),
                         [](const testing::TestParamInfo<BackendKind>& info) {
                           return std::string(info.param.name);
                         });

TEST_P(BackendTest, SumsMeansNormsAndFlags) {
  BackendJob job(backend(), {.world = 3, .parameters = kThree});
  job.Run([&](int rank, Engine& engine) {
    const float r = static_cast<float>(rank);
    for (uint64_t step = 0; step < 3; ++step) {
      job.Put(rank, 1, {r, 2 * r});
      ASSERT_TRUE(engine.Submit(1, nullptr, 0, nullptr).ok());
      job.Put(rank, 0, {r + 1, 1, 2});
      ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
      job.Put(rank, 2, {9, 9, 9, 9});  // not submitted: zeros are reduced
      const auto verdict = FinishBlocking(engine, {.samples = 1.0 + rank});
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->step, step);
      EXPECT_EQ(verdict->samples, 6);
      EXPECT_TRUE(verdict->finite);
      EXPECT_THAT(verdict->contributed, ElementsAre(true, true, false));
      EXPECT_THAT(job.Get(rank, 0), ElementsAre(6, 3, 6));
      EXPECT_THAT(job.Get(rank, 1), ElementsAre(1, 2));
      EXPECT_THAT(job.Get(rank, 2), ElementsAre(0, 0, 0, 0));
      EXPECT_DOUBLE_EQ(verdict->global_norm, std::sqrt(36 + 9 + 36 + 1 + 4.0));
    }
  });
}

TEST_P(BackendTest, SeesWhatIsNotFinite) {
  BackendJob job(backend(), {.parameters = kThree});
  job.Run([&](int rank, Engine& engine) {
    for (const bool bad : {true, false}) {
      job.Put(rank, 0, {1, bad && rank == 1 ? NAN : 1, 1});
      ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
      const auto verdict = FinishBlocking(engine);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->nonfinite, bad ? 1 : 0);
      EXPECT_DOUBLE_EQ(verdict->global_norm, std::sqrt(bad ? 8.0 : 12.0));
    }
  });
}

// The caller owns a buffer again when Submit returns, so it is overwritten.
TEST_P(BackendTest, PacksBuffersAndAddsUpWeightedMicroBatches) {
  BackendJob job(backend(), {.parameters = kThree});
  job.Run([&](int rank, Engine& engine) {
    const ArenaBuffer buffer = job.Buffer(rank, {4, 8, 12});
    const auto submit = [&] {
      ASSERT_TRUE(
          engine.Submit(0, buffer.data(), buffer.bytes(), nullptr).ok());
      job.Put(buffer.data(), {NAN, NAN, NAN});
    };
    for (int step = 0; step < 2; ++step) {
      engine.SetMicroBatchWeight(0.25);
      ASSERT_TRUE(engine.BeginNoSync().ok());
      job.Put(buffer.data(), {4, 8, 12});
      submit();
      engine.EndNoSync();
      engine.SetMicroBatchWeight(0.5);
      job.Put(buffer.data(), {40, 80, 120});
      submit();
      const auto verdict = FinishBlocking(engine);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_THAT(job.Get(rank, 0), ElementsAre(42, 84, 126));
    }
    engine.ZeroGradients();
    EXPECT_THAT(job.Get(rank, 0), Each(0));
  });
}

TEST_P(BackendTest, UnevenRanksTrainUntilNoneHasData) {
  const std::vector<Parameter> one = {
      {.name = "w", .shape = {1}, .op = ReduceOp::kSum}};
  BackendJob job(backend(),
                 {.world = 3, .parameters = one, .uneven = Uneven::kJoin});
  job.Run([&](int rank, Engine& engine) {
    const int batches = 1 + 2 * rank;  // of `rank + 1` samples each
    int steps = 0;
    for (bool last = false; !last; ++steps) {
      const bool has = steps < batches;
      if (has) {
        job.Put(rank, 0, {10});
        ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
      }
      const auto verdict =
          FinishBlocking(engine, {.samples = has ? rank + 1.0 : 0,
                                  .more_data = steps + 1 < batches,
                                  .per_sample = true});
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      float sum = 0;
      double samples = 0;
      for (int r = 0; r < 3; ++r) {
        if (steps >= 1 + 2 * r) continue;
        sum += 10;
        samples += r + 1;
      }
      EXPECT_EQ(verdict->samples, samples);
      EXPECT_THAT(job.Get(rank, 0), ElementsAre(sum));
      last = verdict->IsLast();
    }
    EXPECT_EQ(steps, 5);
    EXPECT_EQ(engine.Submit(0, nullptr, 0, nullptr).code(),
              absl::StatusCode::kCancelled);
  });
}

// --- Streams ----------------------------------------------------------------

TEST_P(BackendTest, OnAStreamTheUpdateStandsBehindTheVerdict) {
  constexpr uint64_t kSteps = 6;
  BackendJob job(backend(), {.parameters = kThree});
  job.Run([&](int rank, Engine& engine) {
    StreamRank mine(&job, rank);
    mine.Fetch();
    float sum = 0;
    for (uint64_t step = 0; step < kSteps; ++step) {
      ASSERT_EQ(mine.Submit(step), absl::OkStatus());
      auto pending = mine.FinishAndUpdate();
      ASSERT_TRUE(pending.ok()) << pending.status();
      sum += static_cast<float>(3 * (step + 1));
      if (step % 2 == 0) continue;  // sometimes two are in flight
      ASSERT_TRUE(pending->Wait().ok());
      ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
      EXPECT_THAT(mine.weights(), Each(sum));
    }
    EXPECT_EQ(engine.step(), kSteps);
  });
}

TEST_P(BackendTest, BuffersOnAStreamAreReadWhenItGetsThere) {
  BackendJob job(backend(), {.parameters = kThree});
  job.Run([&](int rank, Engine& engine) {
    const auto stream = job.MakeStream(rank);
    const ArenaBuffer buffer = job.Buffer(rank, {NAN, NAN, NAN});
    auto* const at = reinterpret_cast<float*>(job.Reach(buffer.data()));
    for (int step = 1; step <= 3; ++step) {
      job.Enqueue(*stream, [at, step] {
        std::fill(at, at + 3, static_cast<float>(step));
      });
      engine.SetMicroBatchWeight(2);
      ASSERT_TRUE(
          engine.Submit(0, buffer.data(), buffer.bytes(), stream.get()).ok());
      job.Enqueue(*stream, [at] { std::fill(at, at + 3, NAN); });
      auto pending = engine.Finish({.samples = 1}, kInfinity, stream.get());
      ASSERT_TRUE(pending.ok()) << pending.status();
      ASSERT_TRUE((*pending)->Wait().ok());
      EXPECT_THAT(job.Get(rank, 0), Each(4 * step));
    }
    EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
  });
}

TEST_P(BackendTest, GradientsMoveBetweenTwoSteps) {
  const BucketPolicy policy = {.first_bytes_max = 8, .bytes_max = 64};
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Renew(seed);
    BackendJob job(backend(), {.parameters = kThree, .policy = policy});
    const plan::Plan next = *plan::Recut(job.plan(), policy, {2, 0, 1});
    job.Run([&](int rank, Engine& engine) {
      StreamRank mine(&job, rank);
      engine.OnMoved([&] { mine.Fetch(); });
      mine.Fetch();
      float sum = 0;
      for (uint64_t step = 0; step < 6; ++step) {
        if (step == 2 + seed % 2) {
          ASSERT_EQ(engine.Stage(next), absl::OkStatus());
        }
        ASSERT_EQ(mine.Submit(step), absl::OkStatus());
        auto pending = mine.FinishAndUpdate();
        ASSERT_TRUE(pending.ok()) << pending.status();
        const auto verdict = pending->Wait();
        ASSERT_TRUE(verdict.ok()) << verdict.status();
        EXPECT_THAT(verdict->contributed, Each(true));
        ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
        sum += static_cast<float>(3 * (step + 1));
        EXPECT_THAT(mine.weights(), Each(sum));
        EXPECT_THAT(job.Get(rank, 2), Each(3 * (step + 1)));
      }
      EXPECT_EQ(engine.revision(), Revision{2});
    });
  }
}

// --- Endings ----------------------------------------------------------------

// Rank 1 dies during a step; the others have enqueued the whole step and its
// update. Committed updates stay.
TEST_P(BackendTest, WeightsStayUnharmedWhenARankFails) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Renew(seed);
    BackendJob job(backend(), {.world = 3, .parameters = kThree});
    std::latch all_are_waiting(3);
    std::atomic<int> enqueued = 0;
    std::thread coordinator([&] {
      all_are_waiting.wait();
      job.AbortAll(absl::AbortedError("rank 1 is gone"));
    });
    job.Run([&](int rank, Engine& engine) {
      StreamRank mine(&job, rank);
      mine.Fetch();
      ASSERT_EQ(mine.Submit(0), absl::OkStatus());
      auto first = mine.FinishAndUpdate();
      ASSERT_TRUE(first.ok() && first->Wait().ok());
      ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
      if (rank == 1) {
        all_are_waiting.count_down();
        return;
      }
      ASSERT_EQ(mine.Submit(1), absl::OkStatus());
      const bool waits_in_the_call = !engine.IsInHostMemory();
      if (waits_in_the_call) all_are_waiting.count_down();
      auto state = engine.Finish({.samples = 1}, kInfinity, &mine.stream());
      if (waits_in_the_call) {
        EXPECT_FALSE(state.ok());
        (void)mine.stream().Synchronize();
        EXPECT_THAT(mine.weights(), Each(6));
        EXPECT_EQ(engine.step(), 1u);
        return;
      }
      ASSERT_TRUE(state.ok()) << state.status();
      all_are_waiting.count_down();
      // It may be launched once the verdict is known, and must then do nothing.
      PendingVerdict pending(*state);
      const auto* const verdict =
          reinterpret_cast<const VerdictScalars*>(job.Reach(pending.scalars()));
      job.Enqueue(mine.stream(), [&enqueued, verdict] {
        if (MayUpdate(*verdict)) ++enqueued;
      });
      EXPECT_FALSE(pending.Wait().ok());
      EXPECT_FALSE(mine.stream().Synchronize().ok());
      EXPECT_THAT(mine.weights(), Each(6));
      EXPECT_EQ(engine.step(), 1u);
    });
    coordinator.join();
    EXPECT_EQ(enqueued, 0);
  }
}

// With weights, two uses of a parameter, and buckets of their own.
TEST_P(BackendTest, GradientsSubmittedTogetherAreAsThoseSubmittedApart) {
  std::vector<std::vector<float>> reduced[2];
  for (const bool together : {false, true}) {
    Renew(1);
    BackendJob job(backend(),
                   {.parameters = kThree,
                    .policy = {.first_bytes_max = 8, .bytes_max = 24}});
    job.Run([&](int rank, Engine& engine) {
      const auto stream = job.MakeStream(rank);
      engine.SetMicroBatchWeight(0.3);
      std::vector<ArenaBuffer> buffers;
      std::vector<Engine::Buffer> all;
      for (const int p : {1, 2, 0}) {
        const size_t count = engine.View(p)->size() / sizeof(float);
        std::vector<float> values(count);
        for (size_t i = 0; i < count; ++i) {
          values[i] = 0.1f * static_cast<float>(p + 3 * rank + 1) +
                      static_cast<float>(i);
        }
        buffers.push_back(job.Buffer(rank, values));
        all.push_back({p, buffers.back().data(), buffers.back().bytes()});
      }
      if (together) {
        ASSERT_EQ(engine.SubmitAll(all, *stream), absl::OkStatus());
      }
      for (size_t i = 0; i < all.size() && !together; ++i) {
        ASSERT_EQ(engine.Submit(all[i].parameter, all[i].gradient, all[i].bytes,
                                stream.get()),
                  absl::OkStatus());
      }
      auto state = engine.Finish({.samples = 1}, kInfinity, stream.get());
      ASSERT_TRUE(state.ok()) << state.status();
      ASSERT_TRUE(PendingVerdict(*state).Wait().ok());
      ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
      if (rank != 0) return;
      for (int p = 0; p < 3; ++p) reduced[together].push_back(job.Get(0, p));
    });
  }
  EXPECT_THAT(reduced[1], testing::SizeIs(3));
  EXPECT_EQ(reduced[0], reduced[1]);
}

TEST_P(BackendTest, AnErrorEndsACallThatSubmitsSeveral) {
  BackendJob job(backend(), {.world = 1, .parameters = kThree});
  Engine& engine = job.engine(0);
  const auto stream = job.MakeStream(0);
  const ArenaBuffer three = job.Buffer(0, {1, 2, 3});
  const auto of = [&](int p) {
    return Engine::Buffer{p, three.data(), three.bytes()};
  };
  // The second parameter has another size; the first is submitted, the third
  // is not.
  const std::vector<Engine::Buffer> wrong = {of(0), of(1), of(2)};
  EXPECT_TRUE(absl::IsInvalidArgument(engine.SubmitAll(wrong, *stream)));
  const std::vector<Engine::Buffer> unknown = {of(7)};
  EXPECT_TRUE(absl::IsInvalidArgument(engine.SubmitAll(unknown, *stream)));
  EXPECT_EQ(engine.SubmitAll({}, *stream), absl::OkStatus());
  auto state = engine.Finish({.samples = 1}, kInfinity, stream.get());
  ASSERT_TRUE(state.ok()) << state.status();
  const auto verdict = PendingVerdict(*state).Wait();
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
  EXPECT_THAT(verdict->contributed, testing::ElementsAre(true, false, false));
  EXPECT_THAT(job.Get(0, 0), testing::ElementsAre(1, 2, 3));
}

// An abort at any time: a rank has applied exactly the steps that it reports as
// passed, and ranks differ by at most one step.
TEST_P(BackendTest, AnEndAtAnyMomentAppliesWhatItReports) {
  for (uint64_t seed = 1; seed <= (kUnderThreadSanitizer ? 8 : 20); ++seed) {
    Renew(seed);
    BackendJob job(backend(), {.parameters = kThree});
    std::mt19937_64 random(seed);
    const uint64_t end = random() % 4;
    const uint64_t turns = random() % 40;
    std::vector<protocol::EpochReport> reports(2);
    std::latch near_the_end(2);
    std::thread coordinator([&] {
      near_the_end.wait();
      for (uint64_t i = 0; i < turns; ++i) std::this_thread::yield();
      job.AbortAll(absl::AbortedError("over"));
    });
    job.Run([&](int rank, Engine& engine) {
      StreamRank mine(&job, rank);
      mine.Fetch();
      for (uint64_t step = 0;; ++step) {
        if (step == end) near_the_end.count_down();
        if (!mine.Submit(step).ok()) break;
        auto pending = mine.FinishAndUpdate();
        if (!pending.ok()) break;
        if (!pending->Wait().ok()) break;
      }
      (void)mine.stream().Synchronize();
      reports[rank] = *engine.Report();
      float sum = 0;
      for (uint64_t s = 0; s < reports[rank].position.step; ++s) {
        sum += static_cast<float>(3 * (s + 1));
      }
      EXPECT_THAT(mine.weights(), Each(sum)) << "seed " << seed;
    });
    coordinator.join();
    if (job.RollForwardWhoIsBehind(reports)) {
      const uint64_t last =
          std::min(reports[0].position.step, reports[1].position.step);
      const int behind = reports[0].position.step == last ? 0 : 1;
      EXPECT_THAT(job.Get(behind, 0), Each(3.0f * (last + 1)));
    }
    if (HasFailure()) {
      ADD_FAILURE() << "seed " << seed;
      break;
    }
  }
}

TEST_P(BackendTest, AStreamOfAnotherKindIsRefused) {
  class Foreign : public Stream {
    Event Record() override { return {}; }
    void WaitFor(const Event&) override {}
    absl::Status Synchronize() override { return absl::OkStatus(); }
  } stream;
  BackendJob job(backend(), {.world = 1, .parameters = kThree});
  EXPECT_EQ(job.engine(0).Submit(0, nullptr, 0, &stream).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(FinishBlocking(job.engine(0)).ok());
}

}  // namespace
}  // namespace lockstep::gradient
