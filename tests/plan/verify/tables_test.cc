// Plans with wrong tables, one plan for each rule.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/plan/verify/broken.h"

namespace lockstep::plan {
namespace {

std::vector<Broken> BrokenTables() {
  return {
      {"revision zero", Rule::kWorld, {}, [](Plan& p) { p.revision = {0}; }},
      {"a revision beyond the largest",
       Rule::kWorld,
       {},
       [](Plan& p) { p.revision = {kRevisionMax + 1}; }},
      {"no mesh", Rule::kWorld, {}, [](Plan& p) { p.mesh.axes[0].size = 0; }},
      {"a rank too many",
       Rule::kWorld,
       {},
       [](Plan& p) { p.ranks.emplace_back(); }},
      {"a rank too few", Rule::kWorld, {}, [](Plan& p) { p.ranks.pop_back(); }},
      {"no communicators",
       Rule::kCommunicators,
       {},
       [](Plan& p) { p.communicators.clear(); }},
      {"a world of another order",
       Rule::kCommunicators,
       {},
       [](Plan& p) {
         std::swap(p.communicators[0].ranks[0], p.communicators[0].ranks[1]);
       }},
      {"a communicator without members",
       Rule::kCommunicators,
       {},
       [](Plan& p) { p.communicators.push_back({.name = "empty"}); }},
      {"a member twice",
       Rule::kCommunicators,
       {2},
       [](Plan& p) {
         p.communicators.push_back({.name = "x", .ranks = {2, 0, 2}});
       }},
      {"a member from another world",
       Rule::kCommunicators,
       {},
       [](Plan& p) {
         p.communicators.push_back({.name = "x", .ranks = {0, 4}});
       }},
      {"a negative member",
       Rule::kCommunicators,
       {},
       [](Plan& p) {
         p.communicators.push_back({.name = "x", .ranks = {-1}});
       }},
      {"a communicator's name twice",
       Rule::kCommunicators,
       {},
       [](Plan& p) { p.communicators[1].name = "verdict"; }},
      {"a communicator without a name",
       Rule::kCommunicators,
       {},
       [](Plan& p) { p.communicators[1].name = ""; }},
      {"a malformed parameter",
       Rule::kParameters,
       {},
       [](Plan& p) { p.parameters[0].dtype = DType::kU8; }},
      {"a parameter over no axis",
       Rule::kParameters,
       {},
       [](Plan& p) { p.parameters[0].axes = {"model"}; }},
      {"two parameters of one name on a rank",
       Rule::kParameters,
       {0},
       [](Plan& p) {
         for (Parameter& parameter : p.parameters) parameter.name = "same";
       }},
      {"a bucket on no communicator",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].communicator = 99; }},
      {"a bucket that is sent as whole numbers",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].wire = DType::kI8; }},
      {"a bucket that is sent as it is, and is cast",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].wire = p.buckets[0].dtype; }},
      {"feedback of the errors of no cast",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].error_feedback = true; }},
      {"a bucket of integers",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].dtype = DType::kI32; }},
      {"a bucket with a maximum",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].op = ReduceOp::kMax; }},
      {"an empty bucket",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets.push_back({.communicator = 0}); }},
      {"a slot of no parameter",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].slots[0].parameter = -1; }},
      {"a slot of another size",
       Rule::kBuckets,
       {},
       [](Plan& p) { --p.buckets[0].slots[0].count; }},
      {"a slot that is not aligned",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].slots[0].offset = 1; }},
      {"a slot before the bucket",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].slots[0].offset = -64; }},
      {"a slot far away",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].slots[0].offset = int64_t{1} << 62; }},
      {"overlapping slots",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].slots.push_back(p.buckets[0].slots[0]); }},
      {"a bucket of another dtype than its parameter",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].dtype = DType::kBF16; }},
      {"a bucket of another op than its parameter",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].op = ReduceOp::kMean; }},
      {"a parameter in two buckets",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets.push_back(p.buckets[0]); }},
      {"a parameter in no bucket",
       Rule::kBuckets,
       {},
       [](Plan& p) {
         p.parameters.push_back({.name = "orphan", .shape = {2}});
       }},
      {"a bucket that travels over another group",
       Rule::kBuckets,
       {},
       [](Plan& p) { p.buckets[0].communicator = 0; }},
      {"flags inside a slot",
       Rule::kBuckets,
       {},
       [](Plan& p) {
         p.buckets.back().flags_offset = 0;
         p.buckets.back().total = 1;
       }},
      {"flags that are not aligned",
       Rule::kBuckets,
       {},
       [](Plan& p) {
         ++p.buckets[0].flags_offset;
         ++p.buckets[0].total;
       }},
      {"no room for the flags",
       Rule::kBuckets,
       {},
       [](Plan& p) { --p.buckets[0].total; }},
  };
}

TEST(TablesTest, TheGoodPlanIsAccepted) {
  EXPECT_TRUE(Verify(GoodPlan()).ok()) << Verify(GoodPlan());
}

TEST(TablesTest, EveryBrokenOneIsRefused) {
  ExpectRefused(BrokenTables(), {Rule::kWorld, Rule::kCommunicators,
                                 Rule::kParameters, Rule::kBuckets});
}

// There is always a next revision, and JSON represents the number exactly.
TEST(TablesTest, RevisionsAreCountedUpToALargest) {
  Plan plan = GoodPlan();
  plan.revision = {kRevisionMax};
  EXPECT_EQ(Verify(plan), absl::OkStatus());
  for (const uint64_t beyond : {kRevisionMax + 1, UINT64_MAX}) {
    plan.revision = {beyond};
    EXPECT_THAT(std::string(Verify(plan).message()),
                testing::HasSubstr(
                    absl::StrCat("the revision is ", beyond,
                                 ": revisions are 1 to 9007199254740991")));
  }
}

TEST(TablesTest, AMessageKeepsTheFirstFewFindings) {
  Plan plan = GoodPlan();
  for (int i = 0; i < 1000; ++i) plan.communicators.push_back({});
  const std::string message(Verify(plan).message());
  EXPECT_LT(message.size(), 2000u);
  EXPECT_THAT(message, testing::HasSubstr("more"));
}

}  // namespace
}  // namespace lockstep::plan
