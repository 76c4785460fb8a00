// Plans with halo exchanges: revisions, text, determinism.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/digest.h"
#include "plan/plan_json.h"
#include "plan/verify/verify.h"
#include "tests/plan/halo/random_halos.h"
#include "tests/plan/halo/run_halos.h"

namespace lockstep::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

PlanInput WithParameters(uint64_t seed) {
  PlanInput input = RandomHalos(seed).Input();
  for (std::vector<Parameter>& registered : input.registrations) {
    registered = {{.name = "w", .shape = {16, 3}}, {.name = "b", .shape = {5}}};
  }
  input.policy.first_bytes_max = input.policy.bytes_max = 64;
  return input;
}

TEST(HaloPlansTest, CompileIsDeterministic) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Plan first = *Compile(WithParameters(seed));
    const Plan second = *Compile(WithParameters(seed));
    ASSERT_EQ(first, second) << "seed " << seed;
    ASSERT_EQ(DigestOf(first), DigestOf(second)) << "seed " << seed;
  }
}

TEST(HaloPlansTest, ALaterRevisionKeepsThem) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    PlanInput input = WithParameters(seed);
    const Plan first = *Compile(input);
    const absl::StatusOr<Plan> next = Recut(first, input.policy, {0, 1});
    ASSERT_TRUE(next.ok()) << next.status();
    ASSERT_EQ(next->halos, first.halos) << "seed " << seed;
    for (size_t rank = 0; rank < first.ranks.size(); ++rank) {
      ASSERT_EQ(next->ranks[rank].halos, first.ranks[rank].halos);
    }
    input.observed_order = {0, 1};
    input.revision = next->revision;
    ASSERT_EQ(*next, *Compile(input)) << "seed " << seed;
    ASSERT_EQ(Verify(*next), absl::OkStatus()) << "seed " << seed;
    ASSERT_EQ(oracle::HaloFaultIn(*next), std::nullopt) << "seed " << seed;
  }
}

TEST(HaloPlansTest, EveryPlanReadsBackEqualFromText) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Plan plan = *Compile(WithParameters(seed));
    const absl::StatusOr<Plan> read = PlanFromJson(PlanToJson(plan));
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(*read, plan) << "seed " << seed;
    ASSERT_EQ(DigestOf(*read), DigestOf(plan)) << "seed " << seed;
  }
}

// Constants are read back to the last bit.
TEST(HaloPlansTest, ConstantsReadBackFromText) {
  for (const double constant : {0.1, -0.0, 1e-300, 1.7976931348623157e308}) {
    PlanInput input{.mesh = {{{"lat", 1}}}};
    input.registrations.resize(1);
    const HaloTensor tensor{
        DType::kF64, {2}, {{0, "", 1, 1, HaloEdge::kConstant, constant}}};
    input.halos = {{{"u", {tensor}}}};
    const Plan plan = *Compile(input);
    const absl::StatusOr<Plan> read = PlanFromJson(PlanToJson(plan));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(DigestOf(*read), DigestOf(plan)) << constant;
  }
}

// 61 x 61 boxes in each exchange.
TEST(HaloPlansTest, TheBoxesOfAPlanAreLimited) {
  PlanInput input{.mesh = {{{"lat", 1}}}};
  input.registrations.resize(1);
  input.halos.resize(1);
  for (int i = 0; i < 70; ++i) {
    const HaloTensor tensor{DType::kU8,
                            {1, 1},
                            {{0, "", 30, 30, HaloEdge::kPeriodic},
                             {1, "", 30, 30, HaloEdge::kPeriodic}}};
    input.halos[0].push_back({absl::StrCat("h", i), {tensor}});
  }
  EXPECT_EQ(Compile(input).status(), absl::OkStatus());
  input.halos[0].push_back(input.halos[0][0]);
  input.halos[0].back().name = "one too many";
  EXPECT_THAT(std::string(Compile(input).status().message()),
              HasSubstr("copy 264191 boxes; a plan has at most 262144"));
}

// Also one without messages, which has no lane.
TEST(HaloPlansTest, NegotiatedModeRunsNone) {
  PlanInput input{.mesh = {{{"lat", 2}}}};
  input.registrations.resize(2);
  input.halos = {
      {}, {{"u", {{DType::kF32, {2}, {{0, "", 1, 1, HaloEdge::kZero}}}}}}};
  const absl::StatusOr<Plan> plan = Compile(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(CheckSync(*plan, SyncMode::kStatic), absl::OkStatus());
  input.sync = SyncMode::kNegotiated;
  for (const absl::Status& refused :
       {CheckSync(*plan, input.sync), Compile(input).status()}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(refused.message()),
        AllOf(HasSubstr("rank 1"), HasSubstr("u"), HasSubstr("negotiated")));
  }
}

}  // namespace
}  // namespace lockstep::plan
