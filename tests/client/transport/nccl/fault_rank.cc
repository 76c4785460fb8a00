#include "tests/client/transport/nccl/fault_rank.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "absl/time/clock.h"
#include "client/transport/device_context.h"
#include "client/transport/nccl/cuda_arena.h"

namespace lockstep::fake {
namespace {

using transport::nccl::CudaStream;

constexpr int kLayers = 30;
constexpr size_t kBucketBytes = transport::nccl::kNcclMemoryBytesMin;

}  // namespace

void Rank::Step(int round) {
  const float mine = static_cast<float>(10 * round + rank_);
  float* const gradient = memory_.Take(-1);
  float* const mean = memory_.Take(0);
  float* const used = memory_.Take(0);
  float* const given = memory_.Take(mine);
  float* const got = memory_.Take(0);
  float* const stamp = memory_.Take(0);
  float* const seen = memory_.Take(0);
  // A long backward pass: work that does not wait for it runs too early.
  for (int layer = 0; layer < kLayers; ++layer) Kernel(first(), [] {});
  Kernel(first(), [=] { std::fill_n(gradient, kCount, mine); });
  Kernel(second(), [=] { *stamp = 1; });
  Posted(this->gradient().AllReduce(gradient, mean, kCount, DType::kF32,
                                    ReduceOp::kMean, first()));
  Posted(verdict().AllReduce(stamp, stamp, 1, DType::kF32, ReduceOp::kSum,
                             second()));
  Posted(this->gradient().Group([&] {
    absl::Status posted =
        this->gradient().Send(given, kCount, DType::kF32, 1 - rank_, first());
    posted.Update(
        this->gradient().Recv(got, kCount, DType::kF32, 1 - rank_, first()));
    return posted;
  }));
  Kernel(first(), [=] { std::copy_n(mean, kCount, used); });
  Kernel(second(), [=] { *seen = *stamp; });
  Finish(first(), "a gradient's step");
  Finish(second(), "a verdict's step");
  ExpectValue("the mean", used[0], static_cast<float>(10 * round) + 0.5f);
  ExpectValue("the mean's end", used[kCount - 1], used[0]);
  ExpectValue("the verdict's sum", *seen, kRanks);
  ExpectValue("what came", got[0], static_cast<float>(10 * round + 1 - rank_));
}

void Rank::Stall(Stream& stream, std::atomic<bool>* open) {
  world_.gpus().StallUntil(static_cast<CudaStream&>(stream).handle(),
                           [open] { return open->load(); });
}

void Rank::Fill(Stream& stream) {
  constexpr int kMoreThanThereIsRoom = 40;
  for (int i = 0; i < kMoreThanThereIsRoom; ++i) (void)stream.Record();
}

void Rank::AwaitFull(int calls) {
  const absl::Time late = absl::Now() + patience_;
  while (world_.gpus().FullCallsOf(rank_) < calls) {
    if (absl::Now() > late) reporter_.Late("a full stream");
    std::this_thread::yield();
  }
}

void Rank::CallsOnHost(const char* what) {
  const auto context = world_.at(rank_).MakeDeviceContext();
  if (!context.ok()) reporter_.Late(context.status().ToString());
  std::atomic<int> called{0};
  for (Stream* stream : {&first(), &second()}) {
    Posted((*context)->Perform(
        stream, [&](transport::DeviceContext::KernelQueue& queue) {
          queue.CallOnce([&] {
            ++called;
            return absl::OkStatus();
          });
          return queue.status();
        }));
  }
  for (Stream* stream : {&first(), &second()}) Finish(*stream, what);
  reporter_.Expect(called == 2, "a function on the host did not run");
}

void Rank::VerdictIsQueued(const char* what) {
  std::atomic<bool> queued{false};
  std::thread posts([&] {
    Post(verdict(), second());
    queued = true;
  });
  Await(queued, what);
  posts.join();
}

void Rank::Await(const std::atomic<bool>& done, const char* what) {
  const absl::Time late = absl::Now() + patience_;
  while (!done) {
    if (absl::Now() > late) reporter_.Late(what);
    std::this_thread::yield();
  }
}

void Rank::Propagates() {
  float* const in = memory_.Take(2);
  float* const out = memory_.Take(0);
  if (rank_ == 1) in[0] = std::numeric_limits<float>::quiet_NaN();
  Posted(
      gradient().AllReduce(in, out, 2, DType::kF32, ReduceOp::kMax, first()));
  Finish(first(), "a maximum");
  reporter_.Expect(std::isnan(out[0]), "wrong value: the maximum lost a NaN");
  ExpectValue("the maximum", out[1], 2);
}

void Rank::PropagatesMuch() {
  constexpr size_t kMuch = 20000;
  constexpr size_t kLost = 15000;
  const auto value = [](size_t i, int rank) {
    return static_cast<float>(i % 7 + rank);
  };
  float* const in = memory_.Take(0, kMuch);
  float* const out = memory_.Take(0, kMuch);
  for (size_t i = 0; i < kMuch; ++i) in[i] = value(i, rank_);
  if (rank_ == 1) in[kLost] = std::numeric_limits<float>::quiet_NaN();
  Posted(verdict().AllReduce(in, out, kMuch, DType::kF32, ReduceOp::kMax,
                             first()));
  Finish(first(), "a large maximum");
  reporter_.Expect(std::isnan(out[kLost]),
                   "wrong value: the large maximum lost a NaN");
  for (size_t i : {size_t{0}, kMuch / 2, kMuch - 1}) {
    ExpectValue("the large maximum", out[i], value(i, kRanks - 1));
  }
}

void Rank::Meets(std::atomic<int>* come, int round) {
  float* const seen = memory_.Take(0);
  Kernel(first(), [=] { ++*come; });
  Posted(gradient().Barrier(first()));
  Kernel(first(), [=] { *seen = static_cast<float>(*come); });
  Posted(gradient().Barrier(first()));
  Finish(first(), "a barrier");
  reporter_.Expect(*seen == static_cast<float>(kRanks * round),
                   "a barrier did not hold");
}

void Rank::CaptureStep() {
  given_ = memory_.Take(0);
  used_ = memory_.Take(0);
  float* const given = given_;
  float* const used = used_;
  float* const gradient = memory_.Take(-1);
  float* const stamp = memory_.Take(0);
  auto& stream = static_cast<CudaStream&>(first());
  auto graph = transport::nccl::Capture(world_.at(rank_), stream, [&] {
    for (int layer = 0; layer < kLayers; ++layer) Kernel(stream, [] {});
    Kernel(stream, [=] { std::fill_n(gradient, kCount, *given); });
    absl::Status posted = this->gradient().AllReduce(
        gradient, gradient, kCount, DType::kF32, ReduceOp::kMean, stream);
    Kernel(stream, [=] {
      std::copy_n(gradient, kCount, used);
      *stamp = 1;
    });
    posted.Update(verdict().AllReduce(stamp, stamp, 1, DType::kF32,
                                      ReduceOp::kSum, stream));
    Kernel(stream, [=] {
      if (*stamp != kRanks) *used = -2;  // no verdict
    });
    return posted;
  });
  if (!graph.ok()) reporter_.Late("capture: " + graph.status().ToString());
  graph_ = *std::move(graph);
}

void Rank::LaunchStep(int round) {
  const float mine = static_cast<float>(10 * round + rank_);
  float* const given = given_;
  for (int layer = 0; layer < kLayers; ++layer) Kernel(first(), [] {});
  Kernel(first(), [=] { *given = mine; });
  (void)graph_->Launch(static_cast<CudaStream&>(first()));
  float* const used = used_;
  float* const seen = memory_.Take(0);
  Kernel(first(), [=] { *seen = *used; });
  Finish(first(), "a graph's step");
  ExpectValue("a graph's mean", *seen, static_cast<float>(10 * round) + 0.5f);
}

void Rank::LaunchBesideAVerdict() {
  float* const stamp = memory_.Take(0);
  float* const seen = memory_.Take(0);
  BeginStep();
  Kernel(second(), [=] { *stamp = 1; });
  Posted(verdict().AllReduce(stamp, stamp, 1, DType::kF32, ReduceOp::kSum,
                             second()));
  Kernel(second(), [=] { *seen = *stamp; });
  Finish(first(), "a graph beside a verdict");
  Finish(second(), "a verdict beside a graph");
  ExpectValue("the sum beside a graph", *seen, kRanks);
}

void Rank::EnlistBucket(bool same_memory) {
  ForgetBucket();
  if (!same_memory) {
    auto made = world_.at(rank_).MakeArena()->Allocate(kBucketBytes);
    if (!made.ok()) reporter_.Late("arena: " + made.status().ToString());
    bucket_ = *std::move(made);
  }
  auto registered =
      world_.at(rank_).RegisterBuffer(gradient(), bucket_, patience_);
  if (!registered.ok())
    reporter_.Late("register: " + registered.status().ToString());
  enlisted_ = *std::move(registered);
  reporter_.Expect(enlisted_->kind() == transport::RegistrationKind::kWindow,
                   "no window: " + std::string(Name(enlisted_->kind())));
}

void Rank::StepInBucket(int round) {
  const float mine = static_cast<float>(10 * round + rank_);
  constexpr size_t kFloats = kBucketBytes / sizeof(float);
  float* const at = world_.gpus().Reach(bucket());
  float* const used = memory_.Take(0);
  Kernel(first(), [=] { std::fill_n(at, kFloats, mine); });
  Posted(gradient().AllReduce(bucket(), bucket(), kFloats, DType::kF32,
                              ReduceOp::kSum, first()));
  Kernel(first(), [=] {
    used[0] = at[0];
    used[1] = at[kFloats - 1];
  });
  Finish(first(), "a bucket's step");
  const auto sum = static_cast<float>(20 * round + 1);
  ExpectValue("a bucket's sum", used[0], sum);
  ExpectValue("a bucket's last sum", used[1], sum);
}

}  // namespace lockstep::fake
