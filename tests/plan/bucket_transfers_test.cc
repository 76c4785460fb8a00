// The operations of each kind of bucket, one by one.

#include "plan/bucket_transfers.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/records.h"
#include "plan/summary.h"
#include "plan/verify/verify.h"
#include "tests/plan/plans.h"

namespace lockstep::plan {
namespace {

using testing::ElementsAre;

std::string Text(const LocalOp& op) {
  std::string text(Name(op.kind));
  if (op.kind == LocalKind::kCast || op.kind == LocalKind::kCastFeedback ||
      op.kind == LocalKind::kSumPairs) {
    absl::StrAppendFormat(&text, " %s>%s", Name(op.from), Name(op.to));
  }
  absl::StrAppend(&text, " ", op.offset, "+", op.count);
  if (op.leaf >= 0) absl::StrAppend(&text, " leaf ", op.leaf);
  if (op.divisor != 1) absl::StrAppend(&text, " by ", op.divisor);
  return text;
}

// Transfers with their local operations before and after, one on each line.
std::vector<std::string> Lines(const std::vector<Transfer>& transfers) {
  std::vector<std::string> lines;
  for (const Transfer& transfer : transfers) {
    for (const LocalOp& op : transfer.before) lines.push_back(Text(op));
    lines.push_back(absl::StrCat(
        "| ", Describe(transfer), transfer.group == 0 ? "" : ", grouped",
        transfer.divisor == 1 ? "" : absl::StrCat(" by ", transfer.divisor)));
    for (const LocalOp& op : transfer.then) lines.push_back(Text(op));
  }
  return lines;
}

// 40 elements in a bucket of 48, or in slices of 32 for two ranks.
PlanInput OneParameter(DType dtype = DType::kF32,
                       ReduceOp op = ReduceOp::kMean) {
  return Alike(MeshOf({{"data", 2}}),
               {{.name = "w", .shape = {40}, .dtype = dtype, .op = op}});
}

std::vector<std::string> LinesOf(const PlanInput& input, int rank = 1) {
  const Plan plan = *Compile(input);
  EXPECT_EQ(Verify(plan), absl::OkStatus());
  return Lines(plan.ranks[rank].lanes[0].transfers);
}

TEST(BucketTransfersTest, AWholeBucket) {
  EXPECT_THAT(
      LinesOf(OneParameter()),
      ElementsAre("write-flags 48+1", "| all-reduce of 49 f32, mean, bucket 0",
                  "read-flags 48+1", "norm 32+16"));
}

TEST(BucketTransfersTest, AWholeBucketWithAWire) {
  PlanInput input = OneParameter();
  input.policy.wire_dtype = DType::kBF16;
  EXPECT_THAT(
      LinesOf(input, 0),
      ElementsAre("cast f32>bf16 0+48", "write-flags 48+1",
                  "| all-reduce of 49 bf16, mean, bucket 0",
                  "cast bf16>f32 0+48", "read-flags 48+1", "norm 0+32"));
  input.policy.error_feedback = true;
  EXPECT_EQ(LinesOf(input)[0], "cast-feedback f32>bf16 0+48");
}

TEST(BucketTransfersTest, AShardedBucket) {
  PlanInput input = OneParameter();
  input.sync = SyncMode::kReduceScatter;
  EXPECT_THAT(LinesOf(input),
              ElementsAre("| all-gather of 32 f32, bucket 0",
                          "| reduce-scatter of 64 f32, mean, bucket 0, grouped",
                          "norm 32+8", "write-flags 64+1",
                          "| all-reduce of 1 f32, mean, bucket 0, grouped",
                          "read-flags 64+1"));
  input.policy.wire_dtype = DType::kF16;
  EXPECT_THAT(
      LinesOf(input),
      ElementsAre("| all-gather of 32 f32, bucket 0", "cast f32>f16 0+64",
                  "| reduce-scatter of 64 f16, mean, bucket 0, grouped",
                  "cast f16>f32 32+32", "norm 32+8", "write-flags 64+1",
                  "| all-reduce of 1 f16, mean, bucket 0, grouped",
                  "read-flags 64+1"));
}

TEST(BucketTransfersTest, ExchangedLeaves) {
  PlanInput input = OneParameter(DType::kBF16);
  input.leaves = 4;
  EXPECT_THAT(LinesOf(input, 0),
              ElementsAre("| all-to-all of 128 f32, bucket 0",
                          "sum-pairs f32>bf16 0+64 by 4",
                          "| all-gather of 64 bf16, bucket 0, grouped",
                          "norm 0+128 leaf 0", "write-flags 128+1",
                          "| all-reduce of 1 bf16, mean, bucket 0, grouped",
                          "read-flags 128+1"));
  // The only run of the sum tree belongs to rank 0's first leaf.
  EXPECT_THAT(LinesOf(input, 1),
              ElementsAre("| all-to-all of 128 f32, bucket 0",
                          "sum-pairs f32>bf16 64+64 by 4",
                          "| all-gather of 64 bf16, bucket 0, grouped",
                          "write-flags 128+1",
                          "| all-reduce of 1 bf16, mean, bucket 0, grouped",
                          "read-flags 128+1"));
}

TEST(BucketTransfersTest, LeavesInPairs) {
  PlanInput input = OneParameter(DType::kBF16);
  input.leaves = 4;
  input.transports.assign(2, {.place = "host", .pairs_in_one_place = true});
  const Plan plan = *Compile(input);
  EXPECT_EQ(Verify(plan), absl::OkStatus());
  EXPECT_THAT(Lines(plan.ranks[0].lanes[0].transfers),
              ElementsAre("write-flags 128+1",
                          "| all-reduce-pairs of 129 f32, bucket 0 by 4",
                          "cast f32>bf16 0+128", "read-flags 128+1",
                          "norm 0+128 leaf 0"));
  // A later revision has the same operations.
  const Plan next = *Recut(plan, BucketPolicy{}, {0});
  EXPECT_EQ(next.ranks, plan.ranks);
}

TEST(BucketTransfersTest, LeavesInPairsOfASumInTheirOwnType) {
  PlanInput input = OneParameter(DType::kF64, ReduceOp::kSum);
  input.leaves = 2;
  input.transports.assign(2, {.place = "host", .pairs_in_one_place = true});
  EXPECT_THAT(
      LinesOf(input, 0),
      ElementsAre("write-flags 48+1", "| all-reduce-pairs of 49 f64, bucket 0",
                  "read-flags 48+1", "norm 0+48 leaf 0"));
}

PlanInput Negotiated(DType dtype, ReduceOp op) {
  PlanInput input = OneParameter(dtype, op);
  input.sync = SyncMode::kNegotiated;
  return input;
}

TEST(BucketTransfersTest, AnAnnouncedSum) {
  EXPECT_THAT(
      LinesOf(Negotiated(DType::kF32, ReduceOp::kSum)),
      ElementsAre("zero-unless-given 0+48", "write-flags 48+1",
                  "| all-reduce of 49 f32, sum, bucket 0", "read-flags 48+1",
                  "norm 32+16", "zero-unless-given 0+48"));
}

TEST(BucketTransfersTest, AnAnnouncedMeanIsASumThatIsRescaled) {
  EXPECT_THAT(
      LinesOf(Negotiated(DType::kF64, ReduceOp::kMean)),
      ElementsAre("zero-unless-given 0+40", "write-flags 40+1",
                  "| all-reduce of 41 f64, sum, bucket 0", "read-flags 40+1",
                  "rescale 0+40", "norm 24+16", "zero-unless-given 0+40"));
}

// Rank 1's part of three cache lines is the third, which has only the flags.
TEST(BucketTransfersTest, AnAnnouncedMeanOfHalvesIsRoundedOnce) {
  EXPECT_THAT(
      LinesOf(Negotiated(DType::kF16, ReduceOp::kMean)),
      ElementsAre("zero-unless-given 0+64", "cast f16>f32 0+64",
                  "write-flags 64+1", "| all-reduce of 65 f32, sum, bucket 0",
                  "rescale 0+64", "cast f32>f16 0+64", "read-flags 64+1",
                  "zero-unless-given 0+64"));
}

// Sums of 16-bit floats may overflow; a mean over the group, with few
// announcers, may underflow.
TEST(BucketTransfersTest, AnAnnouncedMeanWithAWireIsOneOfItsTransfer) {
  PlanInput input = Negotiated(DType::kF32, ReduceOp::kMean);
  input.policy.wire_dtype = DType::kF16;
  EXPECT_THAT(
      LinesOf(input),
      ElementsAre("zero-unless-given 0+48", "cast f32>f16 0+48",
                  "write-flags 48+1", "| all-reduce of 49 f16, mean, bucket 0",
                  "cast f16>f32 0+48", "read-flags 48+1", "norm 32+16",
                  "zero-unless-given 0+48"));
}

TEST(BucketTransfersTest, OnlyOneOfReplicatedRanksCountsTheNorm) {
  const Parameter all{.name = "w", .shape = {8}, .axes = {"data"}};
  Parameter once = all;
  once.name = "v";
  once.replicated_over = {"pipe"};
  PlanInput input = Alike(MeshOf({{"data", 1}, {"pipe", 2}}), {all, once});
  EXPECT_THAT(
      LinesOf(input, 0),
      ElementsAre("write-flags 32+2", "| all-reduce of 34 f32, mean, bucket 1",
                  "read-flags 32+2", "norm 0+32"));
  EXPECT_THAT(
      LinesOf(input, 1),
      ElementsAre("write-flags 32+2", "| all-reduce of 34 f32, mean, bucket 0",
                  "read-flags 32+2", "norm 16+8"));
}

TEST(VerdictTransfersTest, EveryRankEndsWithOneGroupOverTheWorld) {
  PlanInput input = OneParameter();
  for (const int leaves : {0, 8}) {
    input.leaves = leaves;
    const Plan plan = *Compile(input);
    for (const RankPlan& rank : plan.ranks) {
      ASSERT_EQ(rank.lanes.size(), 2u);
      const Lane& lane = rank.lanes[1];
      EXPECT_EQ(lane.kind, LaneKind::kVerdict);
      EXPECT_EQ(lane.name, "verdict");
      std::vector<std::string> expected = {
          "write-summary 0+0",
          absl::StrCat("| all-reduce of ", kSummarySums, " f64, sum, grouped"),
          absl::StrCat("| all-reduce of ", kSummaryMaxima,
                       " u64, max, grouped")};
      if (leaves > 0) {
        expected.push_back("| all-reduce of 8 f64, sum, grouped");
      }
      expected.push_back("read-summary 0+0");
      EXPECT_EQ(Lines(lane.transfers), expected);
      for (const Transfer& transfer : lane.transfers) {
        EXPECT_EQ(transfer.communicator, 0);
      }
      const size_t launches = rank.launch_order.size();
      for (size_t i = 0; i < lane.transfers.size(); ++i) {
        EXPECT_EQ(rank.launch_order[launches - lane.transfers.size() + i],
                  (TransferRef{1, static_cast<int>(i)}));
      }
    }
  }
}

TEST(VerdictTransfersTest, AJobWithoutParametersHasAVerdict) {
  const Plan plan = *Compile(Alike(MeshOf({{"data", 3}}), {}));
  EXPECT_EQ(Verify(plan), absl::OkStatus());
  EXPECT_EQ(plan.ranks[2].launch_order.size(), 2u);
}

TEST(BucketTransfersTest, AVerdictByRecords) {
  PlanInput input = OneParameter();
  const auto verdict_of = [](const PlanInput& of) {
    const Plan plan = *Compile(of);
    EXPECT_EQ(Verify(plan), absl::OkStatus());
    EXPECT_EQ(EndsByRecords(*Recut(plan, of.policy, OrderOf(plan))),
              EndsByRecords(plan));
    return Lines(plan.ranks[1].lanes[1].transfers);
  };
  input.transports.assign(2, {.decides_on_device = true});
  EXPECT_THAT(verdict_of(input),
              ElementsAre("write-summary 0+0", "| all-gather of 16 u64",
                          "read-summary 0+0"));
  // All devices must, and the sums must be without leaves.
  PlanInput one_less = input;
  one_less.transports[0] = {};
  EXPECT_EQ(verdict_of(one_less).size(), 4u);
  PlanInput leaves = input;
  leaves.leaves = 8;
  EXPECT_EQ(verdict_of(leaves).size(), 5u);
}

}  // namespace
}  // namespace lockstep::plan
