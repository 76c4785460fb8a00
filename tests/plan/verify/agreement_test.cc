// Plans whose ranks disagree about a transfer.

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/plan/verify/broken.h"

namespace lockstep::plan {
namespace {

const std::vector<int> kEverybody = {0, 1, 2, 3};

// Appends an all-reduce over all ranks, altered on rank 3.
void AppendOnWorld(Plan& plan, void (*alter)(Transfer&)) {
  for (const int rank : kEverybody) {
    Transfer transfer = Together(Everybody(plan));
    if (rank == 3) alter(transfer);
    std::vector<Transfer>& lane = plan.ranks[rank].lanes[3].transfers;
    Launch(plan.ranks[rank], {3, static_cast<int>(lane.size())});
    lane.push_back(transfer);
  }
}

std::vector<Broken> BrokenAgreements() {
  return {
      {"collectives in another order",
       Rule::kCollectives,
       {0, 2},
       [](Plan& p) { std::swap(Reduction(p, 2, 0), Reduction(p, 2, 1)); }},
      {"a collective of another kind", Rule::kCollectives, kEverybody,
       [](Plan& p) {
         AppendOnWorld(p,
                       [](Transfer& t) { t.kind = TransferKind::kAllGather; });
       }},
      {"a collective of another count", Rule::kCollectives, kEverybody,
       [](Plan& p) { AppendOnWorld(p, [](Transfer& t) { t.shape = {8}; }); }},
      {"a collective of another dtype", Rule::kCollectives, kEverybody,
       [](Plan& p) {
         AppendOnWorld(p, [](Transfer& t) { t.dtype = DType::kI32; });
       }},
      {"a collective of another op", Rule::kCollectives, kEverybody,
       [](Plan& p) {
         AppendOnWorld(p, [](Transfer& t) { t.op = ReduceOp::kMax; });
       }},
      {"a broadcast from another root", Rule::kCollectives, kEverybody,
       [](Plan& p) {
         AppendOnWorld(p, [](Transfer&) {});
         for (const int rank : kEverybody) {
           Transfer& last = p.ranks[rank].lanes[3].transfers.back();
           last.kind = TransferKind::kBroadcast;
           last.root = rank == 3 ? 1 : 0;
         }
       }},
      {"a collective that one rank lacks", Rule::kCollectives, kEverybody,
       [](Plan& p) {
         AppendOnWorld(p, [](Transfer&) {});
         p.ranks[2].lanes[3].transfers.pop_back();
         std::erase(p.ranks[2].launch_order, TransferRef{3, 0});
       }},
      {"another tag",
       Rule::kPointToPoint,
       {2, 3},
       [](Plan& p) { Message(p, 3).tag = 8; }},
      {"another dtype",
       Rule::kPointToPoint,
       {0, 1},
       [](Plan& p) { Message(p, 0).dtype = DType::kF64; }},
      {"another shape of the same size",
       Rule::kPointToPoint,
       {0, 1},
       [](Plan& p) {
         Message(p, 1).shape = {2, 2};
       }},
      {"a send without a receive",
       Rule::kPointToPoint,
       {0, 1},
       [](Plan& p) {
         p.ranks[0].lanes[1].transfers.push_back(Message(p, 0));
         Launch(p.ranks[0], {1, 1});
       }},
      {"a receive without a send",
       Rule::kPointToPoint,
       {2, 3},
       [](Plan& p) {
         p.ranks[3].lanes[1].transfers.push_back(Message(p, 3));
         Launch(p.ranks[3], {1, 1});
       }},
      {"two messages in different orders, inside a group",
       Rule::kPointToPoint,
       {0, 2},
       [](Plan& p) {
         for (const int rank : {0, 2}) {
           Exchange(p, rank, 0).kind =
               rank == 0 ? TransferKind::kSend : TransferKind::kRecv;
           Exchange(p, rank, 1) = Exchange(p, rank, 0);
         }
         Exchange(p, 0, 0).tag = 1;
         Exchange(p, 2, 1).tag = 1;
       }},
  };
}

TEST(AgreementTest, EveryDisagreementIsRefused) {
  ExpectRefused(BrokenAgreements(), {Rule::kCollectives, Rule::kPointToPoint});
}

TEST(AgreementTest, BucketsThatLookAlikeMustNotBeSwapped) {
  PlanInput input = Alike(MeshOf({{"data", 2}}), {{.name = "a", .shape = {8}},
                                                  {.name = "b", .shape = {8}}});
  input.policy = {.first_bytes_max = 1, .bytes_max = 1};
  Plan plan = *Compile(input);
  ASSERT_TRUE(Verify(plan).ok());
  std::swap(Reduction(plan, 1, 0), Reduction(plan, 1, 1));
  const std::vector<Diagnostic> diagnostics = DiagnosticsIn(plan);
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_TRUE(diagnostics[0].rule == Rule::kCollectives);
}

TEST(AgreementTest, SaysWhoDisagreesAndOnWhat) {
  Plan plan = GoodPlan();
  std::swap(Reduction(plan, 2, 0), Reduction(plan, 2, 1));
  const std::string message(Verify(plan).message());
  EXPECT_THAT(message, testing::HasSubstr("rank 0: all-reduce of 33 f16, sum, "
                                          "bucket 1"));
  EXPECT_THAT(message, testing::HasSubstr("rank 2: all-reduce of 33 f32, mean, "
                                          "bucket 3"));
}

}  // namespace
}  // namespace lockstep::plan
