#include "client/gradient/owned.h"

#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"

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

TEST(OwnedTest, MembersCutEachSlotAndLeaveOutFlagsAndPadding) {
  const plan::Plan plan = PlanOf(
      "data=2", {{.name = "b", .shape = {3}}, {.name = "w", .shape = {5}}});
  ASSERT_EQ(plan.buckets.size(), 1u);
  const std::vector<plan::Slot>& slots = plan.buckets[0].slots;
  ASSERT_EQ(slots[0].count, 5) << "the last registered is ready first";
  EXPECT_THAT(OwnedRanges(plan, 0, 0),
              ElementsAre(OwnedRange{slots[0].offset, 2},
                          OwnedRange{slots[1].offset, 1}));
  EXPECT_THAT(OwnedRanges(plan, 0, 1),
              ElementsAre(OwnedRange{slots[0].offset + 2, 3},
                          OwnedRange{slots[1].offset + 1, 2}));
}

// Counts how many ranks look at each element of each logical parameter.
void ExpectEachElementOnce(const plan::Plan& plan, int64_t logical_elements) {
  int64_t counted = 0;
  for (int rank = 0; rank < plan.mesh.WorldSize(); ++rank) {
    for (int b = 0; b < static_cast<int>(plan.buckets.size()); ++b) {
      const auto& members =
          plan.communicators[plan.buckets[b].communicator].ranks;
      if (std::find(members.begin(), members.end(), rank) == members.end())
        continue;
      for (const OwnedRange& range : OwnedRanges(plan, b, rank))
        counted += range.count;
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
  }
}

}  // namespace
}  // namespace lockstep::gradient
