// Ranks that update slices of the parameters, in host memory and on fake GPUs.

#include <cmath>
#include <latch>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/backend_job.h"

namespace lockstep::gradient {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Parameters whose counts no number of ranks divides, in two buckets.
const std::vector<Parameter> kSliced = {
    {.name = "w", .shape = {70}, .op = ReduceOp::kSum},
    {.name = "b", .shape = {3}, .op = ReduceOp::kSum},
    {.name = "v", .shape = {129}, .op = ReduceOp::kSum}};
constexpr int kSlicedCount = 3;
constexpr BucketPolicy kTwoBuckets{.first_bytes_max = 600, .bytes_max = 4096};

class ShardedTest : public testing::TestWithParam<BackendKind> {
 protected:
  ~ShardedTest() override { EXPECT_THAT(backend_->violations(), IsEmpty()); }

  BackendJob::Options Options(int world, BucketPolicy policy = kTwoBuckets) {
    return {.world = world,
            .parameters = kSliced,
            .policy = policy,
            .sync = SyncMode::kReduceScatter};
  }
  MemoryBackend* backend() { return backend_.get(); }

 private:
  std::unique_ptr<MemoryBackend> backend_ = GetParam().make(1);
};

INSTANTIATE_TEST_SUITE_P(On, ShardedTest, testing::Values(kHost, kFakeGpus),
                         [](const testing::TestParamInfo<BackendKind>& info) {
                           return std::string(info.param.name);
                         });

size_t SizeOfParameter(int p) {
  return static_cast<size_t>(ElementsOf(kSliced[p]));
}

std::vector<float> Value(BackendJob& job, int rank, int p) {
  return job.Get(job.engine(rank).Value(p).data(), SizeOfParameter(p));
}

// Element i of the gradient of parameter p, before scaling by rank and step.
float Pattern(int p, size_t i) {
  return static_cast<float>(p + 1) + static_cast<float>(i % 7);
}

absl::Status GatherAll(Engine& engine) {
  absl::Status status = engine.GatherParameters(nullptr);
  for (int p = 0; status.ok() && p < kSlicedCount; ++p) {
    status = engine.AwaitParameter(p, nullptr);
  }
  return status;
}

void SubmitAll(BackendJob& job, int rank, float scale) {
  for (int p = kSlicedCount - 1; p >= 0; --p) {
    std::vector<float> gradient(SizeOfParameter(p));
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = scale * Pattern(p, i);
    }
    job.Put(rank, p, gradient);
    ASSERT_TRUE(job.engine(rank).Submit(p, nullptr, 0, nullptr).ok());
  }
}

// Subtracts the gradient from this rank's slices.
void Update(BackendJob& job, int rank) {
  Engine& engine = job.engine(rank);
  for (int p = 0; p < kSlicedCount; ++p) {
    const plan::Slice slice = engine.SliceOf(p);
    std::vector<float> value = Value(job, rank, p);
    const std::vector<float> gradient = job.Get(rank, p);
    const auto begin = value.begin() + slice.offset;
    std::vector<float> mine(begin, begin + slice.count);
    for (int64_t i = 0; i < slice.count; ++i) {
      mine[i] -= gradient[slice.offset + i];
    }
    auto* const at = reinterpret_cast<float*>(engine.Value(p).data());
    job.Put(at + slice.offset, mine);
  }
}

void ExpectValues(BackendJob& job, int rank, float scale) {
  for (int p = 0; p < kSlicedCount; ++p) {
    const std::vector<float> value = Value(job, rank, p);
    for (size_t i = 0; i < value.size(); ++i) {
      ASSERT_EQ(value[i], scale * Pattern(p, i))
          << "element " << i << " of " << kSliced[p].name << " on rank "
          << rank;
    }
  }
}

