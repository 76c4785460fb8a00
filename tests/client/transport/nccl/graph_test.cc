// CUDA graphs of this transport's operations, over the fake.

#include "client/transport/nccl/graph.h"

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/transport/nccl/device_scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/nccl/fake_world.h"
#include "tests/support/forwarding_tables.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

using fake::FakeGpuWorld;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using transport::nccl::Capture;
using transport::nccl::CudaStream;
using transport::nccl::LaunchableGraph;

constexpr size_t kCount = 5;

// Two ranks with a verdict's communicator and a gradient's. On each, one kernel
// computes a gradient and another uses the mean.
class GraphTest : public testing::TestWithParam<int> {
 protected:
  static constexpr int kRanks = 2;

  GraphTest()
      : world_({.seed = static_cast<uint64_t>(GetParam()),
                .residents_max = 1 + GetParam() % 2}),
        verdict_(conformance::Connect(world_, kRanks, "verdict")),
        gradient_(conformance::Connect(world_, kRanks, "gradient")),
        apart_(conformance::Connect(world_, kRanks, "apart")) {
    for (int rank = 0; rank < kRanks; ++rank) {
      streams_.push_back(world_.MakeStream(rank, ""));
      given_.emplace_back(kCount);
      mean_.emplace_back(kCount);
      used_.emplace_back(kCount);
      stamps_.push_back(0);
    }
  }
  ~GraphTest() override {
    graphs_.clear();
    for (auto* group : {&verdict_, &gradient_, &apart_}) CloseAll(*group);
    world_.End();
    EXPECT_THAT(world_.gpus().violations(), IsEmpty());
  }

  // Members leave concurrently, as their processes do.
  static void CloseAll(std::vector<std::unique_ptr<Communicator>>& group) {
    std::vector<std::thread> threads;
    for (auto& one : group) threads.emplace_back([&one] { one.reset(); });
    for (std::thread& thread : threads) thread.join();
  }

  CudaStream& stream(int rank) {
    return static_cast<CudaStream&>(*streams_[rank]);
  }

  // The captured part of a step reads and writes these buffers.
  absl::Status Enqueue(int rank) {
    world_.Enqueue(stream(rank), [this, rank] {
      for (float& value : mean_[rank]) value = given_[rank][0];
    });
    absl::Status posted = gradient_[rank]->AllReduce(
        mean_[rank].data(), mean_[rank].data(), kCount, DType::kF32,
        ReduceOp::kMean, stream(rank));
    world_.Enqueue(stream(rank), [this, rank] { used_[rank] = mean_[rank]; });
    world_.Enqueue(stream(rank), [this, rank] { stamps_[rank] = 1; });
    posted.Update(verdict_[rank]->AllReduce(&stamps_[rank], &stamps_[rank], 1,
                                            DType::kF32, ReduceOp::kSum,
                                            stream(rank)));
    return posted;
  }

  void CaptureOnAll() {
    for (int rank = 0; rank < kRanks; ++rank) {
      auto graph =
          Capture(world_.at(rank), stream(rank), [&] { return Enqueue(rank); });
      ASSERT_TRUE(graph.ok()) << graph.status();
      graphs_.push_back(*std::move(graph));
    }
  }

  void LaunchOnAll(float base) {
    for (int rank = 0; rank < kRanks; ++rank) {
      given_[rank][0] = base + static_cast<float>(rank);
      (void)graphs_[rank]->Launch(stream(rank));
    }
  }

