// Means over NCCL: a bucket whose norm is computed behind its transfer is
// multiplied in the norm's pass, with the bits of two passes.

#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/transport/nccl/cuda_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cast_scale.h"
#include "tests/client/gradient/backend_job.h"
#include "tests/support/case_name.h"
#include "tests/support/forwarding_communicator.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::gradient {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using transport::nccl::CudaStream;

// Passes over buckets, of all ranks.
struct Passes {
  std::atomic<int> scale{0};
  std::atomic<int> check{0};
  std::atomic<int> both{0};
};

class CountsPasses final : public fake::ForwardingKernels {
 public:
  CountsPasses(std::shared_ptr<KernelApi> inner, Passes* passes)
      : ForwardingKernels(std::move(inner)), passes_(*passes) {}

  Result CastScale(const void* src, DType src_dtype, double factor, void* dst,
                   DType dst_dtype, size_t count,
                   StreamHandle stream) override {
    ++passes_.scale;
    return inner_->CastScale(src, src_dtype, factor, dst, dst_dtype, count,
                             stream);
  }
  Result AddFiniteCheck(const void* data, DType dtype, Ranges ranges,
                        double inverse_scale, void* scratch,
                        kernels::FiniteCheck* total,
                        StreamHandle stream) override {
    ++passes_.check;
    return inner_->AddFiniteCheck(data, dtype, ranges, inverse_scale, scratch,
                                  total, stream);
  }
  Result ScaleAndCheck(void* data, DType dtype, double factor,
                       const kernels::ElementRange& scaled, Ranges checked,
                       void* scratch, kernels::FiniteCheck* total,
                       StreamHandle stream) override {
    ++passes_.both;
    return inner_->ScaleAndCheck(data, dtype, factor, scaled, checked, scratch,
                                 total, stream);
  }

 private:
  Passes& passes_;
};

// A communicator that does not say that its means have a pass of their own, so
// that they keep it.
class ScalesItself final : public ForwardingCommunicator {
 public:
  explicit ScalesItself(std::unique_ptr<Communicator> inner)
      : ForwardingCommunicator(std::move(inner)) {}
  bool ScalesInOwnPass() const override { return false; }
};

struct MeanCase {
  std::string name;
  DType dtype = DType::kF32;
  int world = 2;
  SyncMode sync = SyncMode::kStatic;
  BucketPolicy policy = {};
};

// What a step leaves on one rank.
struct StepResult {
  std::vector<std::string> gradients;  // the bytes of each view
  double global_norm = 0;
  int64_t nonfinite = 0;
  std::vector<bool> contributed;
  bool operator==(const StepResult&) const = default;
};

class MeanTest : public testing::TestWithParam<MeanCase> {
 protected:
  // Odd sizes, in two buckets.
  static std::vector<Parameter> Parameters() {
    std::vector<Parameter> parameters;
    for (const int64_t count : {70, 3, 4097, 9001}) {
      parameters.push_back({.name = "p" + std::to_string(parameters.size()),
                            .shape = {count},
                            .dtype = GetParam().dtype,
                            .op = ReduceOp::kMean});
    }
    return parameters;
  }

  // Gradients of rank `rank`, in step 1 with an infinity, a NaN and the largest
  // number.
  static std::string Gradient(int rank, int p, int step, size_t count) {
    std::mt19937_64 random(1000 * rank + 10 * p + step);
    std::vector<double> values(count);
    for (double& value : values) {
      value = static_cast<double>(static_cast<int64_t>(random())) * 0x1p-63;
    }
    if (step == 1 && rank == 0) {
      values[count - 1] = std::numeric_limits<double>::infinity();
      values[count / 2] = std::numeric_limits<double>::quiet_NaN();
      values[0] = 65000;
    }
    std::string bytes(count * SizeOf(GetParam().dtype), '\0');
    kernels::CastScale(values.data(), DType::kF64, 1, bytes.data(),
                       GetParam().dtype, count);
    return bytes;
  }

  // Two steps of a job; `keeps_pass(rank)`: with means in a pass of their own.
  std::vector<StepResult> Train(
      const std::function<bool(int rank)>& keeps_pass) {
    FakeGpuBackend backend(1, [this](int, transport::nccl::Tables* tables) {
      tables->kernels = std::make_shared<CountsPasses>(tables->kernels, &made_);
    });
    const MeanCase& given = GetParam();
    BackendJob job(
        &backend,
        {.world = given.world,
         .parameters = Parameters(),
         .policy = given.policy,
         .sync = given.sync,
         .wrap = [&](int rank, const std::string&,
                     std::unique_ptr<Communicator> communicator)
             -> std::unique_ptr<Communicator> {
           if (!keeps_pass(rank)) return communicator;
           return std::make_unique<ScalesItself>(std::move(communicator));
         }});
    buckets_ = static_cast<int>(job.plan().buckets.size());
    made_.scale = made_.check = made_.both = 0;  // without the warm-up
    std::vector<StepResult> results(2 * given.world);
    for (int step = 0; step < 2; ++step) {
      job.Run([&](int rank, Engine& engine) {
        results[step * given.world + rank] = Step(job, rank, engine, step);
      });
    }
    EXPECT_THAT(backend.violations(), IsEmpty());
    return results;
  }

