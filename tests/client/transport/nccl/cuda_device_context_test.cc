// The memory that a CudaDeviceContext keeps for work that has not yet run.

#include "client/transport/nccl/cuda_device_context.h"

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/device_scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/nccl/fake_world.h"

namespace lockstep {
namespace {

using fake::FakeGpuWorld;
using testing::IsEmpty;
using transport::DeviceContext;
using transport::nccl::CudaStream;
using transport::nccl::CudaStreamHandle;

// Gates of one stream, whose message is a number.
class CudaStreamGateTest : public testing::Test {
 protected:
  CudaStreamGateTest()
      : compute_(*world_.at(0).MakeDeviceContext()),
        stream_(world_.MakeStream(0, "")) {}
  ~CudaStreamGateTest() override {
    stalled_ = false;
    stream_.reset();
    EXPECT_THAT(world_.gpus().violations(), IsEmpty());
  }

  std::shared_ptr<DeviceContext::StreamGate> Hold() {
    auto hold = compute_->GateStream(*stream_, sizeof(int));
    EXPECT_TRUE(hold.ok()) << hold.status();
    return *std::move(hold);
  }

  CudaStreamHandle handle() {
    return *static_cast<CudaStream&>(*stream_).Ready();
  }

  // Stalls the stream until stalled_ is false.
  void Stall() {
    stalled_ = true;
    world_.gpus().StallUntil(handle(), [this] { return !stalled_; });
  }

  // Launches a kernel that reads the message, without a call that polls the
  // library's streams.
  void Read(CudaStreamHandle on, const DeviceContext::StreamGate& hold,
            int* into) {
    const int* const message =
        world_.gpus().Reach(static_cast<const int*>(hold.message()));
    world_.gpus().LaunchKernel(on, [message, into] { *into = *message; });
  }

  // Waits until everything that the context enqueued on its own streams has
  // run.
  void RunOwnStream() {
    Event done;
    ASSERT_TRUE(compute_
                    ->Perform(nullptr,
                              [&](DeviceContext::KernelQueue& kernel_queue) {
                                kernel_queue.Call(&nothing_);
                                done = kernel_queue.Done();
                                return kernel_queue.status();
                              })
                    .ok());
    ASSERT_TRUE(done.Wait(absl::Seconds(30)).ok());
  }

  FakeGpuWorld world_;
  std::unique_ptr<DeviceContext> compute_;
  std::unique_ptr<Stream> stream_;
  std::atomic<bool> stalled_{false};
  absl::AnyInvocable<void()> nothing_ = [] {};
};

TEST_F(CudaStreamGateTest, MemoryIsNotTakenAgainWhileTheStreamReadsIt) {
  const int message = 7;
  auto first = Hold();
  first->Release(absl::OkStatus(), &message);
  const CudaStreamHandle on = handle();
  Stall();
  int read = -1;
  Read(on, *first, &read);
  first.reset();

  auto second = Hold();  // cleared on the context's own stream
  RunOwnStream();
  stalled_ = false;
  second->Release(absl::OkStatus(), &message);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(read, 7);
}

TEST_F(CudaStreamGateTest, MemoryIsTakenAgainOnceTheStreamHasReadIt) {
  const int message = 7;
  std::set<const void*> memory;  // that of a gate is free two gates later
  for (int step = 0; step < 100; ++step) {
    auto hold = Hold();
    memory.insert(hold->message());
    EXPECT_LE(memory.size(), 2u);
    hold->Release(absl::OkStatus(), &message);
    int read = -1;
    Read(handle(), *hold, &read);
    hold.reset();
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_EQ(read, 7);
  }
}

TEST_F(CudaStreamGateTest, WorkThatDoesNotWaitForTheReleaseReadsZeros) {
  const int message = 7;
  const CudaStreamHandle on = handle();
  auto first = Hold();
  first->Release(absl::OkStatus(), &message);
  ASSERT_TRUE(stream_->Synchronize().ok());
  first.reset();

  // The context's own stream is late with clearing.
  std::atomic<bool> late{true};
  absl::AnyInvocable<void()> wait = [&late] { late.wait(true); };
  ASSERT_TRUE(compute_
                  ->Perform(nullptr,
                            [&](DeviceContext::KernelQueue& kernel_queue) {
                              kernel_queue.Call(&wait);
                              return kernel_queue.status();
                            })
                  .ok());
  auto second = Hold();
  int read = -1;
  Read(on, *second, &read);
  std::atomic<bool> has_read{false};
  world_.gpus().LaunchKernel(on, [&has_read] { has_read = true; });
  // Let the device run meanwhile.
  const std::unique_ptr<Stream> other = world_.MakeStream(0, "");
  for (int turn = 0; turn < 100; ++turn) EXPECT_TRUE(other->Synchronize().ok());
  late = false;
  late.notify_all();
  RunOwnStream();
  // What runs behind the release may read the message. Waiting threads run the
  // fake device's work, so none may sleep here.
  while (!has_read) ASSERT_TRUE(other->Synchronize().ok());
  second->Release(absl::OkStatus(), &message);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(read, 0);
}

// No event can be recorded on a stream that is being captured.
TEST_F(CudaStreamGateTest, MayBeDestroyedWhileItsStreamIsCaptured) {
  const int message = 7;
  auto& cuda = *world_.TablesOf(0).cuda;
  const transport::nccl::DeviceScope scope(cuda);
  auto first = Hold();
  first->Release(absl::OkStatus(), &message);
  const CudaStreamHandle on = handle();
  Stall();
  int read = -1;
  Read(on, *first, &read);
  ASSERT_EQ(cuda.StreamBeginCapture(on), transport::nccl::CudaResult::kSuccess);
  first.reset();
  transport::nccl::CudaGraphHandle graph = nullptr;
  ASSERT_EQ(cuda.StreamEndCapture(on, &graph),
            transport::nccl::CudaResult::kSuccess);

  auto second = Hold();
  RunOwnStream();
  stalled_ = false;
  second->Release(absl::OkStatus(), &message);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(read, 7);
  EXPECT_EQ(cuda.GraphDestroy(graph), transport::nccl::CudaResult::kSuccess);
}

TEST_F(CudaStreamGateTest, MayOutliveItsStream) {
  const int message = 7;
  auto hold = Hold();
  hold->Release(absl::OkStatus(), &message);
  stream_.reset();
  hold.reset();
  stream_ = world_.MakeStream(0, "");
  Hold()->Release(absl::OkStatus(), &message);
}

}  // namespace
}  // namespace lockstep