  void ExpectMeans(float mean) {
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(stream(rank).Synchronize().ok());
      EXPECT_THAT(used_[rank], Each(mean)) << "rank " << rank;
      EXPECT_EQ(stamps_[rank], kRanks);
    }
  }

  // Expects that a communicator outside the graph still works.
  void ExpectApartWorks() {
    float ones[kRanks] = {1, 1};
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(apart_[rank]
                      ->AllReduce(&ones[rank], &ones[rank], 1, DType::kF32,
                                  ReduceOp::kSum, stream(rank))
                      .ok());
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      const absl::Status done = stream(rank).Synchronize();
      EXPECT_TRUE(done.ok()) << done;
      EXPECT_EQ(ones[rank], kRanks);
    }
  }

  FakeGpuWorld world_;
  std::vector<std::unique_ptr<Communicator>> verdict_, gradient_;
  std::vector<std::unique_ptr<Communicator>> apart_;  // not in the graph
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::vector<float>> given_, mean_, used_;
  std::vector<float> stamps_;
  std::vector<std::unique_ptr<LaunchableGraph>> graphs_;
};

INSTANTIATE_TEST_SUITE_P(Seeds, GraphTest,
                         testing::Range(1, kUnderThreadSanitizer ? 3 : 9));

TEST_P(GraphTest, RunsWhatWasCapturedAtEachLaunch) {
  CaptureOnAll();
  for (const auto& used : used_) EXPECT_THAT(used, Each(0));
  for (int step = 1; step <= 5; ++step) {
    LaunchOnAll(static_cast<float>(10 * step));
    ExpectMeans(static_cast<float>(10 * step) + 0.5f);
  }
}

// Graphs and operations have one launch order, whichever is ready first: an
// operation posted before a graph begins before it, and one posted after it
// begins after its end.
TEST_P(GraphTest, TakesItsTurnAmongOperations) {
  CaptureOnAll();
  std::vector<std::unique_ptr<Stream>> others;
  float loose[kRanks][2] = {};
  for (int rank = 0; rank < kRanks; ++rank) {
    others.push_back(world_.MakeStream(rank, "other"));
  }
  for (int round = 0; round < 6; ++round) {
    const std::vector<std::unique_ptr<Communicator>>* const groups[] = {
        &verdict_, &gradient_, &apart_};
    for (int when : {0, 1}) {
      for (int rank = 0; rank < kRanks; ++rank) {
        // In turn, one rank's gradient is late.
        for (int layer = 0; rank == round % kRanks && layer < 50; ++layer) {
          world_.Enqueue(*others[rank], [] {});
        }
        loose[rank][when] = 1;
        EXPECT_TRUE((*groups[(round / 2 + when) % 3])[rank]
                        ->AllReduce(&loose[rank][when], &loose[rank][when], 1,
                                    DType::kF32, ReduceOp::kSum, *others[rank])
                        .ok());
      }
      if (when == 0) LaunchOnAll(4);
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(others[rank]->Synchronize().ok());
      EXPECT_THAT(loose[rank], Each(kRanks));
    }
    ExpectMeans(4.5f);
  }
}

TEST_P(GraphTest, CapturesStreamsThatForkAndJoin) {
  const auto side = world_.MakeStream(0, "side");
  int order = 0, first = 0, second = 0, third = 0;
  auto graph = Capture(world_.at(0), stream(0), [&] {
    world_.Enqueue(stream(0), [&] { first = ++order; });
    side->WaitFor(stream(0).Record());
    world_.Enqueue(*side, [&] { second = ++order; });
    stream(0).WaitFor(side->Record());
    world_.Enqueue(stream(0), [&] { third = ++order; });
    return absl::OkStatus();
  });
  ASSERT_TRUE(graph.ok()) << graph.status();
  (void)(*graph)->Launch(stream(0));
  EXPECT_TRUE(stream(0).Synchronize().ok());
  EXPECT_EQ(std::vector({first, second, third}), std::vector({1, 2, 3}));
}

