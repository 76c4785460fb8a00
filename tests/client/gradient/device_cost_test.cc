// What a step costs its host, in calls of CUDA and NCCL: a bucket is packed
// from one event of each stream, and a mean is multiplied in the pass of its
// norm.

#include <atomic>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "client/transport/nccl/cuda_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/backend_job.h"
#include "tests/client/gradient/device_faults.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::gradient {
namespace {

using transport::nccl::CudaStream;
using transport::nccl::CudaStreamHandle;

constexpr int kParameters = 300;
constexpr int kElements = 64;
constexpr int kBuckets = 12;

struct Calls {
  std::atomic<CudaStreamHandle> callers{nullptr};
  std::atomic<int> events_of_caller{0};  // records on the caller's stream
  std::atomic<int> events{0};
  std::atomic<int> waits{0};
  std::atomic<int> packs{0};
  std::atomic<int> passes{0};  // over reduced gradients

  void Clear() { events_of_caller = events = waits = packs = passes = 0; }
};

// The calls of one step.
struct StepCalls {
  int events_of_caller, events, waits, packs, passes;
};

class CountingCuda final : public fake::ForwardingCuda {
 public:
  CountingCuda(std::shared_ptr<CudaApi> inner, Calls* calls)
      : ForwardingCuda(std::move(inner)), calls_(*calls) {}
  Result EventRecord(EventHandle event, StreamHandle stream) override {
    ++calls_.events;
    if (stream == calls_.callers) ++calls_.events_of_caller;
    return inner_->EventRecord(event, stream);
  }
  Result StreamWaitEvent(StreamHandle stream, EventHandle event) override {
    ++calls_.waits;
    return inner_->StreamWaitEvent(stream, event);
  }

 private:
  Calls& calls_;
};

class CountingKernels final : public fake::ForwardingKernels {
 public:
  CountingKernels(std::shared_ptr<KernelApi> inner, Calls* calls)
      : ForwardingKernels(std::move(inner)), calls_(*calls) {}
  Result Pack(Slots slots, DType dtype, void* bucket,
              StreamHandle stream) override {
    ++calls_.packs;
    return inner_->Pack(slots, dtype, bucket, stream);
  }
  Result CastScale(const void* from, DType from_dtype, double factor, void* to,
                   DType to_dtype, size_t count, StreamHandle stream) override {
    if (count >= kElements) ++calls_.passes;  // not the flags
    return inner_->CastScale(from, from_dtype, factor, to, to_dtype, count,
                             stream);
  }
  Result AddFiniteCheck(const void* data, DType dtype,
                        std::span<const kernels::ElementRange> ranges,
                        double inverse_scale, void* scratch,
                        kernels::FiniteCheck* total,
                        StreamHandle stream) override {
    ++calls_.passes;
    return inner_->AddFiniteCheck(data, dtype, ranges, inverse_scale, scratch,
                                  total, stream);
  }
  Result ScaleAndCheck(void* data, DType dtype, double factor,
                       const kernels::ElementRange& scaled,
                       std::span<const kernels::ElementRange> checked,
                       void* scratch, kernels::FiniteCheck* total,
                       StreamHandle stream) override {
    ++calls_.passes;
    return inner_->ScaleAndCheck(data, dtype, factor, scaled, checked, scratch,
                                 total, stream);
  }

 private:
  Calls& calls_;
};

// Counts the calls of rank 0 in a steady step of a job of one rank's means.
class CostJob {
 public:
  explicit CostJob(ComputeFault fault)
      : backend_(1,
                 [this](int, transport::nccl::Tables* tables) {
                   tables->cuda =
                       std::make_shared<CountingCuda>(tables->cuda, &calls_);
                   tables->kernels = std::make_shared<CountingKernels>(
                       tables->kernels, &calls_);
                 }),
        job_(&backend_, OptionsFor(fault)) {}

