// The benchmark of an operation's host cost follows NCCL's rules: it polls its
// own non-blocking communicators.

#include "bench/enqueue_cost.h"

#include <barrier>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bench/idle_tables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

// As NCCL: a non-blocking communicator accepts no new call before it was
// polled.
class StrictNccl final : public fake::ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommInitRankConfig(Comm* comm, int size, const Id& id, int rank,
                            Config* config) override {
    const Result made =
        inner_->CommInitRankConfig(comm, size, id, rank, config);
    if (config->blocking == 0) polled_.insert(*comm);
    return made;
  }
  Result AllReduce(const void* in, void* out, size_t count, DType dtype, Op op,
                   Comm comm, StreamHandle stream) override {
    if (polled_.count(comm) == 0) {
      return inner_->AllReduce(in, out, count, dtype, op, comm, stream);
    }
    if (!busy_.insert(comm).second) return Result::kInvalidArgument;
    ++calls_;
    return Result::kInProgress;
  }
  Result CommGetAsyncError(Comm comm, Result* error) override {
    busy_.erase(comm);
    return inner_->CommGetAsyncError(comm, error);
  }
  int calls() const { return calls_; }

 private:
  std::set<Comm> polled_, busy_;
  int calls_ = 0;
};

TEST(EnqueueCostTest, PollsWhatDoesNotBlock) {
  constexpr int kCalls = 20;
  fake::FakeGpus gpus;
  auto tables = bench::IdleTables(&gpus);
  const auto strict = std::make_shared<StrictNccl>(tables.nccl);
  tables.nccl = strict;
  const auto cost = bench::MeasureEnqueue(
      tables, {}, {.batches = 3, .calls = kCalls, .with_raw = true});
  ASSERT_TRUE(cost.ok()) << cost.status();
  // Direct NCCL calls and ours, in each round.
  EXPECT_GE(strict->calls(), 2 * kCalls);
  EXPECT_EQ(strict->calls() % (2 * kCalls), 0);
}

// Records the sizes of the communicators.
class SizesNccl final : public fake::ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommInitRankConfig(Comm* comm, int size, const Id& id, int rank,
                            Config* config) override {
    sizes_.push_back(size);
    return inner_->CommInitRankConfig(comm, size, id, rank, config);
  }
  const std::vector<int>& sizes() const { return sizes_; }

 private:
  std::vector<int> sizes_;
};

// With one rank NCCL takes another code path.
TEST(EnqueueCostTest, MeasuresCommunicatorsOfAllItsRanks) {
  constexpr int kRanks = 2;
  fake::FakeGpus gpus;
  std::barrier met(kRanks);
  std::vector<std::string> lines(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      auto tables = gpus.TablesOf(rank);
      const auto sizes = std::make_shared<SizesNccl>(tables.nccl);
      tables.nccl = sizes;
      const auto exchange = [&](const std::string& line) {
        lines[rank] = line;
        met.arrive_and_wait();
        const std::vector<std::string> all = lines;
        met.arrive_and_wait();
        return all;
      };
      const auto cost = bench::MeasureEnqueue(
          tables, {.rank = rank, .size = kRanks, .exchange = exchange},
          {.batches = 2, .calls = 5});
      ASSERT_TRUE(cost.ok()) << cost.status();
      EXPECT_GT(cost->queued_us, 0);
      EXPECT_THAT(sizes->sizes(), testing::ElementsAre(kRanks));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(gpus.violations(), testing::IsEmpty());
}

}  // namespace
}  // namespace lockstep
