// lockstep-perf's ranks in device memory, on fake GPUs.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_gpu.h"
#include "tools/perf/device_ground.h"
#include "tools/perf/operation.h"

namespace lockstep::perf {
namespace {

constexpr int kRanks = 3;

// Where ranks that are threads leave their handles.
class Board {
 public:
  std::vector<std::string> Exchange(int rank, const std::string& handle) {
    std::unique_lock lock(mutex_);
    handles_[rank] = handle;
    come_ += 1;
    changed_.notify_all();
    changed_.wait(lock, [this] { return come_ == kRanks; });
    return handles_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> handles_{kRanks};
  int come_ = 0;
};

TEST(PerfDeviceTest, EveryOperationIsRight) {
  for (const std::string& name : OperationNames()) {
    const Options options{
        .op = name, .iterations = 2, .warmup = 1, .ranks = kRanks};
    fake::FakeGpus gpus;
    Board board;
    std::vector<std::thread> threads;
    for (int r = 0; r < kRanks; ++r) {
      threads.emplace_back([&, r] {
        auto ground = MakeDeviceGround(gpus.TablesOf(r));
        ASSERT_TRUE(ground.ok()) << ground.status();
        Rank rank(options, r, *std::move(ground));
        ASSERT_EQ(rank.Connect([&](const std::string& handle) {
          return board.Exchange(r, handle);
        }),
                  absl::OkStatus());
        for (const size_t bytes : {1024, 9000}) {
          const auto row = rank.Measure(bytes);
          ASSERT_TRUE(row.ok()) << row.status();
          EXPECT_EQ(row->wrong, 0u) << name;
          EXPECT_GT(row->seconds, 0);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(gpus.violations(), testing::IsEmpty());
  }
}

}  // namespace
}  // namespace lockstep::perf