  StepResult Step(BackendJob& job, int rank, Engine& engine, int step) {
    StepResult result;
    if (GetParam().sync == SyncMode::kReduceScatter) Gather(engine);
    for (int p = 3; p >= 0; --p) {
      const absl::Span<std::byte> view = *engine.View(p);
      const std::string bytes =
          Gradient(rank, p, step, view.size() / SizeOf(GetParam().dtype));
      std::memcpy(job.Reach(view.data()), bytes.data(), bytes.size());
      EXPECT_TRUE(engine.Submit(p, nullptr, 0, nullptr).ok());
    }
    const auto verdict = FinishBlocking(engine);
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    if (!verdict.ok()) return result;
    result.global_norm = verdict->global_norm;
    result.nonfinite = verdict->nonfinite;
    result.contributed = verdict->contributed;
    for (int p = 0; p < 4; ++p) {
      result.gradients.push_back(Reduced(job, engine, p));
    }
    return result;
  }

  static void Gather(Engine& engine) {
    EXPECT_TRUE(engine.GatherParameters(nullptr).ok());
    for (int p = 0; p < 4; ++p) {
      EXPECT_TRUE(engine.AwaitParameter(p, nullptr).ok());
    }
  }

  // The bytes of the elements whose mean the rank gets.
  static std::string Reduced(BackendJob& job, Engine& engine, int p) {
    const absl::Span<std::byte> view = *engine.View(p);
    const std::string all(reinterpret_cast<char*>(job.Reach(view.data())),
                          view.size());
    if (GetParam().sync != SyncMode::kReduceScatter) return all;
    const size_t size = SizeOf(GetParam().dtype);
    const plan::Slice slice = engine.SliceOf(p);
    return all.substr(slice.offset * size, slice.count * size);
  }

  Passes made_;
  int buckets_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Of, MeanTest,
    testing::Values(
        MeanCase{.name = "f16", .dtype = DType::kF16, .world = 3},
        MeanCase{.name = "bf16", .dtype = DType::kBF16, .world = 3},
        MeanCase{.name = "f32", .world = 3},
        MeanCase{.name = "f64", .dtype = DType::kF64, .world = 3},
        MeanCase{.name = "one rank", .world = 1},
        MeanCase{.name = "several buckets",
                 .world = 3,
                 .policy = {.first_bytes_max = 20'000, .bytes_max = 20'000}},
        MeanCase{
            .name = "slices", .world = 3, .sync = SyncMode::kReduceScatter},
        MeanCase{.name = "slices of f16",
                 .dtype = DType::kF16,
                 .world = 3,
                 .sync = SyncMode::kReduceScatter}),
    [](const auto& info) { return CaseName(info.param.name); });

TEST_P(MeanTest, HasTheBitsOfTwoPassesInOne) {
  const auto all = [](int) { return true; };
  const auto none = [](int) { return false; };
  const int steps = 2;
  const std::vector<StepResult> want = Train(all);
  const int of_ranks = steps * GetParam().world * buckets_;
  const bool has_slices = GetParam().sync == SyncMode::kReduceScatter;
  // The flags of slices are reduced alone, as means.
  const int of_flags = has_slices ? of_ranks : 0;
  EXPECT_EQ(made_.scale, of_ranks + of_flags);
  EXPECT_EQ(made_.check, of_ranks);
  EXPECT_EQ(made_.both, 0);

  const std::vector<StepResult> got = Train(none);
  EXPECT_EQ(made_.both, of_ranks);
  EXPECT_EQ(made_.scale, of_flags);
  EXPECT_EQ(made_.check, 0);

  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(got[i] == want[i])
        << "rank " << i % GetParam().world << ", step " << i / GetParam().world
        << ": norm " << got[i].global_norm << ", not " << want[i].global_norm;
  }
  EXPECT_EQ(want[0].nonfinite, 0);
  EXPECT_EQ(want[GetParam().world].nonfinite, 4 * 2);
}

// What is sent is a sum either way, so each rank decides for itself.
TEST_P(MeanTest, RanksNeedNotDoTheSame) {
  const std::vector<StepResult> want = Train([](int) { return true; });
  const std::vector<StepResult> got = Train([](int rank) { return rank == 0; });
  EXPECT_TRUE(got == want);
}

// --- Other buckets ----------------------------------------------------------