TEST_P(GraphTest, SaysWhatCannotBeCaptured) {
  const auto side = world_.MakeStream(0, "side");
  const auto unjoined = Capture(world_.at(0), stream(0), [&] {
    side->WaitFor(stream(0).Record());
    world_.Enqueue(*side, [] {});
    return absl::OkStatus();
  });
  EXPECT_FALSE(unjoined.ok());

  const auto waits =
      Capture(world_.at(0), stream(0), [&] { return stream(0).Synchronize(); });
  EXPECT_TRUE(absl::IsFailedPrecondition(waits.status())) << waits.status();

  const auto own = Capture(world_.at(0), stream(0),
                           [] { return absl::NotFoundError("no batch"); });
  EXPECT_EQ(own.status(), absl::NotFoundError("no batch"));

  const auto nested = Capture(world_.at(0), stream(0), [&] {
    auto inner = Capture(world_.at(0), *static_cast<CudaStream*>(side.get()),
                         [] { return absl::OkStatus(); });
    EXPECT_TRUE(absl::IsFailedPrecondition(inner.status())) << inner.status();
    return absl::OkStatus();
  });
  EXPECT_TRUE(nested.ok()) << nested.status();
}

// The adapter could not destroy it in time.
TEST_P(GraphTest, RefusesACaptureThatSomebodyElseBegan) {
  auto tables = world_.TablesOf(0);
  const transport::nccl::DeviceScope scope(*tables.cuda);
  transport::nccl::CudaGraphHandle graph = nullptr;
  tables.cuda->StreamBeginCapture(stream(0).handle());
  const absl::Status refused = Enqueue(0);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  tables.cuda->StreamEndCapture(stream(0).handle(), &graph);
  tables.cuda->GraphDestroy(graph);
}

TEST_P(GraphTest, AreDestroyedBeforeTheirCommunicatorsAreAborted) {
  CaptureOnAll();
  (void)graphs_[0]->Launch(stream(0));  // rank 1 never arrives
  gradient_[0]->Abort("the test says so");
  const absl::Status ended = stream(0).Synchronize();
  EXPECT_TRUE(absl::IsAborted(ended)) << ended;
  (void)graphs_[0]->Launch(stream(0));
  const absl::Status over = stream(0).Synchronize();
  EXPECT_TRUE(absl::IsAborted(over)) << over;
}

TEST_P(GraphTest, AreDestroyedBeforeTheirCommunicatorsEndInPeace) {
  CaptureOnAll();
  LaunchOnAll(1);
  ExpectMeans(1.5f);
  CloseAll(gradient_);
  for (auto& one : gradient_) EXPECT_EQ(one, nullptr);
  EXPECT_THAT(world_.gpus().AbortsOf(0), IsEmpty());
}

TEST_P(GraphTest, SaysThatItsCommunicatorEndedAndHarmsNoOther) {
  CaptureOnAll();
  CloseAll(gradient_);
  for (int rank = 0; rank < kRanks; ++rank) {
    (void)graphs_[rank]->Launch(stream(rank));
    const absl::Status over = stream(rank).Synchronize();
    EXPECT_TRUE(absl::IsAborted(over)) << over;
  }
  ExpectApartWorks();
  EXPECT_THAT(world_.gpus().AbortsOf(0), IsEmpty());
}

// The stream has not come to the graph; the communicator of another group goes
// on.
TEST_P(GraphTest, ALaunchThatWaitsEndsWithItsCommunicator) {
  CaptureOnAll();
  std::vector<std::unique_ptr<Stream>> others;
  float before[kRanks] = {1, 1};
  std::atomic<bool> open{false};
  for (int rank = 0; rank < kRanks; ++rank) {
    others.push_back(world_.MakeStream(rank, "other"));
    EXPECT_TRUE(apart_[rank]
                    ->AllReduce(&before[rank], &before[rank], 1, DType::kF32,
                                ReduceOp::kSum, *others[rank])
                    .ok());
    world_.gpus().StallUntil(stream(rank).handle(),
                             [&open] { return open.load(); });
    (void)graphs_[rank]->Launch(stream(rank));
  }
  std::thread opens([&] {
    for (int rank = 0; rank < kRanks; ++rank) {
      while (world_.gpus().AbortsOf(rank).empty()) std::this_thread::yield();
    }
    open = true;
  });
  CloseAll(gradient_);
  opens.join();
  for (int rank = 0; rank < kRanks; ++rank) {  // this one only was aborted
    EXPECT_THAT(world_.gpus().AbortsOf(rank), testing::ElementsAre(1));
    const absl::Status over = stream(rank).Synchronize();
    EXPECT_TRUE(absl::IsAborted(over)) << over;
    EXPECT_TRUE(others[rank]->Synchronize().ok());
    EXPECT_EQ(before[rank], kRanks);
  }
  ExpectApartWorks();
}

