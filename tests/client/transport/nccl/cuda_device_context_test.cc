// The memory that a CudaDeviceContext keeps for work that has not yet run.

#include "client/transport/nccl/cuda_device_context.h"

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/device_scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/nccl/fake_world.h"
#include "tests/conformance/world.h"
#include "tests/support/forwarding_tables.h"

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
    return static_cast<CudaStream&>(*stream_).handle();
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
                                kernel_queue.CallOnce(
                                    [] { return absl::OkStatus(); });
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
};

TEST_F(CudaStreamGateTest, MemoryIsNotTakenAgainWhileTheStreamReadsIt) {
  const int message = 7;
  auto first = Hold();
  first->Release(absl::OkStatus(), &message);
  first->Begin();
  const CudaStreamHandle on = handle();
  Stall();
  int read = -1;
  Read(on, *first, &read);
  first.reset();

  auto second = Hold();  // cleared on the context's own stream
  RunOwnStream();
  stalled_ = false;
  second->Release(absl::OkStatus(), &message);
  second->Begin();
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
    hold->Begin();
    int read = -1;
    Read(handle(), *hold, &read);
    hold.reset();
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_EQ(read, 7);
  }
}

TEST_F(CudaStreamGateTest, BeginWaitsForTheRelease) {
  const int message = 7;
  auto hold = Hold();
  std::atomic<bool> begun{false};
  std::thread caller([&] {
    hold->Begin();
    begun = true;
  });
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_FALSE(begun);
  hold->Release(absl::AbortedError("over"), &message);
  caller.join();
  int read = -1;
  Read(handle(), *hold, &read);
  EXPECT_TRUE(absl::IsAborted(stream_->Synchronize()));
  EXPECT_EQ(read, 7);
}

// No event can be recorded on a stream that is being captured.
TEST_F(CudaStreamGateTest, MayBeDestroyedWhileItsStreamIsCaptured) {
  const int message = 7;
  auto& cuda = *world_.TablesOf(0).cuda;
  const transport::nccl::DeviceScope scope(cuda);
  auto first = Hold();
  first->Release(absl::OkStatus(), &message);
  first->Begin();
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
  second->Begin();
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(read, 7);
  EXPECT_EQ(cuda.GraphDestroy(graph), transport::nccl::CudaResult::kSuccess);
}

TEST_F(CudaStreamGateTest, MayOutliveItsStream) {
  const int message = 7;
  auto hold = Hold();
  hold->Release(absl::OkStatus(), &message);
  hold->Begin();
  stream_.reset();
  hold.reset();
  stream_ = world_.MakeStream(0, "");
  Hold()->Release(absl::OkStatus(), &message);
}

// A kernel that runs behind an aborted operation sees the word.
class AsksAtAborts final : public fake::ForwardingNccl {
 public:
  AsksAtAborts(std::shared_ptr<NcclApi> inner, std::atomic<int>* unset)
      : ForwardingNccl(std::move(inner)), unset_(*unset) {}
  void Ask(std::shared_ptr<DeviceContext::StopWord> word) {
    word_ = std::move(word);
  }
  Result CommAbort(Comm comm) override {
    if (!word_->is_set()) ++unset_;
    return inner_->CommAbort(comm);
  }

 private:
  std::atomic<int>& unset_;
  std::shared_ptr<DeviceContext::StopWord> word_;
};

TEST(StopWordTest, IsSetBeforeAnyCommunicatorIsAborted) {
  std::atomic<int> unset{0};
  std::shared_ptr<AsksAtAborts> asks[2];
  FakeGpuWorld world({}, [&](int rank, transport::nccl::Tables* tables) {
    asks[rank] = std::make_shared<AsksAtAborts>(tables->nccl, &unset);
    tables->nccl = asks[rank];
  });
  std::vector<std::unique_ptr<DeviceContext>> contexts;
  std::vector<std::shared_ptr<DeviceContext::StopWord>> words;
  for (int rank = 0; rank < 2; ++rank) {
    contexts.push_back(*world.at(rank).MakeDeviceContext());
    words.push_back(*contexts[rank]->MakeStopWord());
    asks[rank]->Ask(words[rank]);
    EXPECT_FALSE(words[rank]->is_set());
  }
  auto communicators = conformance::Connect(world, 2, "group");
  // Nobody asks the owner of the word.
  communicators[0]->Abort("over");
  while (!words[0]->is_set()) std::this_thread::yield();
  communicators[1]->Abort("over");
  while (!words[1]->is_set()) std::this_thread::yield();
  communicators.clear();
  world.End();
  EXPECT_EQ(unset, 0);
  for (const auto& one : asks) one->Ask(nullptr);
}

}  // namespace
}  // namespace lockstep