TEST_P(ShardedTest, SlicesMakeUpEveryParameter) {
  for (const int world : {1, 2, 3, 4}) {
    BackendJob job(backend(), Options(world));
    for (int p = 0; p < kSlicedCount; ++p) {
      std::vector<int> holders(SizeOfParameter(p));
      for (int rank = 0; rank < world; ++rank) {
        const plan::Slice slice = job.engine(rank).SliceOf(p);
        for (int64_t i = 0; i < slice.count; ++i) ++holders[slice.offset + i];
      }
      EXPECT_THAT(holders, Each(1)) << kSliced[p].name << ", world " << world;
    }
  }
}

TEST_P(ShardedTest, TrainsAsOneProcessWould) {
  for (const int world : {1, 2, 3}) {
    BackendJob job(backend(), Options(world));
    const float ranks = static_cast<float>(world * (world + 1) / 2);
    job.Run([&](int rank, Engine& engine) {
      float trained = 0;
      for (int step = 0; step < 4; ++step) {
        ASSERT_TRUE(GatherAll(engine).ok());
        ExpectValues(job, rank, trained);
        SubmitAll(job, rank, static_cast<float>((rank + 1) * (step + 1)));
        const auto verdict = FinishBlocking(engine);
        ASSERT_TRUE(verdict.ok()) << verdict.status();
        EXPECT_THAT(verdict->contributed, Each(true));
        double squares = 0;
        for (int p = 0; p < kSlicedCount; ++p) {
          for (size_t i = 0; i < SizeOfParameter(p); ++i) {
            squares += std::pow(ranks * (step + 1) * Pattern(p, i), 2);
          }
        }
        EXPECT_DOUBLE_EQ(verdict->global_norm, std::sqrt(squares));
        Update(job, rank);
        trained -= ranks * static_cast<float>(step + 1);
      }
      ASSERT_TRUE(GatherAll(engine).ok());
      ExpectValues(job, rank, trained);
    });
  }
}

// Each rank's earlier values are overwritten with the slice owner's values.
TEST_P(ShardedTest, TheFirstGatherMakesRanksAlike) {
  BackendJob job(backend(), Options(3));
  job.Run([&](int rank, Engine& engine) {
    for (int p = 0; p < kSlicedCount; ++p) {
      const float value = static_cast<float>(rank);
      job.Put(engine.Value(p).data(),
              std::vector<float>(SizeOfParameter(p), value));
    }
    ASSERT_TRUE(GatherAll(engine).ok());
  });
  for (int p = 0; p < kSlicedCount; ++p) {
    std::vector<float> expected(SizeOfParameter(p));
    for (int rank = 0; rank < 3; ++rank) {
      const plan::Slice slice = job.engine(rank).SliceOf(p);
      std::fill_n(expected.begin() + slice.offset, slice.count,
                  static_cast<float>(rank));
    }
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(Value(job, rank, p), expected);
    }
  }
}

