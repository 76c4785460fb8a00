#include "plan/compile.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/digest.h"
#include "plan/verify/verify.h"
#include "tests/plan/plans.h"
#include "tests/plan/registrations.h"

namespace lockstep::plan {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> BucketOrder(const Plan& plan, int rank) {
  std::vector<std::string> names;
  for (const Transfer& transfer : plan.ranks[rank].lanes[0].transfers) {
    for (const Slot& slot : plan.buckets[transfer.bucket].slots) {
      names.push_back(plan.parameters[slot.parameter].name);
    }
  }
  return names;
}

TEST(CompileTest, ReducesEveryParameterOverTheWorldInOneLane) {
  const absl::StatusOr<Plan> plan = Compile(Alike(kFour, {P("a"), P("b")}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->communicators.size(), 2u);
  EXPECT_EQ(plan->communicators[0].name, "verdict");
  EXPECT_EQ(plan->communicators[1].name, "data@0");
  EXPECT_EQ(plan->communicators[1].ranks, plan->communicators[0].ranks);
  ASSERT_EQ(plan->buckets.size(), 1u);
  ASSERT_EQ(plan->ranks.size(), 4u);
  for (const RankPlan& rank : plan->ranks) {
    ASSERT_EQ(rank.lanes.size(), 2u);
    EXPECT_EQ(rank.lanes[0].kind, LaneKind::kGradient);
    EXPECT_EQ(rank.lanes[1].kind, LaneKind::kVerdict);
    ASSERT_EQ(rank.lanes[0].transfers.size(), 1u);
    const Transfer& transfer = rank.lanes[0].transfers[0];
    EXPECT_EQ(transfer.kind, TransferKind::kAllReduce);
    EXPECT_EQ(transfer.op, ReduceOp::kMean);
    EXPECT_EQ(transfer.shape, std::vector<int64_t>{plan->buckets[0].total});
    EXPECT_EQ(rank.launch_order,
              (std::vector<TransferRef>{{0, 0}, {1, 0}, {1, 1}}));
  }
}

TEST(CompileTest, ReducesFirstWhatWasRegisteredLast) {
  const absl::StatusOr<Plan> plan =
      Compile(Alike(kFour, {P("a"), P("b"), P("c")}));
  EXPECT_EQ(BucketOrder(*plan, 0), (std::vector<std::string>{"c", "b", "a"}));
}

TEST(CompileTest, FollowsTheObservedOrder) {
  PlanInput input = Alike(kFour, {P("a"), P("b"), P("c")});
  input.observed_order = {1, 2, 0};
  input.revision = {2};
  const absl::StatusOr<Plan> plan = Compile(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(BucketOrder(*plan, 3), (std::vector<std::string>{"b", "c", "a"}));
  EXPECT_EQ(plan->revision, Revision{2});
}

TEST(CompileTest, RefusesAnObservedOrderThatIsNoPermutation) {
  PlanInput input = Alike(kFour, {P("a"), P("b")});
  input.observed_order = {0};
  EXPECT_THAT(ErrorOf(input), HasSubstr("1 of 2"));
  input.observed_order = {1, 2};
  EXPECT_THAT(ErrorOf(input), HasSubstr("not registered"));
  input.observed_order = {1, 1};
  EXPECT_THAT(ErrorOf(input), HasSubstr("there already"));
  EXPECT_FALSE(Recut(*Compile(Alike(kFour, {P("a")})), {}, {1}).ok());
}

TEST(CompileTest, ARecutPlanIsWhatItsInputCompilesToInThatOrder) {
  PlanInput input =
      Alike(kTwoByTwo, {Over("w", {"data"}), P("head"), P("tail"), P("last")});
  input.policy = {.first_bytes_max = 64, .bytes_max = 128};
  const Plan first = *Compile(input);
  std::vector<uint32_t> order(first.parameters.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
    std::shuffle(order.begin(), order.end(), random);
    input.observed_order = order;
    input.revision = {2};
    const absl::StatusOr<Plan> recut = Recut(first, input.policy, order);
    ASSERT_TRUE(recut.ok()) << recut.status();
    EXPECT_EQ(*recut, *Compile(input));
    EXPECT_EQ(DigestOf(*recut), DigestOf(*Compile(input)));
    EXPECT_EQ(recut->communicators, first.communicators);
    EXPECT_EQ(recut->parameters, first.parameters);
    EXPECT_EQ(Verify(*recut), absl::OkStatus());
  }
}

TEST(CompileTest, PlansAreCutAlikeIfTheSameTravelTogetherInTheSameOrder) {
  PlanInput input = Alike(kFour, {P("a"), P("b"), P("c")});
  input.policy = {.first_bytes_max = 64, .bytes_max = 128};
  const Plan first = *Compile(input);  // |c|b a|
  EXPECT_TRUE(CutAlike(first, first));
  EXPECT_TRUE(CutAlike(first, *Recut(first, input.policy, {2, 0, 1})));
  EXPECT_FALSE(CutAlike(first, *Recut(first, input.policy, {1, 2, 0})));
  EXPECT_FALSE(CutAlike(first, *Recut(first, BucketPolicy{}, {2, 1, 0})));
}

TEST(CompileTest, InNegotiatedModeEachParameterTravelsAlone) {
  const std::vector<Parameter> registered = {P("a"), P("empty", {0}), P("b"),
                                             P("none", {0})};
  const auto plan = Compile(
      {.mesh = kFour,
       .sync = SyncMode::kNegotiated,
       .registrations = {registered, registered, registered, registered}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->buckets.size(), 4u);
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
  EXPECT_EQ(CheckSync(*plan, SyncMode::kNegotiated), absl::OkStatus());
}

TEST(CompileTest, NegotiatedModeRefusesBucketsOfSeveral) {
  auto plan = Compile(
      {.mesh = {.axes = {{"data", 1}}}, .registrations = {{P("a"), P("b")}}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(CheckSync(*plan, SyncMode::kStatic), absl::OkStatus());
  plan->buckets[0].announced = true;
  EXPECT_THAT(CheckSync(*plan, SyncMode::kNegotiated).ToString(),
              HasSubstr("bucket 0 holds 2 parameters"));
}

TEST(CompileTest, NegotiatedModeRefusesPipelinesAndHalos) {
  auto plan = Compile({.mesh = {.axes = {{"data", 1}}},
                       .sync = SyncMode::kNegotiated,
                       .registrations = {{P("a")}}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  plan->ranks[0].lanes.push_back({.kind = LaneKind::kState, .name = "save"});
  EXPECT_EQ(CheckSync(*plan, SyncMode::kNegotiated), absl::OkStatus());
  for (const LaneKind kind : {LaneKind::kPipeline, LaneKind::kHalo}) {
    plan->ranks[0].lanes.back() = {.kind = kind, .name = "next"};
    Plan of_plan = *plan;
    of_plan.buckets[0].announced = false;
    EXPECT_EQ(CheckSync(of_plan, SyncMode::kStatic), absl::OkStatus());
    EXPECT_THAT(CheckSync(*plan, SyncMode::kNegotiated).ToString(),
                HasSubstr("rank 0 has a"));
  }
}

TEST(CompileTest, GivesEachGroupACommunicatorAndABucket) {
  const absl::StatusOr<Plan> plan =
      Compile(Alike(kTwoByTwo, {Over("w", {"data"}), P("head")}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->communicators.size(), 4u) << "the verdict's, and head's";
  EXPECT_EQ(plan->communicators[1].name, "data@0");
  EXPECT_EQ(plan->communicators[1].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(plan->communicators[2].name, "data@1");
  EXPECT_EQ(plan->communicators[2].ranks, (std::vector<int>{1, 3}));
  EXPECT_EQ(plan->parameters.size(), 3u) << "w once for each group";
  EXPECT_EQ(BucketOrder(*plan, 3), (std::vector<std::string>{"head", "w"}));
}

TEST(CompileTest, PipelineStagesMayUseOneNameForDifferentParameters) {
  PlanInput input{.mesh = kTwoByTwo};
  Parameter wide = Over("w", {"data"});
  wide.shape = {100};
  input.registrations = {
      {Over("w", {"data"})}, {wide}, {Over("w", {"data"})}, {wide}};
  const absl::StatusOr<Plan> plan = Compile(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->parameters.size(), 2u);
}

TEST(CompileTest, AnAxisOfOneRankIsReducedAlone) {
  const Mesh mesh{.axes = {{"data", 2}, {"pipe", 1}}};
  const absl::StatusOr<Plan> plan = Compile(
      Alike(mesh, {Over("mine", {"pipe"}), Over("all", {"pipe", "data"})}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::map<std::string, std::vector<int>> ranks;
  for (const CommunicatorSpec& c : plan->communicators) ranks[c.name] = c.ranks;
  const std::vector<int> both = {0, 1};
  EXPECT_EQ(ranks, (std::map<std::string, std::vector<int>>{{"verdict", both},
                                                            {"data@0", both},
                                                            {"alone@0", {0}},
                                                            {"alone@1", {1}}}));
}

TEST(CompileTest, RanksMayRegisterInDifferentOrders) {
  PlanInput input = Alike(kFour, {P("a"), P("b"), P("c")});
  std::swap(input.registrations[2][0], input.registrations[2][2]);
  const absl::StatusOr<Plan> plan = Compile(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(BucketOrder(*plan, 2), (std::vector<std::string>{"c", "b", "a"}));
}

TEST(CompileTest, NothingToReduceIsAPlanOfVerdicts) {
  const absl::StatusOr<Plan> plan = Compile(Alike(kFour, {}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->buckets.empty());
  EXPECT_TRUE(plan->ranks[3].lanes[0].transfers.empty());
  EXPECT_EQ(plan->ranks[3].lanes[1].transfers.size(), 2u);
}

TEST(CompileTest, EveryRankHoldsExactlyWhatItRegistered) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const PlanInput input = RandomInput(seed);
    const absl::StatusOr<Plan> plan = Compile(input);
    ASSERT_TRUE(plan.ok()) << "seed " << seed << ": " << plan.status();
    for (size_t rank = 0; rank < input.registrations.size(); ++rank) {
      std::multiset<std::string> registered;
      for (const Parameter& p : input.registrations[rank]) {
        registered.insert(p.name);
      }
      const std::vector<std::string> order =
          BucketOrder(*plan, static_cast<int>(rank));
      ASSERT_EQ(registered,
                std::multiset<std::string>(order.begin(), order.end()))
          << "seed " << seed;
    }
  }
}

// A quadratic step would exceed the test's time limit.
TEST(CompileTest, TakesAHundredThousandParameters) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 100'000; ++i) {
    parameters.push_back(P(absl::StrCat("layers.", i, ".weight"), {64, 64}));
  }
  const absl::StatusOr<Plan> plan =
      Compile(Alike(MeshOf({{"data", 4}}), parameters));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->parameters.size(), 100'000u);
  EXPECT_EQ(DigestOf(*plan).size(), 32u);
}

TEST(CompileTest, NegotiatedModeTakesAsManyAsOneMessageStates) {
  std::vector<Parameter> parameters;
  for (size_t i = 0; i < kNegotiatedParametersMax; ++i) {
    parameters.push_back({.name = absl::StrCat("w", i), .shape = {1}});
  }
  PlanInput input{.mesh = MeshOf({{"data", 1}}),
                  .sync = SyncMode::kNegotiated,
                  .registrations = {parameters}};
  EXPECT_EQ(Compile(input).status(), absl::OkStatus());
  input.registrations[0].push_back({.name = "v", .shape = {1}});
  EXPECT_EQ(Compile(input).status(),
            absl::InvalidArgumentError("100001 parameters are registered; "
                                       "sync: negotiated takes at most "
                                       "100000"));
}

}  // namespace
}  // namespace lockstep::plan
