// Work of a KernelQueue, on the host and on a fake device.

#include <cstring>
#include <memory>
#include <string>

#include "client/transport/device_context.h"
#include "client/transport/nccl/cuda_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/nccl/fake_world.h"

namespace lockstep {
namespace {

using transport::DeviceContext;

class KernelQueueTest : public testing::TestWithParam<const char*> {
 protected:
  KernelQueueTest() {
    if (GetParam() == std::string("host")) {
      context_ = transport::MakeHostDeviceContext();
      stream_ = std::make_unique<HostStream>();
    } else {
      context_ = *world_.at(0).MakeDeviceContext();
      stream_ = world_.MakeStream(0, "");
    }
  }
  ~KernelQueueTest() override {
    EXPECT_THAT(world_.gpus().violations(), testing::IsEmpty());
  }

  void Perform(DeviceContext::Work work) {
    const absl::Status status =
        context_->Perform(stream_.get(), std::move(work));
    EXPECT_TRUE(status.ok()) << status;
  }

  fake::FakeGpuWorld world_;
  std::unique_ptr<DeviceContext> context_;
  std::unique_ptr<Stream> stream_;
};

TEST_P(KernelQueueTest, RunsLocalStepsInTheOrderOfTheStream) {
  const auto staging = context_->AllocateStaging(64);
  ASSERT_TRUE(staging.ok());
  const absl::Span<int32_t> numbers = staging->as<int32_t>();
  numbers[0] = 7;
  Perform([numbers](DeviceContext::KernelQueue& queue) {
    using Kind = kernels::LocalStep::Kind;
    queue.RunLocalStep({.kind = Kind::kCopyBlocks,
                        .in = &numbers[0],
                        .out = &numbers[1],
                        .copy = {.bytes = 4}});
    queue.RunLocalStep(
        {.kind = Kind::kFill, .out = &numbers[0], .count = 1, .number = 5});
    return queue.status();
  });
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(numbers[0], 5);
  EXPECT_EQ(numbers[1], 7);
}

// The work reads what the stream has copied before.
TEST_P(KernelQueueTest, AnErrorOfWorkOnTheHostIsTheStreams) {
  const auto staging = context_->AllocateStaging(64);
  ASSERT_TRUE(staging.ok());
  const absl::Span<int32_t> numbers = staging->as<int32_t>();
  const auto copy_and_check = [numbers](DeviceContext::KernelQueue& queue) {
    queue.Copy(&numbers[0], &numbers[1], 4);
    queue.CallOnce([numbers] {
      return numbers[1] == 7 ? absl::OutOfRangeError("seven")
                             : absl::OkStatus();
    });
    return queue.status();
  };
  numbers[0] = 6;
  Perform(copy_and_check);
  EXPECT_TRUE(stream_->Synchronize().ok());
  numbers[0] = 7;
  Perform(copy_and_check);
  EXPECT_TRUE(absl::IsOutOfRange(stream_->Synchronize()));
  EXPECT_TRUE(stream_->Synchronize().ok());
}

INSTANTIATE_TEST_SUITE_P(Memory, KernelQueueTest,
                         testing::Values("host", "device"));

TEST(KernelQueueGraphTest, WorkThatRunsOnceIsNoPartOfAGraph) {
  fake::FakeGpuWorld world;
  const auto context = *world.at(0).MakeDeviceContext();
  const auto stream = world.MakeStream(0, "");
  const auto graph = context->Capture(*stream, [&] {
    return context->Perform(stream.get(),
                            [](DeviceContext::KernelQueue& queue) {
                              queue.CallOnce([] { return absl::OkStatus(); });
                              return queue.status();
                            });
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(graph.status())) << graph.status();
  EXPECT_THAT(world.gpus().violations(), testing::IsEmpty());
}

}  // namespace
}  // namespace lockstep
