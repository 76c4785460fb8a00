#include "plan/shard.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/bucket.h"
#include "plan/verify/verify.h"
#include "tests/plan/plans.h"

namespace lockstep::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Bucket Slots(std::vector<Slot> slots, DType dtype = DType::kF32) {
  return {.dtype = dtype, .slots = std::move(slots)};
}

TEST(ShardTest, SlicesAreEqualAlignedAndHoldAll) {
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF64}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const int64_t end : {0, 1, 15, 16, 17, 1000, 4096}) {
        Bucket bucket = Slots({{.parameter = 0, .count = end}}, dtype);
        bucket.sharded = true;
        PadToSlices(&bucket, ranks);
        EXPECT_EQ(bucket.total, bucket.flags_offset + 1);
        int64_t next = 0;
        for (int position = 0; position < ranks; ++position) {
          const Slice slice = SliceOf(bucket, ranks, position);
          EXPECT_EQ(slice.offset, next);
          EXPECT_EQ(slice.offset, AlignedOffset(slice.offset, dtype));
          EXPECT_EQ(slice.count, SliceOf(bucket, ranks, 0).count);
          next += slice.count;
        }
        EXPECT_EQ(next, bucket.flags_offset);
        EXPECT_GE(bucket.flags_offset, end);
        // The padding is at most one alignment for each rank.
        EXPECT_LE(bucket.flags_offset, end + ranks * AlignedOffset(1, dtype));
      }
    }
  }
}

TEST(ShardTest, PartsOfASlotMakeItUp) {
  Bucket bucket = Slots({{.parameter = 0, .offset = 0, .count = 40},
                         {.parameter = 1, .offset = 48, .count = 3},
                         {.parameter = 2, .offset = 64, .count = 0}});
  bucket.sharded = true;
  PadToSlices(&bucket, 3);  // slices of 32
  const auto parts = [&](int slot) {
    std::vector<Slice> parts;
    for (int position = 0; position < 3; ++position) {
      parts.push_back(PartIn(bucket.slots[slot], SliceOf(bucket, 3, position)));
    }
    return parts;
  };
  EXPECT_THAT(parts(0), ElementsAre(Slice{0, 32}, Slice{32, 8}, Slice{}));
  EXPECT_THAT(parts(1), ElementsAre(Slice{}, Slice{0, 3}, Slice{}));
  EXPECT_THAT(parts(2), ElementsAre(Slice{}, Slice{}, Slice{}));
}

TEST(ShardTest, ABucketThatIsNotShardedIsOneSlice) {
  const Bucket bucket{.flags_offset = 48, .total = 50};
  EXPECT_EQ(SliceOf(bucket, 4, 3), (Slice{0, 48}));
}

// --- Whole plans ------------------------------------------------------------

PlanInput Sharded(uint64_t seed) {
  PlanInput input = RandomInput(seed);
  input.sync = SyncMode::kReduceScatter;
  return input;
}

TEST(ShardedPlanTest, GathersBeforeAllElseAndScattersBesideItsFlags) {
  PlanInput input = Alike(MeshOf({{"data", 2}}),
                          {{.name = "a", .shape = {40}},
                           {.name = "b", .shape = {8}, .dtype = DType::kF64}});
  input.sync = SyncMode::kReduceScatter;
  input.policy.wire_dtype = DType::kBF16;
  const Plan plan = *Compile(input);
  for (const RankPlan& rank : plan.ranks) {
    ASSERT_EQ(rank.lanes.size(), 2u);
    std::vector<std::string> said;
    for (const Transfer& transfer : rank.lanes[0].transfers) {
      said.push_back(absl::StrCat(Describe(transfer), ", ", transfer.group));
    }
    EXPECT_THAT(said,
                ElementsAre("all-gather of 32 f32, bucket 1, 0",
                            "all-gather of 8 f64, bucket 0, 0",
                            "reduce-scatter of 16 bf16, mean, bucket 0, 1",
                            "all-reduce of 1 bf16, mean, bucket 0, 1",
                            "reduce-scatter of 64 bf16, mean, bucket 1, 2",
                            "all-reduce of 1 bf16, mean, bucket 1, 2"));
  }
  EXPECT_TRUE(Verify(plan).ok()) << Verify(plan);
}

