// The verifier's findings on local operations, norms and verdicts that do not
// fit the buckets.

#include "plan/verify/operations.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/summary.h"
#include "plan/verify/verify.h"
#include "tests/plan/plans.h"

namespace lockstep::plan {
namespace {

using testing::HasSubstr;

struct Case {
  std::string how;
  std::function<void(Plan&)> damage;
  std::string said;
};

void ExpectRefused(const Plan& good, const std::vector<Case>& cases) {
  ASSERT_EQ(Verify(good), absl::OkStatus());
  for (const Case& c : cases) {
    SCOPED_TRACE(c.how);
    Plan plan = good;
    c.damage(plan);
    const absl::Status refused = Verify(plan);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(c.said));
  }
}

PlanInput TwoRanks(DType dtype = DType::kF32) {
  return Alike(MeshOf({{"data", 2}}),
               {{.name = "w", .shape = {40}, .dtype = dtype}});
}

// Rank 1's gradient lane.
Transfer& First(Plan& plan) { return plan.ranks[1].lanes[0].transfers[0]; }
Transfer& Second(Plan& plan) { return plan.ranks[1].lanes[0].transfers[1]; }
Lane& VerdictOf(Plan& plan) { return plan.ranks[1].lanes.back(); }

void Drop(std::vector<LocalOp>& ops, LocalKind kind) {
  std::erase_if(ops, [kind](const LocalOp& op) { return op.kind == kind; });
}
LocalOp& The(std::vector<LocalOp>& ops, LocalKind kind) {
  return *std::find_if(ops.begin(), ops.end(),
                       [kind](const LocalOp& op) { return op.kind == kind; });
}

// --- Local operations -------------------------------------------------------

TEST(OperationsTest, OfAWholeBucketWithAWire) {
  PlanInput input = TwoRanks();
  input.policy.wire_dtype = DType::kBF16;
  ExpectRefused(
      *Compile(input),
      {{"a missing cast",
        [](Plan& p) { Drop(First(p).before, LocalKind::kCast); },
        "transfer 0 of lane gradient (all-reduce of 49 bf16, mean, bucket 0) "
        "has no cast of elements 0 to 48 from f32 to bf16 before it"},
       {"a missing cast back",
        [](Plan& p) { Drop(First(p).then, LocalKind::kCast); },
        "has no cast of elements 0 to 48 from bf16 to f32 behind it"},
       {"flags that are not written",
        [](Plan& p) { Drop(First(p).before, LocalKind::kWriteFlags); },
        "has no write-flags of elements 48 to 49 before it"},
       {"flags that are not read",
        [](Plan& p) { Drop(First(p).then, LocalKind::kReadFlags); },
        "has no read-flags of elements 48 to 49 behind it"},
       {"a cast twice",
        [](Plan& p) { First(p).before.push_back(First(p).before[0]); },
        "has the cast of elements 0 to 48 from f32 to bf16 before it more than "
        "once"},
       {"operations out of order",
        [](Plan& p) { std::swap(First(p).then[0], First(p).then[1]); },
        "has the read-flags of elements 48 to 49 behind it out of its order"},
       {"a norm before the cast back",
        [](Plan& p) {
          std::rotate(First(p).then.rbegin(), First(p).then.rbegin() + 1,
                      First(p).then.rend());
        },
        "has the norm of elements 32 to 48 behind it out of its order"},
       {"a cast to another type",
        [](Plan& p) { First(p).before[0].to = DType::kF16; },
        "has a cast of elements 0 to 48 from f32 to f16 before it, but needs a "
        "cast of elements 0 to 48 from f32 to bf16"},
       {"a cast from elsewhere",
        [](Plan& p) { First(p).before[0].offset = 16; },
        "cast of elements 16 to 64"},
       {"a cast of fewer elements",
        [](Plan& p) { First(p).then[0].count = 32; },
        "cast of elements 0 to 32"},
       {"a divisor where none is",
        [](Plan& p) { First(p).before[1].divisor = 2; }, "divisor 2"},
       {"a cast that feeds back errors",
        [](Plan& p) { First(p).before[0].kind = LocalKind::kCastFeedback; },
        "has no cast of"},
       {"an operation on the wrong side",
        [](Plan& p) {
          First(p).before.push_back(The(First(p).then, LocalKind::kReadFlags));
        },
        "has a read-flags of elements 48 to 49 before it, which is of its "
        "other "
        "side"},
       {"an operation that nothing needs",
        [](Plan& p) {
          First(p).then.push_back({.kind = LocalKind::kRescale, .count = 48});
        },
        "has a rescale of elements 0 to 48 behind it, which nothing needs"},
       {"a norm before the transfer",
        [](Plan& p) {
          First(p).before.push_back(The(First(p).then, LocalKind::kNorm));
        },
        "has a norm of elements 32 to 48 before it, which nothing needs"},
       {"a divisor of an all-reduce", [](Plan& p) { First(p).divisor = 2; },
        "has divisor 2, and is no sum in pairs"},
       {"no feedback where there must be",
        [](Plan& p) {
          for (Bucket& bucket : p.buckets) bucket.error_feedback = true;
        },
        "has no cast-feedback of"}});
}

TEST(OperationsTest, OfSlicesAndOfGathers) {
  PlanInput input = TwoRanks();
  input.sync = SyncMode::kReduceScatter;
  input.policy.wire_dtype = DType::kF16;
  ExpectRefused(
      *Compile(input),
      {{"a gather of parameters with a cast",
        [](Plan& p) { First(p).then = {{.kind = LocalKind::kCast}}; },
        "has a cast from f32 to f32, which only the reduction of a bucket and "
        "a "
        "verdict have"},
       {"a cast back of another rank's slice",
        [](Plan& p) { The(Second(p).then, LocalKind::kCast).offset = 0; },
        "has a cast of elements 0 to 32 from f16 to f32 behind it, but needs a "
        "cast of elements 32 to 64"},
       {"a norm beside the flags",
        [](Plan& p) {
          Transfer& flags = p.ranks[1].lanes[0].transfers[2];
          flags.then.push_back(The(Second(p).then, LocalKind::kNorm));
        },
        "has a norm of elements 32 to 40, and brings no gradients"},
       {"flags in the scatter",
        [](Plan& p) {
          Second(p).before.push_back(
              {.kind = LocalKind::kWriteFlags, .offset = 64, .count = 1});
        },
        "which nothing needs"}});
}

TEST(OperationsTest, OfExchangedLeaves) {
  PlanInput input = TwoRanks(DType::kBF16);
  input.leaves = 4;
  ExpectRefused(
      *Compile(input),
      {{"no sum", [](Plan& p) { First(p).then.clear(); },
        "has no sum-pairs of elements 64 to 128 from f32 to bf16, divisor 4 "
        "behind it"},
       {"a sum without the mean", [](Plan& p) { First(p).then[0].divisor = 1; },
        "divisor 4"},
       {"a sum of another type",
        [](Plan& p) { First(p).then[0].to = DType::kF32; },
        "sum-pairs of elements 64 to 128 from f32 to f32, divisor 4 behind it, "
        "but "
        "needs"}});
}

PlanInput InPairs(DType dtype = DType::kBF16) {
  PlanInput input = TwoRanks(dtype);
  input.leaves = 4;
  input.transports.assign(2, {.place = "host", .pairs_in_one_place = true});
  return input;
}

TEST(OperationsTest, OfLeavesInPairs) {
  PlanInput apart = InPairs();
  apart.transports.clear();
  const Plan exchanged = *Compile(apart);
  ExpectRefused(
      *Compile(InPairs()),
      {{"some ranks exchange",
        [&](Plan& p) { p.ranks[1] = exchanged.ranks[1]; },
        "bucket 0 is summed in pairs by rank 0 and exchanged by rank 1"},
       {"both on one rank",
        [&](Plan& p) {
          for (RankPlan& rank : p.ranks) {
            rank.lanes[0].transfers.insert(
                rank.lanes[0].transfers.begin(),
                exchanged.ranks[0].lanes[0].transfers[0]);
            rank.launch_order.insert(rank.launch_order.begin() + 1, {0, 1});
          }
        },
        "bucket 0 is summed in pairs by rank 0 and exchanged by rank 0"},
       {"another divisor", [](Plan& p) { First(p).divisor = 2; }, "asks for"},
       {"no cast back", [](Plan& p) { Drop(First(p).then, LocalKind::kCast); },
        "has no cast of elements 0 to 128 from f32 to bf16 behind it"},
       {"no bucket", [](Plan& p) { First(p).bucket = -1; }, "has no bucket"}});
}

PlanInput Negotiated(DType dtype) {
  PlanInput input = TwoRanks(dtype);
  input.sync = SyncMode::kNegotiated;
  return input;
}

TEST(OperationsTest, OfAnnouncedBuckets) {
  ExpectRefused(
      *Compile(Negotiated(DType::kF32)),
      {{"no zeros of ranks that announced nothing",
        [](Plan& p) { First(p).before.erase(First(p).before.begin()); },
        "has no zero-unless-given of elements 0 to 48 before it"},
       {"no zeros behind it", [](Plan& p) { First(p).then.pop_back(); },
        "has no zero-unless-given of elements 0 to 48 behind it"},
       {"no mean", [](Plan& p) { Drop(First(p).then, LocalKind::kRescale); },
        "has no rescale of elements 0 to 48 behind it"},
       {"a mean over all ranks",
        [](Plan& p) {
          for (RankPlan& rank : p.ranks) {
            rank.lanes[0].transfers[0].op = ReduceOp::kMean;
          }
        },
        "asks for"},
       {"a rescale with a divisor",
        [](Plan& p) { The(First(p).then, LocalKind::kRescale).divisor = 2; },
        "has a rescale of elements 0 to 48, divisor 2 behind it, but needs"},
       {"leaves", [](Plan& p) { p.buckets[0].leaves = 2; },
        "bucket 0 is announced, and has leaves"},
       {"slices", [](Plan& p) { p.buckets[0].sharded = true; },
        "bucket 0 is announced, and is sharded"},
       {"feedback", [](Plan& p) { p.buckets[0].error_feedback = true; },
        "bucket 0 is announced, and feeds back the errors of its cast"}});
  ExpectRefused(
      *Compile(Negotiated(DType::kF16)),
      {{"a mean that is rounded twice",
        [](Plan& p) { std::swap(First(p).then[0], First(p).then[1]); },
        "has the cast of elements 0 to 64 from f32 to f16 behind it out of its "
        "order"},
       {"a sum of halves",
        [](Plan& p) {
          for (RankPlan& rank : p.ranks) {
            rank.lanes[0].transfers[0].dtype = DType::kF16;
          }
        },
        "asks for"}});
  PlanInput with_a_wire = Negotiated(DType::kF32);
  with_a_wire.policy.wire_dtype = DType::kF16;
  ExpectRefused(
      *Compile(with_a_wire),
      {{"a rescale of a mean",
        [](Plan& p) {
          First(p).then.push_back({.kind = LocalKind::kRescale, .count = 48});
        },
        "has a rescale of elements 0 to 48 behind it, which nothing needs"},
       {"a sum of halves",
        [](Plan& p) {
          for (RankPlan& rank : p.ranks) {
            rank.lanes[0].transfers[0].op = ReduceOp::kSum;
          }
        },
        "asks for"}});
  PlanInput several = TwoRanks();
  several.registrations.assign(
      2, {{.name = "a", .shape = {4}}, {.name = "b", .shape = {4}}});
  Plan plan = *Compile(several);
  plan.buckets[0].announced = true;
  EXPECT_THAT(std::string(Verify(plan).message()),
              HasSubstr("is announced, and has 2 parameters"));
}

TEST(OperationsTest, OnlyNegotiatedModeAnnounces) {
  const Plan plain = *Compile(TwoRanks());
  const Plan announced = *Compile(Negotiated(DType::kF32));
  EXPECT_EQ(CheckSync(plain, SyncMode::kStatic), absl::OkStatus());
  EXPECT_EQ(CheckSync(announced, SyncMode::kNegotiated), absl::OkStatus());
  EXPECT_THAT(CheckSync(plain, SyncMode::kNegotiated).ToString(),
              HasSubstr("bucket 0 is not announced"));
  EXPECT_THAT(CheckSync(announced, SyncMode::kStatic).ToString(),
              HasSubstr("bucket 0 is announced"));
}

// --- Norms ------------------------------------------------------------------

TEST(NormsTest, OfAWholeBucket) {
  const auto norm = [](Plan& p) -> LocalOp& {
    return The(First(p).then, LocalKind::kNorm);
  };
  ExpectRefused(
      *Compile(TwoRanks()),
      {{"elements of no rank",
        [](Plan& p) { Drop(First(p).then, LocalKind::kNorm); },
        "elements 32 to 40 of w are counted in the norm by no rank"},
       {"elements in the middle of no rank",
        [&](Plan& p) {
          norm(p).offset = 36;
          norm(p).count = 4;
        },
        "elements 32 to 36 of w are counted in the norm by no rank"},
       {"elements twice", [&](Plan& p) { First(p).then.push_back(norm(p)); },
        "rank 1: elements 32 to 40 of w are counted in the norm more "
        "than once"},
       {"elements of another rank", [&](Plan& p) { norm(p).offset = 16; },
        "the norm of elements 16 to 32 of bucket 0 is not of the rank's part, "
        "elements 32 to 49"},
       {"flags", [&](Plan& p) { ++norm(p).count; },
        "is empty, not of its 48 elements, or has a dtype or a divisor"},
       {"nothing", [&](Plan& p) { norm(p).count = 0; }, "is empty"},
       {"less than nothing", [&](Plan& p) { norm(p).offset = -16; },
        "is empty, not of its"},
       {"more than can be counted", [&](Plan& p) { norm(p).count = INT64_MAX; },
        "is empty, not of its"},
       {"a divisor", [&](Plan& p) { norm(p).divisor = 3; }, "is empty, not of"},
       {"a leaf", [&](Plan& p) { norm(p).leaf = 0; },
        "is not for the rank itself"}});
}

TEST(NormsTest, OfLeaves) {
  PlanInput input = InPairs(DType::kF32);
  input.registrations.assign(2, {{.name = "w", .shape = {20'000}}});
  const auto norm = [](Plan& p) -> LocalOp& {
    return The(First(p).then, LocalKind::kNorm);
  };
  ExpectRefused(*Compile(input),
                {{"another leaf of the rank", [&](Plan& p) { ++norm(p).leaf; },
                  "is not of the rank's part"},
                 {"a leaf of another rank", [&](Plan& p) { norm(p).leaf = 0; },
                  "is not for one of the rank's leaves"},
                 {"no leaf", [&](Plan& p) { norm(p).leaf = -1; },
                  "is not for one of the rank's leaves"}});
}

TEST(NormsTest, OfReplicas) {
  const Parameter all{.name = "w", .shape = {8}, .axes = {"data"}};
  Parameter once = all;
  once.name = "v";
  once.replicated_over = {"pipe"};
  const Plan good =
      *Compile(Alike(MeshOf({{"data", 1}, {"pipe", 2}}), {all, once}));
  ExpectRefused(good,
                {{"both replicas",
                  [](Plan& p) {
                    The(First(p).then, LocalKind::kNorm).offset = 0;
                    The(First(p).then, LocalKind::kNorm).count = 32;
                  },
                  "of v are counted in the norm more than once"},
                 {"neither",
                  [](Plan& p) {
                    Transfer& other = p.ranks[0].lanes[0].transfers[0];
                    The(other.then, LocalKind::kNorm).offset = 16;
                    The(other.then, LocalKind::kNorm).count = 8;
                  },
                  "elements 0 to 8 of v are counted in the norm by no rank"}});
}

// --- The verdict ------------------------------------------------------------

TEST(VerdictLaneTest, IsTheLastOfEveryRank) {
  PlanInput input = TwoRanks();
  input.leaves = 4;
  const auto each = [](std::function<void(RankPlan&)> damage) {
    return [damage](Plan& p) {
      for (RankPlan& rank : p.ranks) damage(rank);
    };
  };
  ExpectRefused(
      *Compile(input),
      {{"none", each([](RankPlan& rank) {
          rank.lanes.pop_back();
          rank.launch_order.resize(rank.launch_order.size() - 3);
        }),
        "has no lane of a verdict"},
       {"two", each([](RankPlan& rank) {
          rank.lanes.push_back(rank.lanes.back());
          rank.lanes.back().name = "again";
          for (int i = 0; i < 3; ++i) rank.launch_order.push_back({2, i});
        }),
        "lanes verdict and again are both of verdicts"},
       {"a part missing", each([](RankPlan& rank) {
          rank.lanes.back().transfers.pop_back();
          rank.launch_order.pop_back();
        }),
        "has 2 transfers in its verdict, not 3"},
       {"before the gradients", each([](RankPlan& rank) {
          std::rotate(rank.launch_order.begin(), rank.launch_order.end() - 3,
                      rank.launch_order.end());
        }),
        "launches transfer 0 of lane gradient behind the verdict"},
       {"on another communicator", each([](RankPlan& rank) {
          for (Transfer& t : rank.lanes.back().transfers) t.communicator = 1;
        }),
        "a verdict is on 0"},
       {"something else on communicator 0", each([](RankPlan& rank) {
          rank.lanes.push_back({.kind = LaneKind::kState, .name = "state"});
          rank.lanes.back().transfers.push_back({.communicator = 0});
          rank.launch_order.insert(rank.launch_order.begin(), {2, 0});
        }),
        "is on communicator 0, the verdict's"}});
}

TEST(VerdictLaneTest, ReducesTheSummary) {
  PlanInput input = TwoRanks();
  input.leaves = 4;
  const auto every = [](int index, std::function<void(Transfer&)> damage) {
    return [=](Plan& p) {
      for (RankPlan& rank : p.ranks) {
        damage(rank.lanes.back().transfers[index]);
      }
    };
  };
  const Plan good = *Compile(input);
  ExpectRefused(
      good,
      {{"another kind",
        every(0, [](Transfer& t) { t.kind = TransferKind::kAllGather; }),
        absl::StrCat("transfer 0 of lane verdict is all-gather of ",
                     kSummarySums, " f64 in group 1, and must be all-reduce")},
       {"another count", every(1, [](Transfer& t) { t.shape = {9}; }),
        "is all-reduce of 9 u64"},
       {"another type", every(1, [](Transfer& t) { t.dtype = DType::kI64; }),
        "is all-reduce of 8 i64"},
       {"another op", every(1, [](Transfer& t) { t.op = ReduceOp::kSum; }),
        "is all-reduce of 8 u64, sum"},
       {"another number of leaves",
        every(2, [](Transfer& t) { t.shape = {8}; }),
        "must be all-reduce of 4 f64"},
       {"another group", every(1, [](Transfer& t) { t.group = 2; }),
        "in group 2, and must be"},
       {"no summary written", every(0, [](Transfer& t) { t.before.clear(); }),
        "transfer 0 of lane verdict has no write-summary before it"},
       {"no summary read", every(2, [](Transfer& t) { t.then.clear(); }),
        "transfer 2 of lane verdict has no read-summary behind it"},
       {"a summary written twice",
        every(0, [](Transfer& t) { t.before.push_back(t.before[0]); }),
        "has the write-summary before it more than once"},
       {"a summary read too early",
        every(1,
              [](Transfer& t) {
                t.then.push_back({.kind = LocalKind::kReadSummary});
              }),
        "transfer 1 of lane verdict has a read-summary behind it, which "
        "nothing "
        "needs"},
       {"a summary in a gradient lane",
        [](Plan& p) {
          First(p).before.push_back({.kind = LocalKind::kWriteSummary});
        },
        "has a write-summary before it, which nothing needs"}});
  Plan uneven = good;
  VerdictOf(uneven).transfers[0].shape = {kSummarySums + 1};
  EXPECT_THAT(std::string(Verify(uneven).message()), HasSubstr("rank 1: "));
}

TEST(VerdictLaneTest, RecordsAreGatheredOnce) {
  PlanInput input = TwoRanks();
  input.transports.assign(2, {.decides_on_device = true});
  const Plan good = *Compile(input);
  EXPECT_EQ(Verify(good), absl::OkStatus());
  const auto every = [](std::function<void(Transfer&)> damage) {
    return [=](Plan& p) {
      for (RankPlan& rank : p.ranks) damage(rank.lanes.back().transfers[0]);
    };
  };
  ExpectRefused(
      good,
      {{"more words", every([](Transfer& t) { t.shape = {17}; }),
        "is all-gather of 17 u64 in group 0, and must be all-gather of 16 u64"},
       {"a group", every([](Transfer& t) { t.group = 1; }),
        "in group 1, and must be all-gather of 16 u64, in group 0"},
       {"no record written", every([](Transfer& t) { t.before.clear(); }),
        "has no write-summary before it"},
       {"nothing decided", every([](Transfer& t) { t.then.clear(); }),
        "has no read-summary behind it"},
       {"on one rank only",
        [](Plan& p) {
          Lane& verdict = p.ranks[1].lanes.back();
          verdict.transfers.push_back(verdict.transfers[0]);
        },
        "has 2 transfers in its verdict, not 1"}});
}

TEST(VerdictLaneTest, BucketsHaveOneNumberOfLeaves) {
  PlanInput input = TwoRanks();
  input.registrations.assign(
      2, {{.name = "a", .shape = {4}},
          {.name = "b", .shape = {4}, .dtype = DType::kF64}});
  input.leaves = 4;
  ExpectRefused(*Compile(input),
                {{"more", [](Plan& p) { p.buckets[1].leaves = 8; },
                  "bucket 1 has 8 leaves, and bucket 0 has 4"}});
}

}  // namespace
}  // namespace lockstep::plan