TEST_P(ShardedTest, FlagsAndWhatIsNotFiniteAreTheWorlds) {
  BackendJob job(backend(), Options(2));
  job.Run([&](int rank, Engine& engine) {
    ASSERT_TRUE(GatherAll(engine).ok());
    std::vector<float> gradient(SizeOfParameter(0), 1);
    // One in each rank's slice, if both ranks have a part of it.
    gradient.front() = gradient.back() = rank == 1 ? NAN : 1;
    job.Put(rank, 0, gradient);
    ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
    const auto verdict = FinishBlocking(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(verdict->nonfinite, 2);
    EXPECT_THAT(verdict->contributed, ElementsAre(true, false, false));
    EXPECT_DOUBLE_EQ(verdict->global_norm, std::sqrt(4.0 * 68));
  });
}

TEST_P(ShardedTest, ScattersHalves) {
  BucketPolicy policy = kTwoBuckets;
  policy.wire_dtype = DType::kBF16;
  BackendJob job(backend(), Options(2, policy));
  job.Run([&](int rank, Engine& engine) {
    ASSERT_TRUE(GatherAll(engine).ok());
    job.Put(rank, 2, std::vector<float>(SizeOfParameter(2), 257));
    ASSERT_TRUE(engine.Submit(2, nullptr, 0, nullptr).ok());
    ASSERT_TRUE(FinishBlocking(engine).ok());
    Update(job, rank);
    ASSERT_TRUE(GatherAll(engine).ok());
    EXPECT_THAT(Value(job, rank, 2), Each(-512));
    EXPECT_THAT(Value(job, rank, 0), Each(0));
  });
}

TEST_P(ShardedTest, RanksWithoutDataGoOnGathering) {
  BackendJob::Options options = Options(2);
  options.uneven = Uneven::kJoin;
  BackendJob job(backend(), options);
  job.Run([&](int rank, Engine& engine) {
    const int batches = 1 + 2 * rank;
    int steps = 0;
    for (bool last = false; !last; ++steps) {
      ASSERT_TRUE(GatherAll(engine).ok());
      const bool has = steps < batches;
      if (has) SubmitAll(job, rank, 1);
      const auto verdict = FinishBlocking(
          engine,
          {.samples = has ? 1.0 : 0.0, .more_data = steps + 1 < batches});
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      Update(job, rank);
      last = verdict->IsLast();
    }
    EXPECT_EQ(steps, 3);
    ASSERT_TRUE(GatherAll(engine).ok()) << "behind the last step";
    ExpectValues(job, rank, -4);
  });
}

// --- On a stream ------------------------------------------------------------

TEST_P(ShardedTest, StepsInFlightGatherBehindTheirUpdates) {
  BackendJob job(backend(), Options(2));
  job.Run([&](int rank, Engine& engine) {
    constexpr int kSteps = 3;
    const std::unique_ptr<Stream> stream = job.MakeStream(rank);
    std::vector<PendingVerdict> pending;
    std::vector<ArenaBuffer> gradients;
    for (int p = 0; p < kSlicedCount; ++p) {
      std::vector<float> gradient(SizeOfParameter(p));
      for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = Pattern(p, i);
      gradients.push_back(job.Buffer(rank, gradient));
    }
    for (int step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(engine.GatherParameters(stream.get()).ok());
      for (int p = kSlicedCount - 1; p >= 0; --p) {
        ASSERT_TRUE(engine.AwaitParameter(p, stream.get()).ok());
        ASSERT_TRUE(engine
                        .Submit(p, gradients[p].data(), gradients[p].bytes(),
                                stream.get())
                        .ok());
      }
      auto state =
          engine.Finish({.samples = 1}, std::numeric_limits<double>::infinity(),
                        stream.get());
      ASSERT_TRUE(state.ok()) << state.status();
      pending.emplace_back(*state);
      for (int p = 0; p < kSlicedCount; ++p) {
        const plan::Slice slice = engine.SliceOf(p);
        const auto* const gradient =
            reinterpret_cast<const float*>(job.Reach(engine.View(p)->data()));
        auto* const value =
            reinterpret_cast<float*>(job.Reach(engine.Value(p).data()));
        job.Enqueue(*stream, [=] {
          for (int64_t i = slice.offset; i < slice.offset + slice.count; ++i) {
            value[i] -= gradient[i];
          }
        });
      }
    }
    ASSERT_TRUE(engine.GatherParameters(stream.get()).ok());
    for (int p = 0; p < kSlicedCount; ++p) {
      ASSERT_TRUE(engine.AwaitParameter(p, stream.get()).ok());
    }
    EXPECT_TRUE(stream->Synchronize().ok());
    for (PendingVerdict& verdict : pending) EXPECT_TRUE(verdict.Wait().ok());
    ExpectValues(job, rank, -2 * kSteps);
  });
}

// --- Interrupted steps ------------------------------------------------------

// Rank 1 dies while rank 0 gathers: rank 0's own slices are unchanged, and the
// same gather in another epoch gives the expected result.
TEST_P(ShardedTest, AnInterruptedGatherCanBeDoneAgain) {
  std::vector<std::vector<float>> kept(kSlicedCount);
  {
    BackendJob job(backend(), Options(2));
    Engine& engine = job.engine(0);
    for (int p = 0; p < kSlicedCount; ++p) {
      kept[p].assign(SizeOfParameter(p), 5);
      job.Put(engine.Value(p).data(), kept[p]);
    }
    ASSERT_TRUE(engine.GatherParameters(nullptr).ok());
    job.AbortAll(absl::UnavailableError("rank 1 died"));
    EXPECT_EQ(engine.AwaitParameter(0, nullptr).code(),
              absl::StatusCode::kUnavailable);
    for (int p = 0; p < kSlicedCount; ++p) {
      // The device may still write to the slices of others.
      const plan::Slice slice = engine.SliceOf(p);
      const std::vector<float> mine = job.Get(
          engine.Value(p).data() + slice.offset * sizeof(float), slice.count);
      EXPECT_THAT(mine, testing::Each(5.0f));
      kept[p].assign(SizeOfParameter(p), 0);
      std::copy(mine.begin(), mine.end(), kept[p].begin() + slice.offset);
    }
  }
  BackendJob job(backend(), Options(2));
  job.Run([&](int rank, Engine& engine) {
    for (int p = 0; p < kSlicedCount; ++p) {
      const std::vector<float> sevens(SizeOfParameter(p), 7);
      job.Put(engine.Value(p).data(), rank == 0 ? kept[p] : sevens);
    }
    ASSERT_TRUE(GatherAll(engine).ok());
    for (int p = 0; p < kSlicedCount; ++p) {
      const std::vector<float> value = Value(job, rank, p);
      const plan::Slice first = job.engine(0).SliceOf(p);
      for (int64_t i = 0; i < static_cast<int64_t>(value.size()); ++i) {
        const bool mine = i >= first.offset && i < first.offset + first.count;
        ASSERT_EQ(value[i], mine ? 5 : 7);
      }
    }
  });
}

TEST_P(ShardedTest, AStepThatIsGivenUpLeavesTheParameters) {
  BackendJob job(backend(), Options(2));
  job.Run([&](int, Engine& engine) { ASSERT_TRUE(GatherAll(engine).ok()); });
  SubmitAll(job, 0, 1);  // rank 1 dies here
  job.AbortAll(absl::UnavailableError("rank 1 died"));
  EXPECT_FALSE(FinishBlocking(job.engine(0)).ok());
  for (int rank = 0; rank < 2; ++rank) ExpectValues(job, rank, 0);
}

// --- Wrong calls ------------------------------------------------------------

TEST_P(ShardedTest, CallsInTheWrongOrderAreRefusedAndChangeNothing) {
  BackendJob job(backend(), Options(1));
  Engine& engine = job.engine(0);
  const auto refused = [](const absl::Status& status, const char* why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr(why));
  };
  refused(engine.AwaitParameter(0, nullptr), "never called");
  refused(engine.Submit(0, nullptr, 0, nullptr), "GatherParameters");
  refused(FinishBlocking(engine).status(), "GatherParameters");
  ASSERT_TRUE(GatherAll(engine).ok());
  refused(engine.GatherParameters(nullptr), "before");
  EXPECT_EQ(engine.AwaitParameter(kSlicedCount, nullptr).code(),
            absl::StatusCode::kInvalidArgument);
  SubmitAll(job, 0, 1);
  EXPECT_TRUE(FinishBlocking(engine).ok());
  refused(engine.Submit(0, nullptr, 0, nullptr), "GatherParameters");
  EXPECT_TRUE(GatherAll(engine).ok());
}

TEST_P(ShardedTest, OtherModesKnowNoSlices) {
  BackendJob job(backend(), {.world = 1, .parameters = kSliced});
  for (const absl::Status& refused :
       {job.engine(0).GatherParameters(nullptr),
        job.engine(0).AwaitParameter(0, nullptr)}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.message(), HasSubstr("reduce_scatter"));
  }
  EXPECT_EQ(job.engine(0).SliceOf(2), (plan::Slice{0, 129}));
}

}  // namespace
}  // namespace lockstep::gradient