TEST(ShardedPlanTest, EveryCompiledPlanVerifies) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Plan plan = *Compile(Sharded(seed));
    ASSERT_TRUE(Verify(plan).ok()) << "seed " << seed << ": " << Verify(plan);
    EXPECT_TRUE(CheckSync(plan, SyncMode::kReduceScatter).ok());
  }
}

TEST(ShardedPlanTest, OtherModesRefuseIt) {
  const Plan plan = *Compile(Sharded(3));
  ASSERT_FALSE(plan.buckets.empty());
  for (const SyncMode mode : {SyncMode::kStatic, SyncMode::kNegotiated}) {
    const absl::Status refused = CheckSync(plan, mode);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("reduce_scatter"));
  }
  const Plan whole = *Compile(RandomInput(3));
  EXPECT_FALSE(CheckSync(whole, SyncMode::kReduceScatter).ok());
}

// Removes the last transfer of the gradient lane.
void DropLastLaunch(RankPlan& rank) {
  const int count = static_cast<int>(rank.lanes[0].transfers.size());
  std::erase(rank.launch_order, TransferRef{0, count});
}

struct Damage {
  const char* how;
  std::function<void(Plan&)> done;
  const char* said;
};

TEST(ShardedPlanTest, DamagedPlansAreRefused) {
  PlanInput input = Alike(MeshOf({{"data", 3}}),
                          {{.name = "a", .shape = {40}},
                           {.name = "b", .shape = {8}, .dtype = DType::kF64}});
  input.sync = SyncMode::kReduceScatter;
  const Plan good = *Compile(input);
  ASSERT_TRUE(Verify(good).ok()) << Verify(good);
  const auto on_each = [](std::function<void(RankPlan&)> change) {
    return [change](Plan& p) {
      for (RankPlan& rank : p.ranks) change(rank);
    };
  };
  const auto transfer = [](RankPlan& rank, int index) -> Transfer& {
    return rank.lanes[0].transfers[index];
  };
  const Damage damages[] = {
      {"slices that do not divide",
       [](Plan& p) {
         p.buckets[0].flags_offset += 8;
         p.buckets[0].total += 8;
       },
       "no aligned slices"},
      {"a bucket that is whole, and is scattered",
       [](Plan& p) { p.buckets[0].sharded = false; }, "asks for"},
      {"a slice that is not gathered", on_each([](RankPlan& rank) {
         rank.lanes[0].transfers.erase(rank.lanes[0].transfers.begin());
         DropLastLaunch(rank);
       }),
       "has no all-gather of bucket 1"},
      {"flags that do not travel", on_each([](RankPlan& rank) {
         rank.lanes[0].transfers.pop_back();
         DropLastLaunch(rank);
       }),
       "has no all-reduce of bucket 1"},
      {"flags apart from their gradients",
       on_each([=](RankPlan& rank) { transfer(rank, 3).group = 0; }), "group"},
      {"flags behind the next bucket",
       [=](Plan& p) {
         std::vector<Transfer>& lane = p.ranks[1].lanes[0].transfers;
         std::rotate(lane.begin() + 3, lane.begin() + 4, lane.begin() + 6);
       },
       "transfer 5 of lane gradient (all-reduce of 1 f64, mean, bucket 0) is "
       "apart from the other one of group 1"},
      {"one slice too short",
       on_each([=](RankPlan& rank) { transfer(rank, 2).shape[0] -= 3; }),
       "asks for"},
      {"a gather in the wire's type",
       on_each([=](RankPlan& rank) { transfer(rank, 0).dtype = DType::kBF16; }),
       "asks for"},
      {"a gather twice",
       on_each([=](RankPlan& rank) { transfer(rank, 1) = transfer(rank, 0); }),
       "second all-gather of bucket 1"},
      {"a gather behind a reduction", on_each([=](RankPlan& rank) {
         std::vector<Transfer>& all = rank.lanes[0].transfers;
         std::rotate(all.begin() + 1, all.begin() + 2, all.begin() + 4);
       }),
       "behind other transfers"},
  };
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.how);
    Plan plan = good;
    damage.done(plan);
    const absl::Status refused = Verify(plan);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr(damage.said));
  }
}

