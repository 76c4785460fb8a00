// A training on fake GPUs detects no error in the engine's device path, and
// every fault that is injected.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "client/transport/nccl/cuda_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/device_faults.h"
#include "tests/client/gradient/stream_rank.h"
#include "tests/support/case_name.h"
#include "tests/support/forwarding_tables.h"
#include "tests/support/sanitizers.h"

namespace lockstep::gradient {
namespace {

constexpr uint64_t kSteps = 4;
constexpr int kLag = 400;  // empty kernels

// Streams of callers, once they are known, wait for nothing.
class RunsOn final : public fake::ForwardingCuda {
 public:
  RunsOn(std::shared_ptr<transport::nccl::CudaApi> inner,
         const std::atomic<transport::nccl::CudaStreamHandle>* stream)
      : ForwardingCuda(std::move(inner)), stream_(*stream) {}
  Result StreamWaitEvent(StreamHandle stream, EventHandle event) override {
    if (stream == stream_) return Result::kSuccess;
    return inner_->StreamWaitEvent(stream, event);
  }

 private:
  const std::atomic<transport::nccl::CudaStreamHandle>& stream_;
};

// Collects the errors of a training, in words. A step that failed on one rank
// is aborted on all, as the coordinator would.
class FaultyTraining {
 public:
  FaultyTraining(ComputeFault fault, bool runs_on, uint64_t seed)
      : runs_on_(runs_on),
        backend_(seed,
                 [this](int rank, transport::nccl::Tables* tables) {
                   tables->cuda = std::make_shared<RunsOn>(tables->cuda,
                                                           &running_on_[rank]);
                 }),
        job_(&backend_, OptionsFor(fault)) {}

  std::string Run() {
    job_.Run([this](int rank, Engine&) { Train(rank); });
    for (const std::string& violation : backend_.violations()) Post(violation);
    return said_;
  }

 private:
  BackendJob::Options OptionsFor(ComputeFault fault) {
    return {.parameters = kThree,
            .decorate =
                [fault](int, std::unique_ptr<transport::DeviceContext> inner) {
                  return Spoil(fault, std::move(inner));
                },
            .on_failure =
                [this](int rank, const absl::Status& error) {
                  Post("rank " + std::to_string(rank) + " failed");
                  job_.AbortAll(error);
                }};
  }

  void Post(const std::string& what) {
    MutexLock lock(&mutex_);
    said_ += what + "\n";
  }

  // v gets a gradient only in every other step.
  void Train(int rank) {
    StreamRank mine(&job_, rank);
    mine.Fetch();
    if (runs_on_) {
      mine.SubmitFromBuffers();
      running_on_[rank] =
          static_cast<transport::nccl::CudaStream&>(mine.stream()).handle();
    }
    double sum = 0;
    for (uint64_t step = 0; step < kSteps; ++step) {
      // The device is behind: work that does not wait for the gradients reads
      // none.
      for (int i = 0; i < kLag; ++i) job_.Enqueue(mine.stream(), [] {});
      if (!mine.Submit(step, /*all=*/step % 2 == 0).ok()) return;
      auto pending = mine.FinishAndUpdate();
      if (!pending.ok()) return;
      const auto verdict = pending->Wait();
      if (!verdict.ok()) return;
      (void)mine.stream().Synchronize();
      const double g = 3.0 * (step + 1);
      sum += g;
      for (const float weight : mine.weights()) {
        if (weight != sum) Post("a weight is not what it should be");
      }
      const double elements = step % 2 == 0 ? 3 + 2 / 4.0 + 4 : 3 + 2 / 4.0;
      if (std::abs(verdict->global_norm - g * std::sqrt(elements)) > 1e-9) {
        Post("the norm is wrong");
      }
      if (verdict->contributed[2] != (step % 2 == 0)) Post("a flag is wrong");
    }
  }

  const bool runs_on_;
  std::atomic<transport::nccl::CudaStreamHandle> running_on_[2] = {};
  Mutex mutex_;
  std::string said_ ABSL_GUARDED_BY(mutex_);
  FakeGpuBackend backend_;
  BackendJob job_;
};

TEST(GroundDrillTest, FindsNothingInTheEngine) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(FaultyTraining(ComputeFault::kNone, false, seed).Run(), "")
        << "seed " << seed;
  }
}

struct Mistake {
  const char* name;
  ComputeFault fault;
  std::vector<std::string> signs;  // any of them shows the fault
  bool runs_on = false;            // the caller's streams wait for nothing
};

bool IsNoticed(const Mistake& mistake, const std::string& said) {
  return std::any_of(mistake.signs.begin(), mistake.signs.end(),
                     [&](const std::string& sign) {
                       return said.find(sign) != std::string::npos;
                     });
}

class GroundMistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(GroundMistakeTest, IsNoticed) {
  if (kUnderThreadSanitizer) {
    GTEST_SKIP() << "the mistakes are found without it, and some are races";
  }
  std::string said;
  for (uint64_t seed = 1; seed <= 40 && !IsNoticed(GetParam(), said); ++seed) {
    said = FaultyTraining(GetParam().fault, GetParam().runs_on, seed).Run();
  }
  EXPECT_TRUE(IsNoticed(GetParam(), said)) << said;
}

INSTANTIATE_TEST_SUITE_P(
    Eager, GroundMistakeTest,
    testing::Values(
        Mistake{"the host reads before the copy is there",
                ComputeFault::kReadsBeforeTheCopyIsThere,
                {"failed"}},
        // Depending on how late the gradients are: a weight, the norm, or both.
        Mistake{"the reduction does not wait for the gradients",
                ComputeFault::kReducesBeforeTheGradients,
                {"a weight is not", "the norm is wrong"}},
        Mistake{"the update does not wait for the verdict",
                ComputeFault::kNone,
                {"a weight is not"},
                /*runs_on=*/true},
        Mistake{"the norm is not cleared",
                ComputeFault::kKeepsTheLastNorm,
                {"the norm is wrong"}},
        Mistake{"the verdict does not wait for the norms beside it",
                ComputeFault::kEverythingAside,
                {"the norm is wrong"}},
        Mistake{"flags are not written",
                ComputeFault::kForgetsTheFlags,
                {"a flag is wrong"}}),
    [](const auto& info) { return CaseName(info.param.name); });

// The host cannot access device memory; the other tests rely on it.
TEST(GroundDeathTest, AHostThatTouchesAGradientDies) {
  FakeGpuBackend backend;
  BackendJob job(&backend, {.world = 1, .parameters = kThree});
  const volatile std::byte* gradient = job.engine(0).View(0)->data();
  EXPECT_DEATH((void)*gradient, "");
}

}  // namespace
}  // namespace lockstep::gradient
