// Bit-equal sums on 1, 2, 4 and 8 ranks, over every transport.

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "client/transport/gloo/gloo.h"
#include "client/transport/shm/shm.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cast_scale.h"
#include "kernels/reduce_pairs.h"
#include "tests/client/gradient/backend_job.h"
#include "tests/support/sanitizers.h"

namespace lockstep::gradient {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kLeaves = 8;

// Host memory, with a transport for each rank, as in separate processes.
class SeparateMemoryBackend final : public MemoryBackend {
 public:
  using Make = std::function<std::unique_ptr<transport::Transport>()>;
  explicit SeparateMemoryBackend(Make make) : world_(std::move(make)) {}

  conformance::World& world() override { return world_; }
  std::byte* Reach(std::byte* at) override { return at; }
  std::vector<std::string> violations() override { return {}; }

 private:
  class World final : public conformance::World {
   public:
    explicit World(Make make) : make_(std::move(make)) {}
    transport::Transport& at(int rank) override {
      auto& transport = transports_[rank];
      if (transport == nullptr) transport = make_();
      return *transport;
    }

   private:
    const Make make_;
    std::map<int, std::unique_ptr<transport::Transport>> transports_;
  };
  World world_;
};

const BackendKind kShm = {"Shm",
                          [](uint64_t) -> std::unique_ptr<MemoryBackend> {
                            return std::make_unique<SeparateMemoryBackend>(
                                [] { return transport::MakeShmTransport(); });
                          }};
const BackendKind kGloo = {
    "Gloo", [](uint64_t) -> std::unique_ptr<MemoryBackend> {
      return std::make_unique<SeparateMemoryBackend>(
          [] { return *transport::MakeGlooTransport({}); });
    }};

// All dtypes, both ops, counts that no number of ranks divides; one parameter
// has a norm in several parts.
const std::vector<Parameter> kMixed = {
    {.name = "w", .shape = {131}, .op = ReduceOp::kMean},
    {.name = "b", .shape = {3}, .op = ReduceOp::kSum},
    {.name = "h", .shape = {70}, .dtype = DType::kBF16, .op = ReduceOp::kMean},
    {.name = "x", .shape = {33}, .dtype = DType::kF16, .op = ReduceOp::kSum},
    {.name = "d", .shape = {17}, .dtype = DType::kF64, .op = ReduceOp::kSum},
    {.name = "l", .shape = {20'001}, .op = ReduceOp::kMean}};

using Bytes = std::vector<std::byte>;

size_t BytesOf(int p) {
  return ElementsOf(kMixed[p]) * SizeOf(kMixed[p].dtype);
}

// The gradient of parameter p in a leaf: f32 rounded to its dtype, with
// magnitudes so different that the order of a sum matters.
Bytes LeafOf(int p, int leaf, int step) {
  std::mt19937_64 random(p * 1000 + leaf * 10 + step);
  std::vector<float> values(ElementsOf(kMixed[p]));
  for (float& value : values) {
    const int exponent = static_cast<int>(random() % 12) - 6;
    value = std::ldexp(static_cast<float>(random() % 20001) - 10000, exponent) /
            4096;
  }
  Bytes bytes(BytesOf(p));
  kernels::CastScale(values.data(), DType::kF32, 1, bytes.data(),
                     kMixed[p].dtype, values.size());
  return bytes;
}

// Every rank's state after a step: the gradients, and the norm's bits.
struct Outcome {
  std::vector<Bytes> gradients;
  double norm = 0;
  bool operator==(const Outcome&) const = default;
};

class ReproducibleTest : public testing::TestWithParam<BackendKind> {
 protected:
  static BackendJob::Options Options(int world, int leaves = kLeaves) {
    return {.world = world,
            .parameters = kMixed,
            .policy = {.first_bytes_max = 600, .bytes_max = 4096},
            .leaves = leaves};
  }

  // Selects the leaves that are submitted; the others contribute nothing.
  using Submits = std::function<bool(int p, int leaf)>;
  // Selects those that are submitted from buffers, the others from views.
  using Buffers = std::function<bool(int p, int nth)>;
  static bool None(int, int) { return false; }

  // Trains some steps on `world` ranks, whose results must agree.
  std::vector<Outcome> Train(int world, const Submits& submits,
                             const Buffers& buffers = None) {
    return TrainOn(GetParam(), world, submits, buffers);
  }
  static std::vector<Outcome> TrainOn(const BackendKind& kind, int world,
                                      const Submits& submits,
                                      const Buffers& buffers = None) {
    const std::unique_ptr<MemoryBackend> backend = kind.make(1);
    std::vector<std::vector<Outcome>> by_rank(world);
    {
      BackendJob job(backend.get(), Options(world));
      job.Run([&](int rank, Engine& engine) {
        for (int step = 0; step < 3; ++step) {
          by_rank[rank].push_back(
              Step(job, engine, rank, step, submits, buffers));
        }
      });
    }
    EXPECT_THAT(backend->violations(), IsEmpty());
    EXPECT_THAT(by_rank, Each(by_rank[0])) << world << " ranks";
    return by_rank[0];
  }

 private:
  static void SubmitLeaf(BackendJob& job, Engine& engine, int rank, int p,
                         const Bytes& gradient, bool from_buffer) {
    ArenaBuffer buffer;
    std::byte* at = engine.View(p)->data();
    if (from_buffer) {
      buffer = job.Buffer(rank, std::vector<float>(gradient.size() / 4 + 1));
      at = buffer.data();
    }
    std::memcpy(job.Reach(at), gradient.data(), gradient.size());
    EXPECT_TRUE(
        engine.Submit(p, from_buffer ? at : nullptr, gradient.size(), nullptr)
            .ok());
  }

  static Outcome Step(BackendJob& job, Engine& engine, int rank, int step,
                      const Submits& submits, const Buffers& buffers) {
    const int here = kLeaves / job.world();
    for (int nth = 0; nth < here; ++nth) {
      const int leaf = rank * here + nth;
      engine.ZeroGradients();
      for (int p = static_cast<int>(kMixed.size()) - 1; p >= 0; --p) {
        if (!submits(p, leaf)) continue;
        SubmitLeaf(job, engine, rank, p, LeafOf(p, leaf, step),
                   buffers(p, nth));
      }
    }
    const auto verdict = FinishBlocking(engine);
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    Outcome outcome{.norm = verdict.ok() ? verdict->global_norm : -1};
    for (size_t p = 0; p < kMixed.size(); ++p) {
      const std::byte* at = job.Reach(engine.View(static_cast<int>(p))->data());
      outcome.gradients.emplace_back(at, at + BytesOf(static_cast<int>(p)));
    }
    return outcome;
  }
};

INSTANTIATE_TEST_SUITE_P(On, ReproducibleTest,
                         testing::Values(kHost, kFakeGpus, kShm, kGloo),
                         [](const testing::TestParamInfo<BackendKind>& info) {
                           return std::string(info.param.name);
                         });

std::vector<int> Worlds() {
  return kUnderSanitizer ? std::vector<int>{2, 4} : std::vector<int>{2, 4, 8};
}

TEST_P(ReproducibleTest, AnyNumberOfRanksGivesTheBitsOfOne) {
  const auto all = [](int, int) { return true; };
  const std::vector<Outcome> alone = Train(1, all);
  for (const int world : Worlds()) {
    EXPECT_TRUE(Train(world, all) == alone) << world << " ranks";
  }
}

TEST_P(ReproducibleTest, EveryTransportGivesTheBitsOfThisOne) {
  const auto all = [](int, int) { return true; };
  EXPECT_TRUE(Train(2, all) == TrainOn(kHost, 2, all));
}

// Buffers place the sums elsewhere; ZeroGradients must not clear them there.
TEST_P(ReproducibleTest, LeavesOfBuffersGiveTheBitsOfViews) {
  const auto all = [](int, int) { return true; };
  const auto some = [](int p, int leaf) { return leaf < 3 + p; };
  const auto by_parameter = [](int p, int) { return p % 2 == 1; };
  const auto after_the_first = [](int, int nth) { return nth > 0; };
  for (const Submits& submits : {Submits(all), Submits(some)}) {
    const std::vector<Outcome> views = Train(1, submits);
    for (const int world : {1, 2}) {
      EXPECT_TRUE(Train(world, submits, all) == views) << world;
      EXPECT_TRUE(Train(world, submits, by_parameter) == views) << world;
      EXPECT_TRUE(Train(world, submits, after_the_first) == views) << world;
    }
  }
}

// A missing leaf counts as zeros, wherever it would have been added; a
// parameter that no rank submits is zeros. Only a rank's last leaves can be
// missing, here the job's last.
TEST_P(ReproducibleTest, SoDoLeavesThatAreMissing) {
  const auto some = [](int p, int leaf) { return p != 1 && leaf < 4 + p; };
  const std::vector<Outcome> alone = Train(1, some);
  EXPECT_THAT(alone[0].gradients[1], Each(std::byte{0}));
  for (const int world : Worlds()) {
    EXPECT_TRUE(Train(world, some) == alone) << world << " ranks";
  }
}

TEST_P(ReproducibleTest, TheSumIsTheTreesRoundedOnce) {
  const std::vector<Outcome> outcome = Train(2, [](int, int) { return true; });
  for (size_t p = 0; p < kMixed.size(); ++p) {
    const Parameter& parameter = kMixed[p];
    const bool wide = parameter.dtype == DType::kF64;
    const DType sums = wide ? DType::kF64 : DType::kF32;
    const size_t count = ElementsOf(parameter);
    Bytes rows(kLeaves * count * SizeOf(sums));
    for (int leaf = 0; leaf < kLeaves; ++leaf) {
      const Bytes gradient = LeafOf(static_cast<int>(p), leaf, 0);
      kernels::CastScale(gradient.data(), parameter.dtype, 1,
                         rows.data() + leaf * count * SizeOf(sums), sums,
                         count);
    }
    Bytes expected(BytesOf(static_cast<int>(p)));
    kernels::ReducePairs(rows.data(), kLeaves, sums,
                         parameter.op == ReduceOp::kMean ? 1.0 / kLeaves : 1.0,
                         expected.data(), parameter.dtype, count);
    EXPECT_EQ(outcome[0].gradients[p], expected) << parameter.name;
  }
}

// --- Buffers, and wrong calls -----------------------------------------------

TEST(ReproducibleCallsTest, BuffersAreLeavesTimesTheirWeight) {
  HostMemoryBackend backend;
  for (const int world : {1, 2}) {
    BackendJob job(
        &backend,
        {.world = world,
         .parameters = {{.name = "w", .shape = {2}, .op = ReduceOp::kMean}},
         .leaves = 2});
    job.Run([&](int rank, Engine& engine) {
      engine.SetMicroBatchWeight(0.5);
      for (int leaf = rank * 2 / world; leaf < (rank + 1) * 2 / world; ++leaf) {
        const float value = leaf == 0 ? 8 : 32;
        const ArenaBuffer buffer = job.Buffer(rank, {value, -value});
        ASSERT_TRUE(
            engine.Submit(0, buffer.data(), buffer.bytes(), nullptr).ok());
      }
      ASSERT_TRUE(FinishBlocking(engine).ok());
      EXPECT_THAT(job.Get(rank, 0), ElementsAre(10, -10));
    });
  }
}

TEST(ReproducibleCallsTest, NoLeafIsInAViewThatHoldsASum) {
  HostMemoryBackend backend;
  BackendJob job(&backend,
                 {.world = 1, .parameters = {{.name = "w"}}, .leaves = 2});
  Engine& engine = job.engine(0);
  const ArenaBuffer leaf = job.Buffer(0, {3});
  const auto from_buffer = [&] {
    return engine.Submit(0, leaf.data(), leaf.bytes(), nullptr);
  };
  EXPECT_TRUE(from_buffer().ok());
  const absl::Status refused = engine.Submit(0, nullptr, 0, nullptr);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("w is said to be in its view"));
  EXPECT_TRUE(from_buffer().ok());
  EXPECT_TRUE(FinishBlocking(engine).ok());
  EXPECT_THAT(job.Get(0, 0), ElementsAre(3)) << "a mean";
  // The next step starts afresh.
  EXPECT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
  EXPECT_TRUE(from_buffer().ok());
  EXPECT_TRUE(FinishBlocking(engine).ok());
}

// It is reduced in slices, and afterwards every rank has all slices.
TEST(ReproducibleCallsTest, EveryRankUpdatesAllOfAParameter) {
  HostMemoryBackend backend;
  BackendJob job(
      &backend,
      {.world = 2, .parameters = {{.name = "w", .shape = {100}}}, .leaves = 2});
  job.Run([](int, Engine& engine) {
    EXPECT_EQ(engine.SliceOf(0), (plan::Slice{.offset = 0, .count = 100}));
  });
}

TEST(ReproducibleCallsTest, EachParameterTakesAsManyLeavesAsThereAre) {
  HostMemoryBackend backend;
  BackendJob job(&backend,
                 {.world = 1, .parameters = {{.name = "w"}}, .leaves = 2});
  Engine& engine = job.engine(0);
  EXPECT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
  EXPECT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
  EXPECT_EQ(engine.Submit(0, nullptr, 0, nullptr).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(FinishBlocking(engine).ok());
  const absl::Status no_sync = engine.BeginNoSync();
  EXPECT_EQ(no_sync.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(no_sync.message(), HasSubstr("leaf"));
}

}  // namespace
}  // namespace lockstep::gradient
