// Calls preserve the calling thread's state: its current device, its last
// error, and captures that another library has begun.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/transport/nccl/cuda_arena.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/nccl/fake_world.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep {
namespace {

using fake::FakeGpuWorld;
using fake::FakeThread;
using testing::IsEmpty;
using transport::DeviceContext;
using transport::nccl::CudaResult;
using transport::nccl::CudaStream;

class WorkBefore final : public DeviceContext::Operation {
 public:
  explicit WorkBefore(DeviceContext::Work work) : work_(std::move(work)) {}
  absl::Status Before(DeviceContext::KernelQueue& kernel_queue) override {
    return work_(kernel_queue);
  }
  void Then(DeviceContext::KernelQueue&, const absl::Status& status) override {
    EXPECT_TRUE(status.ok()) << status;
  }

 private:
  DeviceContext::Work work_;
};

// Two ranks; this thread makes all calls of rank 1.
class CallerThreadTest : public testing::Test {
 protected:
  ~CallerThreadTest() override {
    EXPECT_THAT(world_.gpus().violations(), IsEmpty());
  }

  // Makes every call of a program's thread, and calls `between` after each.
  void CallEverything(const std::function<void(const std::string&)>& between) {
    const auto group = conformance::Connect(world_, 2, "gradient");
    ASSERT_EQ(group.size(), 2u);
    between("Connect");
    transport::Transport& transport = world_.at(1);
    const std::unique_ptr<Arena> arena = transport.MakeArena();
    between("MakeArena");
    auto large = arena->Allocate(2 * transport::nccl::kNcclMemoryBytesMin);
    auto small = arena->Allocate(64);
    ASSERT_TRUE(large.ok() && small.ok());
    between("Allocate");
    auto compute = transport.MakeDeviceContext();
    ASSERT_TRUE(compute.ok());
    between("MakeDeviceContext");
    const std::unique_ptr<Stream> mine = world_.MakeStream(1, "");
    const std::unique_ptr<Stream> peers = world_.MakeStream(0, "");
    auto wrapped =
        transport.WrapStream(static_cast<CudaStream&>(*mine).handle());
    ASSERT_TRUE(wrapped.ok()) << wrapped.status();
    between("WrapStream");

    Stream* const streams[] = {peers.get(), mine.get()};
    for (const int rank : {0, 1}) {
      ASSERT_TRUE(group[rank]
                      ->AllReduce(&value_[rank], &value_[rank], 1, DType::kF32,
                                  ReduceOp::kSum, *streams[rank])
                      .ok());
      between("AllReduce");
    }
    const Event event = mine->Record();
    between("Record");
    (void)event.Done();
    between("Done");
    world_.MakeStream(1, "")->WaitFor(event);
    between("WaitFor");
    ASSERT_TRUE(event.Wait().ok());
    between("Wait");
    ASSERT_TRUE(mine->Synchronize().ok());
    ASSERT_TRUE(peers->Synchronize().ok());
    between("Synchronize");
    UseCompute(**compute, *mine, between);
    UseGraph(transport, group, *static_cast<CudaStream*>(mine.get()), between);
    *large = ArenaBuffer();
    *small = ArenaBuffer();
    between("the end of memory");
    compute->reset();
    between("the end of the compute");
  }

  void UseCompute(DeviceContext& compute, Stream& stream,
                  const std::function<void(const std::string&)>& between) {
    const auto staging = compute.AllocateStaging(64);
    ASSERT_TRUE(staging.ok());
    between("AllocateStaging");
    const auto work = [&](DeviceContext::KernelQueue& kernel_queue) {
      kernel_queue.Zero(staging->data(), 64);
      between("Zero");
      return kernel_queue.Done().Wait();
    };
    ASSERT_TRUE(compute.Perform(&stream, work).ok());
    ASSERT_TRUE(compute.Perform(nullptr, work).ok());
    between("Perform");
    auto hold = compute.GateStream(stream, 8);
    ASSERT_TRUE(hold.ok());
    between("GateStream");
    (*hold)->Release(absl::OkStatus(), &value_[0]);
    between("Release");
    hold->reset();
    between("the end of a hold");
    auto queue = compute.MakeQueue("ls-test");
    ASSERT_TRUE(queue.ok());
    between("MakeQueue");
    (*queue)->SetOnDrain(true);
    WorkBefore operation(work);
    (*queue)->Launch(operation, {stream.Record()});
    (*queue)->Drain();
    between("Drain");
    queue->reset();
    between("the end of a queue");
  }

  void UseGraph(transport::Transport& transport,
                const std::vector<std::unique_ptr<Communicator>>& group,
                CudaStream& stream,
                const std::function<void(const std::string&)>& between) {
    const std::unique_ptr<Stream> peers = world_.MakeStream(0, "");
    auto graph = transport::nccl::Capture(transport, stream, [&] {
      between("the body of Capture");
      world_.Enqueue(stream, [] {});
      return absl::OkStatus();
    });
    ASSERT_TRUE(graph.ok()) << graph.status();
    between("Capture");
    (void)(*graph)->Launch(stream);
    ASSERT_TRUE(stream.Synchronize().ok());
    between("Launch");
    graph->reset();
    between("the end of a graph");
    ASSERT_TRUE(group[1]->status().ok());
  }

