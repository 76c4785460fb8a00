#include "client/gradient/owned.h"

#include <algorithm>
#include <map>
#include <random>

#include "client/transport/slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/shard.h"

namespace lockstep::gradient {
namespace {

using ::testing::ElementsAre;

plan::Plan PlanOf(const char* mesh, const std::vector<Parameter>& everywhere) {
  plan::PlanInput input{.mesh = *ParseMesh(mesh)};
  input.registrations.assign(input.mesh.WorldSize(), everywhere);
  absl::StatusOr<plan::Plan> plan = plan::Compile(input);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

TEST(OwnedTest, EachLooksAtTheSliceThatItFoldsAndNotAtFlags) {
  const plan::Plan plan = PlanOf(
      "data=2", {{.name = "b", .shape = {3}}, {.name = "w", .shape = {40}}});
  ASSERT_EQ(plan.buckets.size(), 1u);
  ASSERT_EQ(plan.buckets[0].flags_offset, 48 + 16) << "lines of 16 elements";
  EXPECT_THAT(OwnedRanges(plan, 0, 0), ElementsAre(OwnedRange{0, 48}));
  EXPECT_THAT(OwnedRanges(plan, 0, 1), ElementsAre(OwnedRange{48, 16}));
  EXPECT_TRUE(CountsWholeSlice(plan, 0, 0));
}

TEST(OwnedTest, WhatAnotherCountsIsCutOutOfTheSlice) {
  const Parameter here{.name = "w", .shape = {40}, .axes = {"data"}};
  Parameter there = here;
  there.name = "b";
  there.replicated_over = {"pipe"};
  const plan::Plan plan = PlanOf("data=2,pipe=2", {there, here});
  for (int rank = 0; rank < 4; ++rank) {
    const bool all = plan.mesh.CoordinatesOf(rank)[1] == 0;
    for (int b = 0; b < static_cast<int>(plan.buckets.size()); ++b) {
      const auto& members =
          plan.communicators[plan.buckets[b].communicator].ranks;
      if (std::find(members.begin(), members.end(), rank) == members.end())
        continue;
      EXPECT_EQ(CountsWholeSlice(plan, b, rank), all) << rank;
    }
  }
}

// Of a range of a bucket, what lies in its slots.
int64_t InSlots(const plan::Bucket& bucket, const OwnedRange& range) {
  int64_t count = 0;
  for (const plan::Slot& slot : bucket.slots) {
    count += plan::PartIn(slot, {range.offset, range.count}).count;
  }
  return count;
}

void ExpectEachElementOnce(const plan::Plan& plan, int64_t logical_elements) {
  int64_t counted = 0;
  for (int rank = 0; rank < plan.mesh.WorldSize(); ++rank) {
    for (int b = 0; b < static_cast<int>(plan.buckets.size()); ++b) {
      const auto& members =
          plan.communicators[plan.buckets[b].communicator].ranks;
      if (std::find(members.begin(), members.end(), rank) == members.end())
        continue;
      for (const OwnedRange& range : OwnedRanges(plan, b, rank))
        counted += InSlots(plan.buckets[b], range);
    }
  }
  EXPECT_EQ(counted, logical_elements);
}

TEST(OwnedTest, TheWorldCountsEachLogicalElementOnce) {
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

// Where the parts lie does not depend on who looks at them.
TEST(OwnedTest, LeavesHaveTheSamePartsOnAnyNumberOfRanks) {
  constexpr int kLeaves = 8;
  const std::vector<Parameter> parameters = {{.name = "b", .shape = {70'001}},
                                             {.name = "w", .shape = {100'003}}};
  std::vector<std::vector<OwnedRange>> alone;
  for (const int ranks : {1, 2, 4, 8}) {
    plan::PlanInput input{.mesh = {{{"data", ranks}}}};
    input.registrations.assign(ranks, parameters);
    input.leaves = kLeaves;
    const auto plan = plan::Compile(input);
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::vector<std::vector<OwnedRange>> parts;
    int64_t counted = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const OwnedLeaf& owned : OwnedLeaves(*plan, 0, rank)) {
        EXPECT_EQ(owned.leaf, static_cast<int>(parts.size()));
        parts.push_back(owned.ranges);
        for (const OwnedRange& range : owned.ranges) {
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

// ... and together a rank's are what it folds, up to the flags.
TEST(OwnedTest, LeavesOfARankAreOneSlice) {
  for (const int ranks : {1, 2, 4}) {
    plan::PlanInput input{.mesh = {{{"data", ranks}}}};
    input.registrations.assign(ranks, {{.name = "w", .shape = {50'003}},
                                       {.name = "b", .shape = {33}}});
    input.leaves = 8;
    const auto plan = plan::Compile(input);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const plan::Bucket& bucket = plan->buckets[0];
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(CountsWholeSlice(*plan, 0, rank));
      const transport::Range slice =
          transport::PairsSlice(bucket.total, ranks, rank);
      int64_t next = slice.begin;
      for (const OwnedLeaf& owned : OwnedLeaves(*plan, 0, rank)) {
        for (const OwnedRange& range : owned.ranges) {
          EXPECT_EQ(range.offset, next);
          next += range.count;
        }
      }
      EXPECT_EQ(next, std::min<int64_t>(slice.begin + slice.count,
                                        bucket.flags_offset));
    }
  }
}

// Of a leaf's part, one rank of those that share a parameter counts it.
TEST(OwnedTest, LeavesCountReplicatedParametersOnce) {
  const Parameter all{.name = "w", .shape = {9'000}, .axes = {"data"}};
  Parameter once = all;
  once.name = "v";
  once.replicated_over = {"pipe"};
  plan::PlanInput input{.mesh = *ParseMesh("data=2,pipe=2")};
  input.registrations.assign(4, {once, all});
  input.leaves = 4;
  const auto plan = plan::Compile(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  int64_t counted = 0;
  for (int rank = 0; rank < 4; ++rank) {
    for (int b = 0; b < static_cast<int>(plan->buckets.size()); ++b) {
      const plan::Bucket& bucket = plan->buckets[b];
      const auto& members = plan->communicators[bucket.communicator].ranks;
      if (std::find(members.begin(), members.end(), rank) == members.end())
        continue;
      for (const OwnedLeaf& owned : OwnedLeaves(*plan, b, rank)) {
        for (const OwnedRange& range : owned.ranges) {
          counted += InSlots(bucket, range);
        }
      }
    }
  }
  EXPECT_EQ(counted, 9'000 + 2 * 9'000);
}

}  // namespace
}  // namespace lockstep::gradient