// Trains one step, and counts the passes over its bucket.
void CountOneStep(BackendJob::Options options, Passes* passes) {
  FakeGpuBackend backend(1, [&](int, transport::nccl::Tables* tables) {
    tables->kernels = std::make_shared<CountsPasses>(tables->kernels, passes);
  });
  BackendJob job(&backend, options);
  passes->scale = passes->check = passes->both = 0;
  job.Run([&](int rank, Engine& engine) {
    job.Put(rank, 0, std::vector<float>(3, static_cast<float>(rank + 1)));
    ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
    const auto verdict = FinishBlocking(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
  });
  EXPECT_THAT(backend.violations(), IsEmpty());
}

BackendJob::Options OfOneParameter(ReduceOp op) {
  return {.parameters = {{.name = "w", .shape = {3}, .op = op}}};
}

TEST(OtherPassesTest, ASumIsCheckedOnly) {
  Passes passes;
  CountOneStep(OfOneParameter(ReduceOp::kSum), &passes);
  EXPECT_EQ(passes.scale, 0);
  EXPECT_EQ(passes.both, 0);
  EXPECT_GT(passes.check, 0);
}

// All of the parameter is in the slice of one rank; the other multiplies only.
TEST(OtherPassesTest, ARankWithoutANormMultipliesWithTheTransfer) {
  Passes passes;
  CountOneStep(OfOneParameter(ReduceOp::kMean), &passes);
  EXPECT_EQ(passes.both, 1);
  EXPECT_EQ(passes.scale, 1);
  EXPECT_EQ(passes.check, 0);
}

// The norm is of the gradients that were cast back.
TEST(OtherPassesTest, AMeanOfHalvesOnTheWireIsMultipliedBeforeItIsCastBack) {
  BackendJob::Options options = OfOneParameter(ReduceOp::kMean);
  options.policy.wire_dtype = DType::kBF16;
  Passes passes;
  CountOneStep(options, &passes);
  EXPECT_EQ(passes.both, 0);
  EXPECT_EQ(passes.scale, 2 * 3);  // a cast, the mean and a cast, on two ranks
  EXPECT_EQ(passes.check, 1);
}

// --- The update -------------------------------------------------------------

// The pass over the mean begins once it is opened.
class OpensLate final : public fake::ForwardingKernels {
 public:
  OpensLate(std::shared_ptr<KernelApi> inner, fake::FakeGpus* gpus,
            const std::atomic<bool>* open)
      : ForwardingKernels(std::move(inner)), gpus_(*gpus), open_(*open) {}

  Result ScaleAndCheck(void* data, DType dtype, double factor,
                       const kernels::ElementRange& scaled, Ranges checked,
                       void* scratch, kernels::FiniteCheck* total,
                       StreamHandle stream) override {
    gpus_.StallUntil(stream, [&open = open_] { return open.load(); });
    return inner_->ScaleAndCheck(data, dtype, factor, scaled, checked, scratch,
                                 total, stream);
  }

 private:
  fake::FakeGpus& gpus_;
  const std::atomic<bool>& open_;
};

TEST(UpdateOfMeansTest, WaitsForThePassThatMakesTheMean) {
  std::atomic<bool> open{true};  // for the warm-up
  FakeGpuBackend backend(1, [&](int, transport::nccl::Tables* tables) {
    tables->kernels =
        std::make_shared<OpensLate>(tables->kernels, &backend.gpus(), &open);
  });
  BackendJob job(&backend, OfOneParameter(ReduceOp::kMean));
  open = false;
  std::atomic<int> updates{0};
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<ArenaBuffer> gradients, weights;
  for (int rank = 0; rank < job.world(); ++rank) {
    streams.push_back(job.MakeStream(rank));
    gradients.push_back(job.Buffer(rank, std::vector<float>(3, rank + 1.0f)));
    weights.push_back(job.Buffer(rank, {0, 0, 0}));
  }
  job.Run([&](int rank, Engine& engine) {
    const float* const mean = job.Floats(engine.View(0)->data());
    float* const sums = job.Floats(weights[rank].data());
    Stream& stream = *streams[rank];
    const ArenaBuffer& gradient = gradients[rank];
    ASSERT_TRUE(
        engine.Submit(0, gradient.data(), gradient.bytes(), &stream).ok());
    const auto pending = engine.Finish(
        {.samples = 1}, std::numeric_limits<double>::infinity(), &stream);
    ASSERT_TRUE(pending.ok()) << pending.status();
    const auto* const scalars = reinterpret_cast<const VerdictScalars*>(
        job.Reach((*pending)->scalars()));
    job.Enqueue(stream, [=, &updates] {
      ++updates;
      if (!MayUpdate(*scalars)) return;
      for (int i = 0; i < 3; ++i) sums[i] += mean[i];
    });
    const std::unique_ptr<Stream> other = job.MakeStream(rank);
    for (int turn = 0; turn < 200; ++turn) {  // lets the device run
      EXPECT_TRUE(other->Synchronize().ok());
    }
  });
  EXPECT_EQ(updates, 0);
  open = true;
  for (int rank = 0; rank < job.world(); ++rank) {
    ASSERT_TRUE(streams[rank]->Synchronize().ok());
    EXPECT_THAT(job.Get(weights[rank].data(), 3), Each(1.5f));
  }
  EXPECT_EQ(updates, 2);
  EXPECT_THAT(backend.violations(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::gradient
