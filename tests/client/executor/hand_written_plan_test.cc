// A plan that no compiler generates also runs: lanes of every kind, beside the
// gradients.

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/plan_json.h"
#include "plan/verify/verify.h"
#include "tests/client/executor/trace.h"
#include "tests/client/gradient/backend_job.h"
#include "tests/support/recording_communicator.h"

namespace lockstep::executor {
namespace {

using gradient::BackendJob;
using gradient::Engine;
using gradient::FakeGpuBackend;
using gradient::FinishBlocking;
using gradient::HostMemoryBackend;
using gradient::MemoryBackend;
using plan::LaneKind;
using plan::TransferKind;
using plan::TransferRef;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kHandWrittenSteps = 3;

// The lanes of a rank: $SEND and $RECV are the tags of its sends and receives,
// $PEER is the other rank, $NORM its share of the norm.
constexpr char kRank[] = R"({
  "lanes": [
    {"kind": "gradient", "name": "gradient", "transfers": [
      {"kind": "all-reduce", "communicator": 1, "shape": [17], "bucket": 0,
       "before": [{"kind": "write-flags", "offset": 16, "count": 1}],
       "then": [{"kind": "read-flags", "offset": 16, "count": 1}$NORM]}]},
    {"kind": "state", "name": "corners", "transfers": [
      {"kind": "all-to-all", "communicator": 2, "shape": [4]}]},
    {"kind": "state", "name": "edges", "transfers": [
      {"kind": "send", "communicator": 3, "shape": [3], "peer": $PEER,
       "tag": $SEND, "group": 1, "after": [[1, 0]]},
      {"kind": "recv", "communicator": 3, "shape": [3], "peer": $PEER,
       "tag": $RECV, "group": 1}]},
    {"kind": "state", "name": "weights", "transfers": [
      {"kind": "broadcast", "communicator": 4, "shape": [5], "root": 0}]},
    {"kind": "verdict", "name": "verdict", "transfers": [
      {"kind": "all-reduce", "communicator": 0, "dtype": "f64", "shape": [13],
       "group": 1, "before": [{"kind": "write-summary"}]},
      {"kind": "all-reduce", "communicator": 0, "dtype": "u64", "shape": [8],
       "op": "max", "group": 1, "then": [{"kind": "read-summary"}]}]}],
  "launch_order": [[1,0], [0,0], [2,0], [2,1], [3,0], [4,0], [4,1]]
})";

constexpr char kPlan[] = R"({
  "revision": 1, "mesh": "data=2",
  "communicators": [
    {"name": "world", "ranks": [0, 1]}, {"name": "data@0", "ranks": [0, 1]},
    {"name": "corners", "ranks": [0, 1]}, {"name": "edges", "ranks": [0, 1]},
    {"name": "weights", "ranks": [0, 1]}],
  "parameters": [{"name": "w", "shape": [4], "op": "sum"}],
  "buckets": [{"communicator": 1, "op": "sum",
               "slots": [{"parameter": 0, "count": 4}],
               "flags_offset": 16, "total": 17}],
  "ranks": [$RANK0, $RANK1]
})";

std::string Text() {
  const std::string rank0 = absl::StrReplaceAll(
      kRank, {{"$SEND", "1"},
              {"$RECV", "2"},
              {"$PEER", "1"},
              {"$NORM", R"(, {"kind": "norm", "count": 16})"}});
  const std::string rank1 = absl::StrReplaceAll(
      kRank, {{"$SEND", "2"}, {"$RECV", "1"}, {"$PEER", "0"}, {"$NORM", ""}});
  return absl::StrReplaceAll(kPlan, {{"$RANK0", rank0}, {"$RANK1", rank1}});
}

// The memory of a rank's state lanes.
class StateMemory final : public LaneOwner {
 public:
  StateMemory(BackendJob* job, int rank)
      : job_(*job),
        corners_(job->Buffer(rank, std::vector<float>(4))),
        from_all_(job->Buffer(rank, std::vector<float>(4))),
        edge_(job->Buffer(rank, std::vector<float>(3))),
        from_peer_(job->Buffer(rank, std::vector<float>(3))),
        weights_(job->Buffer(rank, std::vector<float>(5))) {}

  void Put(float value) {
    job_.Put(corners_.data(), {value, value + 1, value + 2, value + 3});
    job_.Put(edge_.data(), {value + 10, value + 11, value + 12});
    job_.Put(weights_.data(), std::vector<float>(5, value));
  }
  std::vector<float> FromAll() { return job_.Get(from_all_.data(), 4); }
  std::vector<float> FromPeer() { return job_.Get(from_peer_.data(), 3); }
  std::vector<float> Weights() { return job_.Get(weights_.data(), 5); }
  const absl::Status& failure() const { return failure_; }

 private:
  Operands OperandsOf(TransferRef, const plan::Transfer& t) override {
    switch (t.kind) {
      case TransferKind::kAllToAll: return {corners_.data(), from_all_.data()};
      case TransferKind::kSend: return {edge_.data(), nullptr};
      case TransferKind::kRecv: return {nullptr, from_peer_.data()};
      default: return {nullptr, weights_.data()};
    }
  }
  void Failed(const plan::Transfer&, int, const absl::Status& error) override {
    failure_ = error;
  }

