// Steps on a device that is slow, fails, or is not the calling thread's.

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/transport/nccl/cuda_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/stream_rank.h"

namespace lockstep::gradient {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using transport::nccl::CudaStream;

class DeviceStepTest : public testing::Test {
 protected:
  ~DeviceStepTest() override { EXPECT_THAT(backend_.violations(), IsEmpty()); }

  void StallUntil(Stream& stream, std::function<bool()> open) {
    backend_.gpus().StallUntil(static_cast<CudaStream&>(stream).handle(),
                               std::move(open));
  }

  FakeGpuBackend backend_;
};

TEST_F(DeviceStepTest, UpdatesReadTheirScalarsThoughNobodyKeepsThem) {
  BackendJob job(&backend_, {.parameters = kThree});
  job.Run([&](int rank, Engine&) {
    StreamRank mine(&job, rank);
    mine.Fetch();
    ASSERT_EQ(mine.Submit(0), absl::OkStatus());
    // The device is late with the update while the host is in the next step.
    std::atomic<bool> open{false};
    auto first = mine.FinishAndUpdate(
        [&] { StallUntil(mine.stream(), [&] { return open.load(); }); });
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE(first->Wait().ok());
    first = absl::CancelledError("forgotten");
    mine.ForgetScalars();
    ASSERT_EQ(mine.Submit(1), absl::OkStatus());
    std::thread opens([&] {
      const std::unique_ptr<Stream> other = job.MakeStream(rank);
      for (int turn = 0; turn < 100; ++turn) {  // lets the device run
        EXPECT_TRUE(other->Synchronize().ok());
      }
      open = true;
    });
    auto second = mine.FinishAndUpdate();
    opens.join();
    ASSERT_TRUE(second.ok()) << second.status();
    ASSERT_TRUE(second->Wait().ok());
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_THAT(mine.weights(), Each(3.0f + 6.0f));
  });
}

// One thread ends the step of both ranks, and launches their updates at once:
// nothing waits for a peer, or for the verdict.
TEST_F(DeviceStepTest, AnUpdateMayBeLaunchedRightAfterFinishAsync) {
  BackendJob job(&backend_, {.parameters = kThree});
  struct Rank {
    std::unique_ptr<Stream> stream;
    transport::nccl::CudaStreamHandle handle;
    ArenaBuffer gradients[3];
    ArenaBuffer weights;
  };
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    auto stream = job.MakeStream(rank);
    const auto handle = static_cast<CudaStream&>(*stream).handle();
    const auto all = [&](size_t count) {
      return job.Buffer(rank, std::vector<float>(count, rank + 1.0f));
    };
    ranks.push_back({std::move(stream),
                     handle,
                     {all(3), all(2), all(4)},
                     job.Buffer(rank, {0, 0, 0})});
  }
  for (int step = 0; step < 6; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      Rank& mine = ranks[rank];
      for (int p = 0; p < 3; ++p) {
        const ArenaBuffer& gradient = mine.gradients[p];
        ASSERT_EQ(job.engine(rank).Submit(p, gradient.data(), gradient.bytes(),
                                          mine.stream.get()),
                  absl::OkStatus());
      }
      const auto pending = job.engine(rank).Finish(
          {.samples = 1}, std::numeric_limits<double>::infinity(),
          mine.stream.get());
      ASSERT_TRUE(pending.ok()) << pending.status();
      backend_.gpus().LaunchKernel(
          mine.handle, [scalars = reinterpret_cast<const VerdictScalars*>(
                            job.Reach((*pending)->scalars())),
                        reduced = job.Floats(job.engine(rank).View(0)->data()),
                        weights = job.Floats(mine.weights.data())] {
            if (!MayUpdate(*scalars)) return;
            for (int i = 0; i < 3; ++i) weights[i] += reduced[i];
          });
    }
  }
  for (Rank& mine : ranks) {
    ASSERT_EQ(mine.stream->Synchronize(), absl::OkStatus());
    EXPECT_THAT(job.Get(mine.weights.data(), 3), Each(6 * 3.0f));
  }
}

// A step is decided and lost at once; the position is not known.
TEST_F(DeviceStepTest, ARankWhoseDeviceFailsReportsNoPosition) {
  BackendJob job(&backend_, {.parameters = kThree});
  Engine& engine = job.engine(0);
  StreamRank mine(&job, 0);
  mine.Fetch();
  StallUntil(mine.stream(), [] { return false; });
  ASSERT_EQ(mine.Submit(0), absl::OkStatus());
  // The gradients are in views: the call waits for the verdict.
  std::thread breaks([&] {
    absl::SleepFor(absl::Milliseconds(5));
    backend_.gpus().BreakDevice(0);
  });
  EXPECT_FALSE(engine
                   .Finish({.samples = 1},
                           std::numeric_limits<double>::infinity(),
                           &mine.stream())
                   .ok());
  breaks.join();
  engine.Abort(absl::AbortedError("over"));
  EXPECT_FALSE(engine.Report().ok());
}

// The results differ from those of the reductions.
TEST_F(DeviceStepTest, ADeviceThatFailsEndsTheStepWithItsError) {
  BackendJob job(&backend_, {.parameters = kThree});
  std::latch gone(1);
  job.Run([&](int rank, Engine& engine) {
    StreamRank mine(&job, rank);
    mine.Fetch();
    if (rank == 0) StallUntil(mine.stream(), [] { return false; });
    ASSERT_EQ(mine.Submit(0), absl::OkStatus());
    if (rank == 0) backend_.gpus().BreakDevice(0);
    std::thread aborts([&] {
      if (rank == 0) return;
      gone.wait();
      engine.Abort(absl::AbortedError("rank 0 has failed"));
    });
    EXPECT_FALSE(engine
                     .Finish({.samples = 1},
                             std::numeric_limits<double>::infinity(),
                             &mine.stream())
                     .ok());
    if (rank == 0) gone.count_down();
    aborts.join();
  });
}

TEST_F(DeviceStepTest, TheCallersThreadKeepsItsDevice) {
  BackendJob job(&backend_, {.parameters = kThree});
  job.Run([&](int rank, Engine& engine) {
    const fake::FakeThread before{.device = 5 + rank};
    backend_.gpus().SetCallingThread(before);
    const auto kept = [&] {
      const fake::FakeThread now = backend_.gpus().CallingThread();
      return now.device == before.device && !now.relaxed &&
             now.last_error == before.last_error;
    };
    StreamRank mine(&job, rank);
    mine.Fetch();
    for (uint64_t step = 0; step < 3; ++step) {
      ASSERT_EQ(mine.Submit(step), absl::OkStatus());
      EXPECT_TRUE(kept()) << "Submit";
      auto pending = mine.FinishAndUpdate();
      ASSERT_TRUE(pending.ok()) << pending.status();
      EXPECT_TRUE(kept()) << "FinishAsync";
      ASSERT_TRUE(pending->Wait().ok());
      EXPECT_TRUE(kept()) << "Wait";
      ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
      EXPECT_TRUE(kept()) << "Synchronize";
    }
    for (int p = 2; p >= 0; --p) {
      ASSERT_EQ(engine.Submit(p, nullptr, 0, nullptr), absl::OkStatus());
      EXPECT_TRUE(kept()) << "Submit without a stream";
    }
    ASSERT_TRUE(FinishBlocking(engine).ok());
    EXPECT_TRUE(kept()) << "Finish";
  });
}

}  // namespace
}  // namespace lockstep::gradient
