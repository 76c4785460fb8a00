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
      EXPECT_GT(cost->call_us, 0);
      EXPECT_THAT(sizes->sizes(), testing::ElementsAre(kRanks));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(gpus.violations(), testing::IsEmpty());
}

}  // namespace
}  // namespace lockstep
