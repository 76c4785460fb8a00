// The bench of an operation's cost on the host keeps NCCL's rules, which real
// communicators enforce: those of its own that do not block are polled.

#include "bench/enqueue_cost.h"

#include <memory>
#include <set>

#include "bench/idle_tables.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

// As NCCL: a communicator that does not block takes nothing new before it was
// asked whether it is ready.
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
  const auto cost = bench::MeasureEnqueue(tables, kCalls, /*with_raw=*/true);
  ASSERT_TRUE(cost.ok()) << cost.status();
  // NCCL's own calls and ours, in each round.
  EXPECT_GE(strict->calls(), 2 * kCalls);
  EXPECT_EQ(strict->calls() % (2 * kCalls), 0);
}

}  // namespace
}  // namespace lockstep
