// Invalid registrations: the error names the ranks and what each registered.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "tests/plan/plans.h"
#include "tests/plan/registrations.h"

namespace lockstep::plan {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

TEST(RegistrationTest, AMismatchSaysWhichRanksSaidWhat) {
  PlanInput input = Alike(kFour, {P("w", {128, 64}), P("b")});
  input.registrations[3][0].shape = {128, 65};
  const std::string error = ErrorOf(input);
  EXPECT_THAT(error, HasSubstr("w: ranks 0-2: [128,64] f32 mean; "
                               "rank 3: [128,65] f32 mean"));
  EXPECT_THAT(error, Not(HasSubstr("b: ")));
}

TEST(RegistrationTest, EveryFieldOfAParameterMustAgree) {
  const std::vector<void (*)(Parameter&)> changes = {
      [](Parameter& p) { p.shape = {9}; },
      [](Parameter& p) { p.dtype = DType::kBF16; },
      [](Parameter& p) { p.op = ReduceOp::kSum; },
      [](Parameter& p) {
        p.axes = {"data", "pipe"};
      },
      [](Parameter& p) { p.replicated_over = {"pipe"}; },
  };
  for (const auto& change : changes) {
    PlanInput input = Alike(kTwoByTwo, {Over("w", {"data"})});
    change(input.registrations[2][0]);
    EXPECT_THAT(ErrorOf(input), HasSubstr("rank 2: "));
  }
}

TEST(RegistrationTest, AMissingParameterIsAMismatch) {
  PlanInput input = Alike(kFour, {P("w")});
  input.registrations[0].clear();
  input.registrations[2].clear();
  EXPECT_THAT(ErrorOf(input),
              HasSubstr("w: ranks 0, 2: missing; ranks 1, 3: [8] f32 mean"));
}

TEST(RegistrationTest, ANameThatLooksAlikeIsNamed) {
  PlanInput input = Alike(kFour, {P("model/weight"), P("zebra")});
  input.registrations[3][0].name = "model_1/weight";
  const std::string error = ErrorOf(input);
  EXPECT_THAT(error, HasSubstr("model/weight: ranks 0-2: [8] f32 mean; rank 3: "
                               "missing (it has model_1/weight)"));
  EXPECT_THAT(error, HasSubstr("model_1/weight: ranks 0-2: missing (it has "
                               "model/weight); rank 3: [8] f32 mean"));
  input.registrations[3][0].name = "bias";
  EXPECT_THAT(ErrorOf(input), Not(HasSubstr("it has")));
}

TEST(RegistrationTest, AWholeModelThatIsSpeltDifferentlyIsNoticed) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 300; ++i) {
    parameters.push_back(P(absl::StrCat("model/layer_", i, "/weight")));
  }
  PlanInput input = Alike(kFour, parameters);
  for (int i = 0; i < 300; ++i) {
    input.registrations[3][i].name =
        absl::StrCat("model_1/layer_", i, "/weight");
  }
  EXPECT_THAT(ErrorOf(input),
              HasSubstr("rank 3: missing (it has model_1/layer_0/weight)"));
}

TEST(RegistrationTest, OneOfManyRanksThatDiffersIsFoundQuickly) {
  constexpr int kRanks = 20'000;
  PlanInput input = Alike(MeshOf({{"data", kRanks}}), {P("w"), P("b")});
  for (int rank = 0; rank < kRanks; rank += 2) {
    input.registrations[rank][0].shape = {9};
  }
  EXPECT_THAT(ErrorOf(input), HasSubstr("w: ranks 0, 2, 4"));
}

TEST(RegistrationTest, AMismatchConcernsOnlyTheGroupsThatDisagree) {
  PlanInput input = Alike(kTwoByTwo, {Over("w", {"data"})});
  input.registrations[2].clear();
  EXPECT_THAT(ErrorOf(input),
              EndsWith("w: rank 0: [8] f32 mean over data; rank 2: missing"));
}

TEST(RegistrationTest, DisagreementAboutAxesConcernsBothGroups) {
  PlanInput input = Alike(kTwoByTwo, {Over("w", {"data"})});
  input.registrations[0][0].axes = {"pipe"};
  const std::string error = ErrorOf(input);
  EXPECT_THAT(error, HasSubstr("rank 0: [8] f32 mean over pipe"));
  EXPECT_THAT(error, HasSubstr("ranks 1-3: [8] f32 mean over data"));
}

TEST(RegistrationTest, ListsTwentyMismatchesInFullAndTheOthersByName) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 30; ++i) parameters.push_back(P(absl::StrCat("p", i)));
  PlanInput input = Alike(kFour, parameters);
  for (Parameter& parameter : input.registrations[1]) parameter.shape = {7};
  const std::string error = ErrorOf(input);
  EXPECT_THAT(error, HasSubstr("30"));
  EXPECT_THAT(error, HasSubstr("p19: ranks 0, 2-3: [8] f32 mean; rank 1: [7]"));
  EXPECT_THAT(error, Not(HasSubstr("p20: ")));
  EXPECT_THAT(error, HasSubstr("p20, p21"));
  EXPECT_THAT(error, HasSubstr("p29"));
}

TEST(RegistrationTest, AMessageStaysReadableWhateverTheNumberOfMismatches) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 50'000; ++i) {
    parameters.push_back(P(absl::StrCat("layer.", i)));
  }
  PlanInput input = Alike(MeshOf({{"data", 2}}), parameters);
  input.registrations[1].clear();
  EXPECT_LT(ErrorOf(input).size(), size_t{70} << 10);
}

TEST(RegistrationTest, RefusesARegistrationOfAnotherWorld) {
  PlanInput input = Alike(kFour, {P("w")});
  input.registrations.pop_back();
  EXPECT_THAT(ErrorOf(input), HasSubstr("4 ranks, but 3"));
}

TEST(RegistrationTest, RefusesANameThatARankRegistersTwice) {
  PlanInput input = Alike(kFour, {P("w"), P("v")});
  input.registrations[1].push_back(P("w"));
  input.registrations[2].push_back(P("w"));
  const std::string error = ErrorOf(input);
  EXPECT_THAT(error, HasSubstr("parameter w"));
  EXPECT_THAT(error, HasSubstr("ranks 1-2"));
}

TEST(RegistrationTest, RefusesAMalformedParameterWithItsRanks) {
  PlanInput input = Alike(kFour, {P("w")});
  for (const int rank : {1, 3}) {
    input.registrations[rank][0].dtype = DType::kI32;
  }
  const std::string error = ErrorOf(input);
  EXPECT_THAT(error, HasSubstr("ranks 1, 3"));
  EXPECT_THAT(error, HasSubstr("dtype i32"));
}

TEST(RegistrationTest, RefusesAMeshThatIsNone) {
  EXPECT_THAT(ErrorOf({.mesh = MeshOf({{"data", 0}})}), HasSubstr("data"));
}

}  // namespace
}  // namespace lockstep::plan