  BackendJob& job_;
  const ArenaBuffer corners_, from_all_, edge_, from_peer_, weights_;
  absl::Status failure_;
};

class HandWrittenPlan : public testing::TestWithParam<bool> {
 protected:
  static std::unique_ptr<MemoryBackend> MakeBackend() {
    if (GetParam()) return std::make_unique<FakeGpuBackend>(/*seed=*/5);
    return std::make_unique<HostMemoryBackend>();
  }
};

TEST_P(HandWrittenPlan, RunsStateLanesBesideGradients) {
  const absl::StatusOr<plan::Plan> plan = plan::PlanFromJson(Text());
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan::Verify(*plan), absl::OkStatus());

  const std::unique_ptr<MemoryBackend> backend = MakeBackend();
  std::deque<Recorder> recorders(2);
  BackendJob job(
      backend.get(),
      {.parameters = {{.name = "w", .shape = {4}, .op = ReduceOp::kSum}},
       .wrap =
           [&](int rank, const std::string& name,
               std::unique_ptr<Communicator> inner) {
             return std::make_unique<RecordingCommunicator>(
                 name, std::move(inner), &recorders[rank]);
           },
       .plan = *plan});
  job.Run([&](int rank, Engine& engine) {
    Executor& executor = job.executor(rank);
    StateMemory mine(&job, rank);
    executor.SetOwner(LaneKind::kState, &mine);
    // Ready in a different order on each rank. Each lane proceeds independently
    // or, on a device, in the plan's single order.
    std::vector<TransferRef> order = {{3, 0}, {2, 0}, {2, 1}, {1, 0}};
    if (rank == 1) order = {{1, 0}, {2, 1}, {3, 0}, {2, 0}};
    for (int step = 0; step < kHandWrittenSteps; ++step) {
      const float base = 100.0f * step;
      mine.Put(base + 20 * rank);
      job.Put(rank, 0, {base, base + 1, base + rank, 1});
      if (rank == 0) {
        ASSERT_EQ(engine.Submit(0, nullptr, 0, nullptr), absl::OkStatus());
      }
      for (const TransferRef& ref : order) {
        ASSERT_EQ(executor.MarkReady(ref), absl::OkStatus());
      }
      if (rank == 1) {
        ASSERT_EQ(engine.Submit(0, nullptr, 0, nullptr), absl::OkStatus());
      }
      for (const TransferRef& ref : order) {
        const absl::StatusOr<Event> over = executor.Launched(ref);
        ASSERT_TRUE(over.ok()) << over.status();
        ASSERT_EQ(over->Wait(), absl::OkStatus());
      }
      EXPECT_THAT(mine.FromAll(),
                  ElementsAre(base + 2 * rank, base + 2 * rank + 1,
                              base + 20 + 2 * rank, base + 20 + 2 * rank + 1));
      const float peer = base + 20 * (1 - rank);
      EXPECT_THAT(mine.FromPeer(),
                  ElementsAre(peer + 10, peer + 11, peer + 12));
      EXPECT_THAT(mine.Weights(), testing::Each(base));
      const absl::StatusOr<Verdict> verdict = FinishBlocking(engine);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      const std::vector<float> sum = job.Get(rank, 0);
      EXPECT_THAT(sum, ElementsAre(2 * base, 2 * base + 2, 2 * base + 1, 2));
      double squares = 0;
      for (const double x : sum) squares += x * x;
      EXPECT_NEAR(verdict->global_norm, std::sqrt(squares), 1e-3);
    }
    EXPECT_EQ(mine.failure(), absl::OkStatus());
    executor.SetOwner(LaneKind::kState, nullptr);
  });
  for (int rank = 0; rank < 2; ++rank) {
    const Trace trace(*plan, rank, recorders[rank].calls(), kHandWrittenSteps);
    EXPECT_EQ(trace.Difference(), "") << "rank " << rank;
  }
}

// The executor takes the plan's parameters of other lanes: a different root
// sends a different value.
TEST_P(HandWrittenPlan, AnotherRootBringsAnotherValue) {
  const absl::StatusOr<plan::Plan> plan = plan::PlanFromJson(
      absl::StrReplaceAll(Text(), {{R"("root": 0)", R"("root": 1)"}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::unique_ptr<MemoryBackend> backend = MakeBackend();
  BackendJob job(
      backend.get(),
      {.parameters = {{.name = "w", .shape = {4}, .op = ReduceOp::kSum}},
       .plan = *plan});
  job.Run([&](int rank, Engine& engine) {
    StateMemory mine(&job, rank);
    job.executor(rank).SetOwner(LaneKind::kState, &mine);
    mine.Put(20.0f * rank);
    for (const TransferRef& ref : {TransferRef{1, 0}, {2, 0}, {2, 1}, {3, 0}}) {
      ASSERT_EQ(job.executor(rank).MarkReady(ref), absl::OkStatus());
    }
    ASSERT_EQ(engine.Submit(0, nullptr, 0, nullptr), absl::OkStatus());
    ASSERT_TRUE(FinishBlocking(engine).ok());
    EXPECT_THAT(mine.Weights(), testing::Each(20));
    job.executor(rank).SetOwner(LaneKind::kState, nullptr);
  });
}

INSTANTIATE_TEST_SUITE_P(Grounds, HandWrittenPlan, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "fake_gpu" : "host";
                         });

}  // namespace
}  // namespace lockstep::executor