TEST_P(GraphTest, AnAbortWaitsForTheEndOfACapture) {
  const auto graph = Capture(world_.at(0), stream(0), [&] {
    absl::Status posted = Enqueue(0);
    gradient_[0]->Abort("while it is captured");
    posted.Update(Enqueue(0));
    return posted;
  });
  EXPECT_TRUE(absl::IsAborted(graph.status())) << graph.status();
  CloseAll(gradient_);
  EXPECT_THAT(world_.gpus().AbortsOf(0), testing::ElementsAre(0, 1, 2));
}

// Another thread's operation, which is not captured, runs after the capture if
// its communicator is part of it; that of another communicator does not wait.
TEST_P(GraphTest, WhatIsEnqueuedMeanwhileIsNotCaptured) {
  std::vector<std::unique_ptr<Stream>> others;
  for (int rank = 0; rank < kRanks; ++rank) {
    others.push_back(world_.MakeStream(rank, "other"));
  }
  std::vector<std::thread> threads;
  float loose[kRanks] = {1, 1}, free[kRanks] = {1, 1};
  for (int rank = 0; rank < kRanks; ++rank) {
    std::atomic<bool> begins{false};
    auto graph = Capture(world_.at(rank), stream(rank), [&] {
      absl::Status posted =
          verdict_[rank]->AllReduce(&free[rank], &free[rank], 1, DType::kF32,
                                    ReduceOp::kSum, *others[rank]);
      posted.Update(gradient_[rank]->AllReduce(
          mean_[rank].data(), mean_[rank].data(), kCount, DType::kF32,
          ReduceOp::kSum, stream(rank)));
      threads.emplace_back([&, rank] {
        begins = true;
        EXPECT_TRUE(gradient_[rank]
                        ->AllReduce(&loose[rank], &loose[rank], 1, DType::kF32,
                                    ReduceOp::kSum, *others[rank])
                        .ok());
      });
      while (!begins) std::this_thread::yield();
      posted.Update(gradient_[rank]->AllReduce(
          mean_[rank].data(), mean_[rank].data(), kCount, DType::kF32,
          ReduceOp::kSum, stream(rank)));
      return posted;
    });
    ASSERT_TRUE(graph.ok()) << graph.status();
    graphs_.push_back(*std::move(graph));
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(others[rank]->Synchronize().ok());
    EXPECT_EQ(free[rank], kRanks);
    EXPECT_EQ(loose[rank], kRanks);
    EXPECT_THAT(mean_[rank], Each(0));
  }
}

// The capturing thread would wait for itself.
TEST_P(GraphTest, TheCapturingThreadMayNotUseItsCommunicatorsElsewhere) {
  const auto other = world_.MakeStream(0, "other");
  float loose = 1;
  auto graph = Capture(world_.at(0), stream(0), [&] {
    absl::Status posted = Enqueue(0);
    posted.Update(gradient_[0]->AllReduce(&loose, &loose, 1, DType::kF32,
                                          ReduceOp::kSum, *other));
    return posted;
  });
  EXPECT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other->Synchronize()));
  EXPECT_TRUE(gradient_[0]->status().ok());
}

// A new revision: other buffers, the same communicators.
TEST_P(GraphTest, CaptureAnewReplacesTheOld) {
  CaptureOnAll();
  LaunchOnAll(2);
  ExpectMeans(2.5f);
  graphs_.clear();
  std::swap(mean_[0], mean_[1]);
  CaptureOnAll();
  LaunchOnAll(6);
  ExpectMeans(6.5f);
}

}  // namespace
}  // namespace lockstep