// --- Leaves -----------------------------------------------------------------

PlanInput WithLeaves(int ranks, int leaves) {
  PlanInput input = Alike(MeshOf({{"data", ranks}}),
                          {{.name = "a", .shape = {40}},
                           {.name = "h", .shape = {9}, .dtype = DType::kBF16}});
  input.leaves = leaves;
  return input;
}

TEST(LeavesPlanTest, ExchangesSumsThenGathersBesideTheFlags) {
  const Plan plan = *Compile(WithLeaves(2, 8));
  for (const RankPlan& rank : plan.ranks) {
    std::vector<std::string> said;
    for (const Transfer& transfer : rank.lanes[0].transfers) {
      said.push_back(absl::StrCat(Describe(transfer), ", ", transfer.group));
    }
    EXPECT_THAT(said, ElementsAre("all-to-all of 256 f32, bucket 0, 0",
                                  "all-gather of 128 bf16, bucket 0, 1",
                                  "all-reduce of 1 bf16, mean, bucket 0, 1",
                                  "all-to-all of 128 f32, bucket 1, 0",
                                  "all-gather of 64 f32, bucket 1, 2",
                                  "all-reduce of 1 f32, mean, bucket 1, 2"));
  }
  EXPECT_TRUE(Verify(plan).ok()) << Verify(plan);
  EXPECT_TRUE(CheckSync(plan, SyncMode::kStatic).ok());
  EXPECT_FALSE(CheckSync(plan, SyncMode::kNegotiated).ok());
}

TEST(LeavesPlanTest, RanksMustDivideThem) {
  for (const int ranks : {1, 2, 4, 8}) {
    const absl::StatusOr<Plan> plan = Compile(WithLeaves(ranks, 8));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(Verify(*plan).ok()) << Verify(*plan);
    EXPECT_EQ(plan->buckets[1].total, 8 * 16 + 1) << "whatever the ranks";
  }
  for (const auto& [ranks, leaves] :
       {std::pair(3, 8), std::pair(6, 8), std::pair(16, 8), std::pair(2, 1)}) {
    const absl::Status refused = Compile(WithLeaves(ranks, leaves)).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("power of two"));
    EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat(ranks, " ranks")));
  }
}

TEST(LeavesPlanTest, DamagedPlansAreRefused) {
  const Plan good = *Compile(WithLeaves(2, 8));
  const auto transfer = [](RankPlan& rank, int index) -> Transfer& {
    return rank.lanes[0].transfers[index];
  };
  const auto on_each = [](std::function<void(RankPlan&)> change) {
    return [change](Plan& p) {
      for (RankPlan& rank : p.ranks) change(rank);
    };
  };
  const Damage damages[] = {
      {"leaves that are no tree", [](Plan& p) { p.buckets[0].leaves = 6; },
       "powers of two"},
      {"fewer leaves than ranks", [](Plan& p) { p.buckets[0].leaves = 1; },
       "powers of two"},
      {"negative leaves", [](Plan& p) { p.buckets[0].leaves = -8; },
       "powers of two"},
      {"leaves and slices", [](Plan& p) { p.buckets[0].sharded = true; },
       "sharded or cast"},
      {"sums that are exchanged as halves",
       on_each([=](RankPlan& r) { transfer(r, 0).dtype = DType::kBF16; }),
       "asks for"},
      {"an exchange too few", on_each([](RankPlan& rank) {
         rank.lanes[0].transfers.erase(rank.lanes[0].transfers.begin());
         DropLastLaunch(rank);
       }),
       "has no all-to-all of bucket 0"},
  };
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.how);
    Plan plan = good;
    damage.done(plan);
    const absl::Status refused = Verify(plan);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr(damage.said));
  }
}

}  // namespace
}  // namespace lockstep::plan