  // The calls of the last of a few steps. `together`: all gradients are
  // submitted in one call.
  StepCalls Run(bool together = false) {
    const auto stream = job_.MakeStream(0);
    calls_.callers = static_cast<CudaStream&>(*stream).handle();
    const ArenaBuffer gradient =
        job_.Buffer(0, std::vector<float>(kElements, 1.0f));
    for (int step = 0; step < 3; ++step) {
      calls_.Clear();
      if (together) {
        std::vector<Engine::Buffer> all;
        for (int p = kParameters - 1; p >= 0; --p) {
          all.push_back({p, gradient.data(), gradient.bytes()});
        }
        EXPECT_EQ(job_.engine(0).SubmitAll(all, *stream), absl::OkStatus());
      }
      for (int p = kParameters - 1; p >= 0 && !together; --p) {
        EXPECT_EQ(job_.engine(0).Submit(p, gradient.data(), gradient.bytes(),
                                        stream.get()),
                  absl::OkStatus());
      }
      const auto pending = job_.engine(0).Finish(
          {.samples = 1}, std::numeric_limits<double>::infinity(),
          stream.get());
      EXPECT_TRUE(pending.ok()) << pending.status();
      if (!pending.ok()) break;
      EXPECT_TRUE((*pending)->Wait().ok());
    }
    EXPECT_TRUE(stream->Synchronize().ok());
    EXPECT_THAT(backend_.violations(), testing::IsEmpty());
    return {calls_.events_of_caller, calls_.events, calls_.waits, calls_.packs,
            calls_.passes};
  }

 private:
  static BackendJob::Options OptionsFor(ComputeFault fault) {
    std::vector<Parameter> parameters;
    for (int p = 0; p < kParameters; ++p) {
      parameters.push_back({.name = "p" + std::to_string(p),
                            .shape = {kElements},
                            .op = ReduceOp::kMean});
    }
    constexpr int64_t kBytes =
        kParameters / kBuckets * kElements * sizeof(float);
    return {.world = 1,
            .parameters = parameters,
            .policy = {.first_bytes_max = kBytes, .bytes_max = kBytes},
            .decorate =
                [fault](int, std::unique_ptr<transport::DeviceContext> inner) {
                  return Spoil(fault, std::move(inner));
                }};
  }

  Calls calls_;
  FakeGpuBackend backend_;
  BackendJob job_;
};

// The caller's events: one for each bucket, and those of FinishAsync.
constexpr int kEventsMax = kBuckets + 4;

TEST(DeviceCostTest, ABucketWaitsForOneEventOfAStream) {
  const StepCalls calls = CostJob(ComputeFault::kNone).Run();
  std::cout << kParameters << " parameters in " << kBuckets
            << " buckets: " << calls.events_of_caller
            << " events on the caller's stream, " << calls.events << " in all, "
            << calls.waits << " waits, " << calls.passes
            << " passes over reduced gradients\n";
  EXPECT_GE(calls.events_of_caller, kBuckets);
  EXPECT_LE(calls.events_of_caller, kEventsMax);
}

TEST(DeviceCostTest, GradientsOfABucketAreCopiedByOneKernel) {
  EXPECT_EQ(CostJob(ComputeFault::kNone).Run().packs, kParameters);
  const StepCalls calls = CostJob(ComputeFault::kNone).Run(/*together=*/true);
  EXPECT_EQ(calls.packs, kBuckets);
  EXPECT_LE(calls.events_of_caller, kEventsMax);
}

TEST(DeviceCostTest, AMeanIsMultipliedInThePassOfItsNorm) {
  EXPECT_EQ(CostJob(ComputeFault::kNone).Run().passes, kBuckets);
}

TEST(CostMistakeTest, AnEventForEachGradientIsNoticed) {
  const StepCalls calls = CostJob(ComputeFault::kAnEventForEachGradient).Run();
  EXPECT_GT(calls.events_of_caller, kEventsMax);
}

TEST(CostMistakeTest, APassForEachFactorIsNoticed) {
  const StepCalls calls = CostJob(ComputeFault::kScalesApart).Run();
  EXPECT_GT(calls.passes, kBuckets);
}

}  // namespace
}  // namespace lockstep::gradient
