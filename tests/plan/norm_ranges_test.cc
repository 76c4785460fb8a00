#include "plan/norm_ranges.h"

#include <algorithm>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/reduce_slices.h"
#include "plan/shard.h"
#include "plan/verify/verify.h"

namespace lockstep::plan {
namespace {

using ::testing::ElementsAre;

Plan PlanOf(const char* mesh, const std::vector<Parameter>& everywhere) {
  PlanInput input{.mesh = *ParseMesh(mesh)};
  input.registrations.assign(input.mesh.WorldSize(), everywhere);
  absl::StatusOr<Plan> plan = Compile(input);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

TEST(NormRangesTest, EachRankCountsTheSliceThatItReducesWithoutFlags) {
  const Plan plan = PlanOf(
      "data=2", {{.name = "b", .shape = {3}}, {.name = "w", .shape = {40}}});
  ASSERT_EQ(plan.buckets.size(), 1u);
  ASSERT_EQ(plan.buckets[0].flags_offset, 48 + 16) << "lines of 16 elements";
  EXPECT_THAT(NormRanges(plan, plan.buckets[0], 0, CountedParameters(plan)),
              ElementsAre(Slice{0, 48}));
  EXPECT_THAT(NormRanges(plan, plan.buckets[0], 1, CountedParameters(plan)),
              ElementsAre(Slice{48, 16}));
  EXPECT_TRUE(CountsWholeSlice(plan.buckets[0], CountedParameters(plan)));
}

TEST(NormRangesTest, ElementsThatAnotherRankCountsAreLeftOut) {
  const Parameter here{.name = "w", .shape = {40}, .axes = {"data"}};
  Parameter there = here;
  there.name = "b";
  there.replicated_over = {"pipe"};
  const Plan plan = PlanOf("data=2,pipe=2", {there, here});
  for (const Bucket& bucket : plan.buckets) {
    const std::vector<int>& members =
        plan.communicators[bucket.communicator].ranks;
    for (size_t i = 0; i < members.size(); ++i) {
      const bool all = plan.mesh.CoordinatesOf(members[i])[1] == 0;
      EXPECT_EQ(CountsWholeSlice(bucket, CountedParameters(plan)), all)
          << "rank " << members[i];
    }
  }
}

// The number of elements of a bucket's range that are in slots.
int64_t InSlots(const Bucket& bucket, const Slice& range) {
  int64_t count = 0;
  for (const Slot& slot : bucket.slots) count += PartIn(slot, range).count;
  return count;
}

int MembersOf(const Plan& plan, const Bucket& bucket) {
  return static_cast<int>(plan.communicators[bucket.communicator].ranks.size());
}

void ExpectEachElementOnce(const Plan& plan, int64_t logical_elements) {
  int64_t counted = 0;
  for (const Bucket& bucket : plan.buckets) {
    for (int i = 0; i < MembersOf(plan, bucket); ++i) {
      for (const Slice& range :
           NormRanges(plan, bucket, i, CountedParameters(plan))) {
        counted += InSlots(bucket, range);
      }
    }
  }
  EXPECT_EQ(counted, logical_elements);
}

TEST(NormRangesTest, TheWorldCountsEachLogicalElementOnce) {
  std::mt19937 rng(7);
  for (int round = 0; round < 50; ++round) {
    const int64_t n = rng() % 40;
    SCOPED_TRACE(n);
    const Parameter everywhere{.name = "w", .shape = {n}};
    ExpectEachElementOnce(PlanOf("data=3,pipe=2", {everywhere}), n);

    // Sharded over pipe: each pipe rank has elements of its own.
    Parameter sharded = everywhere;
    sharded.axes = {"data"};
    ExpectEachElementOnce(PlanOf("data=3,pipe=2", {sharded}), 2 * n);

    // The same elements on each pipe rank, reduced over data alone.
    Parameter replicated = sharded;
    replicated.replicated_over = {"pipe"};
    ExpectEachElementOnce(PlanOf("data=3,pipe=2", {replicated}), n);

    // Both in one bucket.
    sharded.name = "v";
    ExpectEachElementOnce(PlanOf("data=3,pipe=2", {replicated, sharded}),
                          3 * n);
  }
}

// Replicas need not be at coordinate 0: the lowest rank with a replica counts.
TEST(NormRangesTest, TheLowestReplicaIsCounted) {
  const Parameter everywhere{.name = "w", .shape = {40}, .axes = {"data"}};
  Parameter tied = everywhere;
  tied.name = "tied";
  tied.replicated_over = {"pipe"};
  PlanInput input{.mesh = *ParseMesh("data=2,pipe=3")};
  for (int rank = 0; rank < 6; ++rank) {
    input.registrations.push_back({everywhere});
    if (rank % 3 > 0) input.registrations.back().push_back(tied);
  }
  const absl::StatusOr<Plan> plan = Compile(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
  const std::vector<bool> counted = CountedParameters(*plan);
  for (const Bucket& bucket : plan->buckets) {
    const int first = plan->communicators[bucket.communicator].ranks[0];
    for (const Slot& slot : bucket.slots) {
      const bool is_tied = plan->parameters[slot.parameter].name == "tied";
      EXPECT_EQ(counted[slot.parameter], !is_tied || first == 1) << first;
    }
  }
}

// The parts do not depend on the number of ranks.
TEST(NormRangesTest, LeavesHaveTheSamePartsOnAnyNumberOfRanks) {
  constexpr int kLeaves = 8;
  const std::vector<Parameter> parameters = {{.name = "b", .shape = {70'001}},
                                             {.name = "w", .shape = {100'003}}};
  std::vector<std::vector<Slice>> alone;
  for (const int ranks : {1, 2, 4, 8}) {
    PlanInput input{.mesh = {{{"data", ranks}}}};
    input.registrations.assign(ranks, parameters);
    input.leaves = kLeaves;
    const auto plan = Compile(input);
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::vector<std::vector<Slice>> parts;
    int64_t counted = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const LeafNormRanges& of_leaf : NormRangesOfLeaves(
               *plan, plan->buckets[0], rank, CountedParameters(*plan))) {
        EXPECT_EQ(of_leaf.leaf, static_cast<int>(parts.size()));
        parts.push_back(of_leaf.ranges);
        for (const Slice& range : of_leaf.ranges) {
          counted += InSlots(plan->buckets[0], range);
        }
      }
    }
    EXPECT_EQ(parts.size(), size_t{kLeaves});
    EXPECT_EQ(counted, 70'001 + 100'003);
    if (ranks == 1) alone = parts;
    EXPECT_EQ(parts, alone) << ranks;
  }
}

// Together the parts of a rank are the slice that it reduces, up to the flags.
TEST(NormRangesTest, TheLeavesOfARankAreOneSlice) {
  for (const int ranks : {1, 2, 4}) {
    PlanInput input{.mesh = {{{"data", ranks}}}};
    input.registrations.assign(ranks, {{.name = "w", .shape = {50'003}},
                                       {.name = "b", .shape = {33}}});
    input.leaves = 8;
    const auto plan = Compile(input);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Bucket& bucket = plan->buckets[0];
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(CountsWholeSlice(bucket, CountedParameters(*plan)));
      const Slice slice = PairsSlice(bucket.total, ranks, rank);
      int64_t next = slice.offset;
      for (const LeafNormRanges& of_leaf : NormRangesOfLeaves(
               *plan, plan->buckets[0], rank, CountedParameters(*plan))) {
        for (const Slice& range : of_leaf.ranges) {
          EXPECT_EQ(range.offset, next);
          next += range.count;
        }
      }
      EXPECT_EQ(next,
                std::min(slice.offset + slice.count, bucket.flags_offset));
    }
  }
}

// One of the ranks that share a parameter counts it.
TEST(NormRangesTest, LeavesCountReplicatedParametersOnce) {
  const Parameter all{.name = "w", .shape = {9'000}, .axes = {"data"}};
  Parameter once = all;
  once.name = "v";
  once.replicated_over = {"pipe"};
  PlanInput input{.mesh = *ParseMesh("data=2,pipe=2")};
  input.registrations.assign(4, {once, all});
  input.leaves = 4;
  const auto plan = Compile(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  int64_t counted = 0;
  for (const Bucket& bucket : plan->buckets) {
    for (int i = 0; i < MembersOf(*plan, bucket); ++i) {
      for (const LeafNormRanges& of_leaf :
           NormRangesOfLeaves(*plan, bucket, i, CountedParameters(*plan))) {
        for (const Slice& range : of_leaf.ranges) {
          counted += InSlots(bucket, range);
        }
      }
    }
  }
  EXPECT_EQ(counted, 9'000 + 2 * 9'000);
}

}  // namespace
}  // namespace lockstep::plan
