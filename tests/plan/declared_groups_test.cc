#include "plan/declared_groups.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/verify/verify.h"

namespace lockstep::plan {
namespace {

using protocol::AxisGroupDeclaration;
using testing::ElementsAre;

const Mesh kDeclaredMesh{{{"data", 2}, {"model", 2}}};

PlanInput InputWith(std::vector<std::vector<AxisGroupDeclaration>> declared) {
  PlanInput input{.mesh = kDeclaredMesh, .groups = std::move(declared)};
  input.registrations.resize(4, {{.name = "w", .shape = {8}}});
  return input;
}

TEST(DeclaredGroupsTest, EachDeclarationHasItsOwnCommunicators) {
  const AxisGroupDeclaration data{{"data"}, {}};
  const AxisGroupDeclaration all{{"model", "data"}, {{3, 0}, {1, 2}}};
  const auto plan =
      Compile(InputWith({{data, all}, {all, data}, {data, all}, {data, all}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(Verify(*plan).ok()) << Verify(*plan);
  const std::vector<CommunicatorSpec> added(plan->communicators.end() - 4,
                                            plan->communicators.end());
  EXPECT_THAT(
      added,
      ElementsAre(CommunicatorSpec{"group/data@0", {0, 2}},
                  CommunicatorSpec{"group/data@1", {1, 3}},
                  CommunicatorSpec{"group/model+data[3,0|1,2]@3", {3, 0}},
                  CommunicatorSpec{"group/model+data[3,0|1,2]@2", {2, 1}}));
  // A later revision keeps them.
  const auto next = Recut(*plan, {}, {0});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->communicators, plan->communicators);
}

TEST(DeclaredGroupsTest, OnlyTheMembersOfAGroupDeclareIt) {
  const AxisGroupDeclaration model{{"model"}, {}};
  const auto plan = Compile(InputWith({{}, {}, {model}, {model}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->communicators.back(),
            (CommunicatorSpec{"group/model@2", {2, 3}}));
}

TEST(DeclaredGroupsTest, ADeclarationThatAMemberLacksIsRefused) {
  const AxisGroupDeclaration data{{"data"}, {}}, all{{"data", "model"}, {}};
  const auto plan = Compile(InputWith({{data, all}, {data}, {data}, {data}}));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(plan.status().message(),
            "a group over data+model is declared by rank 0 and not by ranks "
            "1-3: all its members, ranks 0-3, must declare it");
}

TEST(DeclaredGroupsTest, ADeclarationThatIsWrongNamesItsRanks) {
  const AxisGroupDeclaration unknown{{"stage"}, {}}, twice{{"data"}, {{0, 0}}};
  EXPECT_EQ(
      Compile(InputWith({{}, {unknown}, {unknown}, {}})).status().message(),
      "a group over stage, declared by ranks 1-2: the mesh "
      "data=2,model=2 has no axis stage");
  EXPECT_EQ(Compile(InputWith({{twice}, {}, {}, {}})).status().message(),
            "a group over data[0,0], declared by rank 0: the index groups have "
            "0 twice");
}

TEST(DeclaredGroupsTest, LongIndexGroupsHaveDifferentTexts) {
  AxisGroupDeclaration one{{"data"}, {{}}};
  for (int i = 0; i < 100; ++i) one.index_groups[0].push_back(i);
  AxisGroupDeclaration other = one;
  std::swap(other.index_groups[0][98], other.index_groups[0][99]);
  EXPECT_NE(Describe(one), Describe(other));
  EXPECT_LT(Describe(one).size(), 100u);
}

}  // namespace
}  // namespace lockstep::plan
