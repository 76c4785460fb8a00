// In device memory, a step allocates no memory and creates no CUDA objects, not
// even the first step. An allocation waits for the device, and so for a peer.

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/backend_job.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::gradient {
namespace {

constexpr int64_t kElements = 20000;
constexpr int kSteadySteps = 6;

// Counts the calls that may wait for the device.
class CountsCuda final : public fake::ForwardingCuda {
 public:
  CountsCuda(std::shared_ptr<CudaApi> inner, std::atomic<int>* calls)
      : ForwardingCuda(std::move(inner)), calls_(*calls) {}
  Result Malloc(void** memory, size_t bytes) override {
    ++calls_;
    return inner_->Malloc(memory, bytes);
  }
  Result Free(void* memory) override {
    ++calls_;
    return inner_->Free(memory);
  }
  Result HostAlloc(void** memory, size_t bytes) override {
    ++calls_;
    return inner_->HostAlloc(memory, bytes);
  }
  Result FreeHost(void* memory) override {
    ++calls_;
    return inner_->FreeHost(memory);
  }
  Result MallocAsync(void** memory, size_t bytes,
                     StreamHandle stream) override {
    ++calls_;
    return inner_->MallocAsync(memory, bytes, stream);
  }
  Result StreamCreateWithPriority(StreamHandle* stream, unsigned flags,
                                  int priority) override {
    ++calls_;
    return inner_->StreamCreateWithPriority(stream, flags, priority);
  }

 private:
  std::atomic<int>& calls_;
};

class CountsNccl final : public fake::ForwardingNccl {
 public:
  CountsNccl(std::shared_ptr<NcclApi> inner, std::atomic<int>* calls)
      : ForwardingNccl(std::move(inner)), calls_(*calls) {}
  Result MemAlloc(void** memory, size_t bytes) override {
    ++calls_;
    return inner_->MemAlloc(memory, bytes);
  }
  Result MemFree(void* memory) override {
    ++calls_;
    return inner_->MemFree(memory);
  }
  Result CommInitRankConfig(Comm* comm, int size, const Id& id, int rank,
                            Config* config) override {
    ++calls_;
    return inner_->CommInitRankConfig(comm, size, id, rank, config);
  }
  Result CommWindowRegister(Comm comm, void* memory, size_t bytes,
                            transport::nccl::NcclWindow* window,
                            int flags) override {
    ++calls_;
    return inner_->CommWindowRegister(comm, memory, bytes, window, flags);
  }

 private:
  std::atomic<int>& calls_;
};

struct MemoryCase {
  const char* name;
  BucketPolicy policy = {};
  int leaves = 0;
};

class SteadyStepTest : public testing::TestWithParam<MemoryCase> {
 protected:
  ~SteadyStepTest() override {
    EXPECT_THAT(backend_.violations(), testing::IsEmpty());
  }

  static BackendJob::Options OptionsOf(const MemoryCase& one) {
    std::vector<Parameter> parameters;
    for (int p = 0; p < 3; ++p) {
      parameters.push_back(
          {.name = "p" + std::to_string(p), .shape = {kElements}});
    }
    return {
        .parameters = parameters, .policy = one.policy, .leaves = one.leaves};
  }

  std::atomic<int> calls_{0};
  FakeGpuBackend backend_{
      1, [this](int, transport::nccl::Tables* tables) {
        tables->cuda = std::make_shared<CountsCuda>(tables->cuda, &calls_);
        tables->nccl = std::make_shared<CountsNccl>(tables->nccl, &calls_);
      }};
};

TEST_P(SteadyStepTest, TakesNoMemoryOnTheHostsThread) {
  BackendJob job(&backend_, OptionsOf(GetParam()));
  const int made = calls_;
  EXPECT_GT(made, 0);
  for (int step = 0; step < kSteadySteps; ++step) {
    job.Run([&](int rank, Engine& engine) {
      for (int p = 2; p >= 0; --p) {
        job.Put(rank, p, std::vector<float>(kElements, 1));
        ASSERT_EQ(engine.Submit(p, nullptr, 0, nullptr), absl::OkStatus());
      }
      const auto verdict = FinishBlocking(engine);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
    });
  }
  EXPECT_EQ(calls_, made);
}

// Including the scalars that the stream waits for.
TEST_P(SteadyStepTest, TakesNoMemoryOnAStream) {
  BackendJob job(&backend_, OptionsOf(GetParam()));
  std::vector<std::unique_ptr<Stream>> streams;
  for (int rank = 0; rank < job.world(); ++rank) {
    streams.push_back(job.MakeStream(rank));
  }
  const auto step = [&](int rank, Engine& engine) {
    Stream& stream = *streams[rank];
    for (int p = 2; p >= 0; --p) {
      ASSERT_EQ(engine.Submit(p, nullptr, 0, &stream), absl::OkStatus());
    }
    auto state = engine.Finish(
        {.samples = 1}, std::numeric_limits<double>::infinity(), &stream);
    ASSERT_TRUE(state.ok()) << state.status();
    ASSERT_TRUE(PendingVerdict(*state).Wait().ok());
    ASSERT_TRUE(stream.Synchronize().ok());
  };
  const int made = calls_;
  for (int i = 0; i < kSteadySteps; ++i) job.Run(step);
  EXPECT_EQ(calls_, made);
}

INSTANTIATE_TEST_SUITE_P(
    Each, SteadyStepTest,
    testing::Values(MemoryCase{.name = "Means"},
                    MemoryCase{.name = "Halves",
                               .policy = {.wire_dtype = DType::kBF16}},
                    MemoryCase{.name = "Feedback",
                               .policy = {.wire_dtype = DType::kBF16,
                                          .error_feedback = true}},
                    MemoryCase{.name = "Leaves", .leaves = 2}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::gradient