  FakeGpuWorld world_;
  float value_[2] = {1, 2};
};

TEST_F(CallerThreadTest, KeepsItsDevice) {
  (void)world_.at(0);
  (void)world_.at(1);
  for (const int device : {FakeThread::kNoDevice, 0, 7}) {
    world_.gpus().SetCallingThread({.device = device});
    CallEverything([&](const std::string& call) {
      EXPECT_EQ(world_.gpus().CallingThread().device, device) << call;
      EXPECT_FALSE(world_.gpus().CallingThread().relaxed) << call;
    });
    EXPECT_EQ(world_.gpus().CallingThread().device, device);
  }
}

// CUDA reports an unfinished query as an error too.
TEST_F(CallerThreadTest, FindsNoErrorOfOurs) {
  CallEverything([&](const std::string& call) {
    EXPECT_EQ(world_.gpus().CallingThread().last_error, CudaResult::kSuccess)
        << call;
  });
}

// CUDA keeps only the last error, and "not ready" is one: nothing here asks for
// work that has not run.
TEST_F(CallerThreadTest, KeepsItsErrorWhereNothingOfOursFails) {
  const std::unique_ptr<Stream> stream = world_.MakeStream(1, "");
  const std::unique_ptr<Stream> other = world_.MakeStream(1, "");
  world_.gpus().SetCallingThread({.last_error = CudaResult::kMemoryAllocation});
  const Event event = stream->Record();
  other->WaitFor(Event());
  const auto buffer = world_.at(1).MakeArena();
  EXPECT_EQ(world_.gpus().CallingThread().last_error,
            CudaResult::kMemoryAllocation);
  world_.gpus().SetCallingThread({});
}

// As torch captures: in global mode, while other threads make calls.
TEST(ForeignCaptureTest, NoCallMakesItInvalid) {
  FakeGpuWorld world;
  const auto group = conformance::Connect(world, 2, "gradient");
  std::vector<std::unique_ptr<Stream>> streams;
  for (const int rank : {0, 1}) streams.push_back(world.MakeStream(rank, ""));
  const auto compute = world.at(0).MakeDeviceContext();
  ASSERT_TRUE(compute.ok());

  world.gpus().BeginForeignCapture();
  float values[2] = {1, 2};
  for (int round = 0; round < 5; ++round) {
    for (const int rank : {0, 1}) {
      EXPECT_TRUE(group[rank]
                      ->AllReduce(&values[rank], &values[rank], 1, DType::kF32,
                                  ReduceOp::kSum, *streams[rank])
                      .ok());
    }
    for (const auto& stream : streams) {
      const Event event = stream->Record();
      (void)event.Done();
      EXPECT_TRUE(event.Wait().ok());
      EXPECT_TRUE(stream->Synchronize().ok());
    }
    auto hold = (*compute)->GateStream(*streams[0], sizeof(float));
    ASSERT_TRUE(hold.ok()) << hold.status();
    (*hold)->Release(absl::OkStatus(), values);
    EXPECT_TRUE(world.at(1).MakeArena()->Allocate(1 << 20).ok());
  }
  EXPECT_TRUE(world.gpus().EndForeignCapture());
  for (const auto& one : group) EXPECT_TRUE(one->status().ok());
}

// The fake detects a missing scope, and a scope that never ends.
class NeverEnters final : public fake::ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  Result EnterThread(transport::nccl::CudaThread*) override {
    return Result::kSuccess;
  }
  void LeaveThread(const transport::nccl::CudaThread&) override {}
};

class NeverLeaves final : public fake::ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  void LeaveThread(const transport::nccl::CudaThread&) override {}
};

TEST(FakeThreadTest, NoticesCallsThatAreNotOnTheirDevice) {
  FakeGpuWorld world({}, [](int, transport::nccl::Tables* tables) {
    tables->cuda = std::make_shared<NeverEnters>(tables->cuda);
  });
  world.gpus().BeginForeignCapture();
  EXPECT_FALSE(CudaStream::Create(world.TablesOf(0).cuda.get()).ok());
  EXPECT_FALSE(world.gpus().EndForeignCapture());
  EXPECT_THAT(world.gpus().violations(),
              testing::Contains(testing::HasSubstr(
                  "for device 0 on a thread whose device is -1")));
}

TEST(FakeThreadTest, NoticesADeviceThatIsLeftToTheCaller) {
  FakeGpuWorld world({}, [](int, transport::nccl::Tables* tables) {
    tables->cuda = std::make_shared<NeverLeaves>(tables->cuda);
  });
  (void)world.at(3);
  EXPECT_EQ(world.gpus().CallingThread().device, 3);
}

TEST(WrapStreamTest, RefusesAStreamOfAnotherDevice) {
  FakeGpuWorld world;
  const std::unique_ptr<Stream> stream = world.MakeStream(0, "");
  const auto handle = static_cast<CudaStream&>(*stream).handle();
  EXPECT_TRUE(world.at(0).WrapStream(handle).ok());
  const auto refused = world.at(1).WrapStream(handle);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_EQ(world.at(0).device(), 0);
  EXPECT_EQ(world.at(1).device(), 1);
}

}  // namespace
}  // namespace lockstep
