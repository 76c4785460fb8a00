// lockstep-perf's ranks in device memory, on fake GPUs.

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/forwarding_tables.h"
#include "tools/perf/axis_operation.h"
#include "tools/perf/device_backend.h"
#include "tools/perf/operation.h"

namespace lockstep::perf {
namespace {

constexpr int kRanks = 3;

// Exchanges the handles of ranks that are threads.
class HandlePipes {
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

using Tables = transport::nccl::Tables;

// Measures on every rank concurrently, and calls check(row) with each result.
template <typename Decorate, typename Check>
void MeasureAll(const PerfOptions& options, Decorate decorate, Check check) {
  fake::FakeGpus gpus;
  HandlePipes exchange;
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      Tables tables = gpus.TablesOf(r);
      decorate(r, &tables);
      auto backend = MakeDeviceBackend(tables);
      ASSERT_TRUE(backend.ok()) << backend.status();
      PerfRank rank(options, r, *std::move(backend));
      ASSERT_EQ(rank.Connect([&](const std::string& handle) {
        return exchange.Exchange(r, handle);
      }),
                absl::OkStatus());
      for (const size_t bytes : {1024, 9000}) {
        const auto row = rank.Measure(bytes);
        ASSERT_TRUE(row.ok()) << row.status();
        check(*row);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(gpus.violations(), testing::IsEmpty());
}

TEST(PerfDeviceTest, EveryOperationIsRight) {
  for (const std::string& name : OperationNames()) {
    if (IsAxisOperation(name)) continue;  // of host memory only
    MeasureAll(
        {.op = name, .iterations = 2, .warmup = 1, .ranks = kRanks},
        [](int, Tables*) {},
        [&](const Row& row) {
          EXPECT_EQ(row.wrong, 0u) << name;
          EXPECT_GT(row.seconds, 0);
        });
  }
}

// Barriers that do not wait, except that rank 0's ends only after the others
// have left theirs.
class BrokenBarriers final : public fake::ForwardingNccl {
 public:
  BrokenBarriers(std::shared_ptr<NcclApi> inner, int rank,
                 std::atomic<int>* told)
      : ForwardingNccl(std::move(inner)), rank_(rank), told_(*told) {}

  Result AllReduce(const void* in, void* out, size_t count, DType dtype, Op op,
                   Comm comm, StreamHandle stream) override {
    const bool barrier = dtype == DType::kUint8;
    while (barrier && rank_ == 0 && told_ < kRanks - 1) {
      std::this_thread::yield();
    }
    return inner_->AllReduce(in, out, barrier ? 0 : count, dtype, op, comm,
                             stream);
  }
  Result AllGather(const void* in, void* out, size_t count, DType dtype,
                   Comm comm, StreamHandle stream) override {
    told_ += rank_ != 0;
    return inner_->AllGather(in, out, count, dtype, comm, stream);
  }

 private:
  const int rank_;
  std::atomic<int>& told_;
};

TEST(PerfDeviceTest, ABarrierThatDoesNotHoldIsWrong) {
  std::atomic<int> told = 0;
  std::atomic<size_t> wrong = 0;
  MeasureAll(
      {.op = "barrier", .iterations = 2, .warmup = 1, .ranks = kRanks},
      [&](int rank, Tables* tables) {
        tables->nccl =
            std::make_shared<BrokenBarriers>(tables->nccl, rank, &told);
      },
      [&](const Row& row) { wrong += row.wrong; });
  EXPECT_GE(wrong, static_cast<size_t>(kRanks - 1));
}

}  // namespace
}  // namespace lockstep::perf
