// Plans with one wrong lane of one rank, one plan for each rule.

#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/plan/verify/broken.h"

namespace lockstep::plan {
namespace {

std::vector<Broken> BrokenLanes() {
  return {
      {"a lane of no kind",
       Rule::kLanes,
       {1},
       [](Plan& p) { p.ranks[1].lanes[0].kind = static_cast<LaneKind>(9); }},
      {"a lane's name twice",
       Rule::kLanes,
       {2},
       [](Plan& p) { p.ranks[2].lanes[1].name = "gradient"; }},
      {"a second gradient lane",
       Rule::kLanes,
       {2},
       [](Plan& p) { p.ranks[2].lanes[3].kind = LaneKind::kGradient; }},
      {"a pipeline's lane without a pipeline",
       Rule::kLanes,
       {1},
       [](Plan& p) { p.ranks[1].lanes[3].kind = LaneKind::kPipeline; }},
      {"a communicator in two lanes",
       Rule::kLanes,
       {0},
       [](Plan& p) {
         Transfer transfer = Message(p, 0);
         p.ranks[0].lanes[2].transfers.push_back(transfer);
         Launch(p.ranks[0], {2, 2});
       }},
      {"a transfer of no kind",
       Rule::kTransfers,
       {3},
       [](Plan& p) { Message(p, 3).kind = static_cast<TransferKind>(0); }},
      {"a transfer on no communicator",
       Rule::kTransfers,
       {3},
       [](Plan& p) { Message(p, 3).communicator = -1; }},
      {"a transfer on the verdict's communicator",
       Rule::kTransfers,
       {0},
       [](Plan& p) { Message(p, 0).communicator = 0; }},
      {"a verdict on another communicator",
       Rule::kTransfers,
       {0},
       [](Plan& p) {
         p.ranks[0].lanes[4].transfers[0].communicator = Everybody(p);
       }},
      {"a gradient lane's transfer without a bucket",
       Rule::kTransfers,
       {2},
       [](Plan& p) {
         std::vector<Transfer>& lane = p.ranks[2].lanes[0].transfers;
         Launch(p.ranks[2], {0, static_cast<int>(lane.size())});
         lane.push_back(Together(Everybody(p)));
       }},
      {"a transfer of strangers",
       Rule::kTransfers,
       {3},
       [](Plan& p) {
         Message(p, 3).communicator = Message(p, 0).communicator;
       }},
      {"no dtype",
       Rule::kTransfers,
       {0},
       [](Plan& p) { Message(p, 0).dtype = static_cast<DType>(77); }},
      {"a negative shape",
       Rule::kTransfers,
       {0},
       [](Plan& p) { Message(p, 0).shape = {-4}; }},
      {"a shape beyond counting",
       Rule::kTransfers,
       {0},
       [](Plan& p) {
         Message(p, 0).shape = {int64_t{1} << 62, int64_t{1} << 62};
       }},
      {"a bucket with a shape beyond counting",
       Rule::kTransfers,
       {0},
       [](Plan& p) {
         Reduction(p, 0).shape = {int64_t{1} << 62, int64_t{1} << 62};
       }},
      {"a barrier with a shape",
       Rule::kTransfers,
       {0},
       [](Plan& p) {
         Message(p, 0) = {.kind = TransferKind::kBarrier,
                          .communicator = Everybody(p),
                          .shape = {1}};
       }},
      {"a scatter that does not divide",
       Rule::kTransfers,
       {0},
       [](Plan& p) {
         Message(p, 0) = {.kind = TransferKind::kReduceScatter,
                          .communicator = Everybody(p),
                          .shape = {7}};
       }},
      {"an op without a reduction",
       Rule::kTransfers,
       {0},
       [](Plan& p) { Message(p, 0).op = ReduceOp::kMax; }},
      {"a reduction without an op",
       Rule::kTransfers,
       {0},
       [](Plan& p) {
         Message(p, 0) = Together(Everybody(p));
         Message(p, 0).op = static_cast<ReduceOp>(0);
       }},
      {"a mean of integers",
       Rule::kTransfers,
       {0},
       [](Plan& p) {
         Message(p, 0) = {.kind = TransferKind::kAllReduce,
                          .communicator = Everybody(p),
                          .dtype = DType::kI32,
                          .shape = {7},
                          .op = ReduceOp::kMean};
       }},
      {"a broadcast without a root",
       Rule::kTransfers,
       {0},
       [](Plan& p) {
         Message(p, 0) = {.kind = TransferKind::kBroadcast,
                          .communicator = Everybody(p),
                          .shape = {7}};
       }},
      {"a root without a broadcast",
       Rule::kTransfers,
       {0},
       [](Plan& p) { Message(p, 0).root = 0; }},
      {"a message to nobody",
       Rule::kTransfers,
       {0},
       [](Plan& p) { Message(p, 0).peer = 2; }},
      {"a message to oneself",
       Rule::kTransfers,
       {1},
       [](Plan& p) { Message(p, 1).peer = 1; }},
      {"a collective with a tag",
       Rule::kTransfers,
       {1},
       [](Plan& p) { Reduction(p, 1).tag = 1; }},
      {"a negative group",
       Rule::kTransfers,
       {1},
       [](Plan& p) { Message(p, 1).group = -1; }},
      {"a bucket that does not exist",
       Rule::kTransfers,
       {1},
       [](Plan& p) { Reduction(p, 1).bucket = 99; }},
      {"a bucket of another size",
       Rule::kTransfers,
       {1},
       [](Plan& p) { ++Reduction(p, 1).shape[0]; }},
      {"a bucket outside a gradient lane",
       Rule::kTransfers,
       {1},
       [](Plan& p) { p.ranks[1].lanes[0].kind = LaneKind::kState; }},
      {"a dependency on nothing",
       Rule::kTransfers,
       {1},
       [](Plan& p) {
         Message(p, 1).after = {{3, 0}};
       }},
      {"a dependency on the verdict",
       Rule::kTransfers,
       {1},
       [](Plan& p) {
         Message(p, 1).after = {{4, 1}};
       }},
      {"a dependency on itself",
       Rule::kTransfers,
       {1},
       [](Plan& p) {
         Message(p, 1).after = {{1, 0}};
       }},
      {"a bucket reduced twice",
       Rule::kBucketCoverage,
       {2},
       [](Plan& p) { Reduction(p, 2, 1) = Reduction(p, 2, 0); }},
      {"a bucket never reduced",
       Rule::kBucketCoverage,
       {3},
       [](Plan& p) {
         p.ranks[3].lanes[0].transfers.pop_back();
         std::erase(p.ranks[3].launch_order, TransferRef{0, 2});
       }},
      {"a transfer never launched",
       Rule::kLaunchOrder,
       {0},
       [](Plan& p) { p.ranks[0].launch_order.pop_back(); }},
      {"a transfer launched twice",
       Rule::kLaunchOrder,
       {0},
       [](Plan& p) {
         p.ranks[0].launch_order.push_back({1, 0});
       }},
      {"a launch of nothing",
       Rule::kLaunchOrder,
       {0},
       [](Plan& p) {
         p.ranks[0].launch_order[0] = {5, 0};
       }},
      {"a lane launched out of order",
       Rule::kLaunchOrder,
       {3},
       [](Plan& p) {
         std::swap(p.ranks[3].launch_order[2], p.ranks[3].launch_order[3]);
       }},
      {"a launch behind the verdict",
       Rule::kLaunchOrder,
       {0},
       [](Plan& p) {
         std::vector<TransferRef>& order = p.ranks[0].launch_order;
         std::rotate(order.end() - 3, order.end() - 2, order.end());
       }},
      {"a group torn apart",
       Rule::kLaunchOrder,
       {0},
       [](Plan& p) {
         std::vector<TransferRef>& order = p.ranks[0].launch_order;
         // After them are the verdict's two launches.
         std::swap(order[order.size() - 4], order[order.size() - 5]);
       }},
  };
}

TEST(LanesTest, EveryBrokenOneIsRefused) {
  ExpectRefused(BrokenLanes(), {Rule::kLanes, Rule::kTransfers,
                                Rule::kBucketCoverage, Rule::kLaunchOrder});
}

}  // namespace
}  // namespace lockstep::plan
