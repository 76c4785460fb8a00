// A device that fails: enqueued work has not run, and all callers get the
// error.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/transport/nccl/cuda_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/nccl/fake_world.h"
#include "tests/support/failing_calls.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep {
namespace {

using fake::FakeGpuWorld;
using testing::IsEmpty;
using transport::nccl::CudaStream;

class DeviceFaultTest : public testing::Test {
 protected:
  ~DeviceFaultTest() override {
    EXPECT_THAT(world_.gpus().violations(), IsEmpty());
  }

  // Device `rank` fails while `stream` is stalled before its work.
  void BreakUnder(Stream& stream, int rank) {
    world_.gpus().StallUntil(static_cast<CudaStream&>(stream).handle(),
                             [] { return false; });
    broken_ = rank;
  }
  void Break() { world_.gpus().BreakDevice(broken_); }

  FakeGpuWorld world_;
  int broken_ = 0;
};

TEST_F(DeviceFaultTest, AnEventThatNeverComesIsAnError) {
  const std::unique_ptr<Stream> stream = world_.MakeStream(0, "");
  BreakUnder(*stream, 0);
  const Event event = stream->Record();
  EXPECT_FALSE(event.Done());
  EXPECT_TRUE(absl::IsDeadlineExceeded(event.Wait(absl::ZeroDuration())));
  Break();
  EXPECT_TRUE(absl::IsInternal(event.Wait())) << event.Wait();
  EXPECT_TRUE(event.Done());  // nothing to wait for
  EXPECT_TRUE(absl::IsInternal(stream->Synchronize()));
}

TEST_F(DeviceFaultTest, AStreamThatWaitsForItHasTheError) {
  const std::unique_ptr<Stream> stream = world_.MakeStream(0, "");
  const std::unique_ptr<Stream> other = world_.MakeStream(0, "");
  BreakUnder(*stream, 0);
  const Event event = stream->Record();
  Break();
  other->WaitFor(event);
  EXPECT_TRUE(absl::IsInternal(other->Synchronize()));
}

// NCCL reports nothing. The peer learns of it from the coordinator.
TEST_F(DeviceFaultTest, ItsCommunicatorsFail) {
  auto group = conformance::Connect(world_, 2, "gradient");
  std::vector<std::unique_ptr<Stream>> streams;
  float values[2] = {1, 2};
  for (const int rank : {0, 1}) streams.push_back(world_.MakeStream(rank, ""));
  BreakUnder(*streams[0], 0);
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(group[rank]
                    ->AllReduce(&values[rank], &values[rank], 1, DType::kF32,
                                ReduceOp::kSum, *streams[rank])
                    .ok());
  }
  Break();
  EXPECT_TRUE(absl::IsInternal(streams[0]->Synchronize()));
  while (group[0]->status().ok()) std::this_thread::yield();
  EXPECT_TRUE(absl::IsInternal(group[0]->status())) << group[0]->status();
  group[1]->Abort("rank 0 has failed");
  EXPECT_FALSE(streams[1]->Synchronize().ok());
}

// What the caller frees behind the call is used by nothing that runs.
TEST(FailingCallTest, AStreamHasRunWhenItIsSynchronizedWithoutMemory) {
  fake::FailingCalls calls;
  FakeGpuWorld world({}, [&](int, transport::nccl::Tables* tables) {
    calls.Decorate(tables);
  });
  const std::unique_ptr<Stream> stream = world.MakeStream(0, "");
  std::atomic<bool> may_run{false};
  std::atomic<bool> has_run{false};
  world.gpus().StallUntil(static_cast<CudaStream&>(*stream).handle(),
                          [&] { return may_run.load(); });
  world.Enqueue(*stream, [&] { has_run = true; });
  std::thread later([&] {
    absl::SleepFor(absl::Milliseconds(50));
    may_run = true;
  });
  calls.FailAt(1, /*captured=*/false);
  EXPECT_TRUE(absl::IsResourceExhausted(stream->Synchronize()));
  EXPECT_TRUE(has_run);
  later.join();
}

// A session asks the coordinator for the cause of other errors.
TEST(FailingCallTest, AnotherGroupKnowsThatTheProcessIsOutOfMemory) {
  fake::FailingCalls calls;
  FakeGpuWorld world({}, [&](int rank, transport::nccl::Tables* tables) {
    if (rank == 0) calls.Decorate(tables);
  });
  auto group = conformance::Connect(world, 2, "gradient");
  auto other = conformance::Connect(world, 2, "verdict");
  const std::unique_ptr<Stream> stream = world.MakeStream(0, "");
  float value = 1;
  calls.FailAt(2, /*captured=*/false);  // the first records the caller's event
  EXPECT_TRUE(
      group[0]
          ->AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum, *stream)
          .ok());
  EXPECT_TRUE(absl::IsResourceExhausted(stream->Synchronize()));
  EXPECT_TRUE(absl::IsResourceExhausted(group[0]->status()));
  EXPECT_TRUE(absl::IsResourceExhausted(other[0]->status()))
      << other[0]->status();
}

// Only queries fail, and return an error.
class FailsToAsk final : public fake::ForwardingCuda {
 public:
  FailsToAsk(std::shared_ptr<CudaApi> inner, const std::atomic<bool>* fails)
      : ForwardingCuda(std::move(inner)), fails_(*fails) {}
  Result EventQuery(EventHandle event) override {
    return fails_ ? Result::kCaptureUnsupported : inner_->EventQuery(event);
  }

 private:
  const std::atomic<bool>& fails_;
};

TEST(EventQueryTest, AnyErrorIsNotAYes) {
  std::atomic<bool> fails{false};
  FakeGpuWorld world({}, [&](int, transport::nccl::Tables* tables) {
    tables->cuda = std::make_shared<FailsToAsk>(tables->cuda, &fails);
  });
  const std::unique_ptr<Stream> stream = world.MakeStream(0, "");
  std::atomic<bool> open{false};
  world.gpus().StallUntil(static_cast<CudaStream&>(*stream).handle(),
                          [&] { return open.load(); });
  const Event event = stream->Record();
  fails = true;
  EXPECT_TRUE(absl::IsInternal(event.Wait())) << event.Wait();
  fails = false;
  open = true;
  EXPECT_TRUE(event.Wait().ok());
}

}  // namespace
}  // namespace lockstep
