#include "plan/axis_groups.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::plan {
namespace {

using testing::ElementsAre;

const Mesh kMesh{{{"data", 2}, {"model", 3}}};

std::string ErrorOfGroups(const std::vector<std::string>& axes,
                          const std::vector<std::vector<int>>& index_groups) {
  const auto groups = GroupsOver(kMesh, axes, index_groups);
  EXPECT_EQ(groups.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(groups.status().message());
}

TEST(AxisGroupsTest, TheFirstNamedAxisIsTheSlowest) {
  EXPECT_THAT(GroupsOver(kMesh, {"model", "data"}, {})->groups,
              ElementsAre(ElementsAre(0, 3, 1, 4, 2, 5)));
  EXPECT_THAT(
      GroupsOver(kMesh, {"data"}, {})->groups,
      ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5)));
  EXPECT_EQ(GroupsOver(kMesh, {}, {})->groups.size(), 6u);
}

TEST(AxisGroupsTest, TheOrderInAListIsTheOrderOfItsMembers) {
  const auto groups = *GroupsOver(kMesh, {"model"}, {{2, 0}, {1}});
  EXPECT_THAT(groups.groups, ElementsAre(ElementsAre(2, 0), ElementsAre(1),
                                         ElementsAre(5, 3), ElementsAre(4)));
  EXPECT_FALSE(groups.even);
  EXPECT_EQ(GroupWith(groups, 3), 2u);
  EXPECT_TRUE(GroupsOver(kMesh, {"model"}, {{2}, {0}, {1}})->even);
}

TEST(AxisGroupsTest, RefusesUnknownAxes) {
  EXPECT_EQ(ErrorOfGroups({"batch"}, {}),
            "the mesh data=2,model=3 has no axis batch");
  EXPECT_EQ(ErrorOfGroups({"data", "data"}, {}),
            "the axis data is named twice");
}

TEST(AxisGroupsTest, RefusesGroupsThatAreNoPartition) {
  EXPECT_EQ(ErrorOfGroups({"model"}, {{0, 1}, {1, 2}}),
            "the index groups have 1 twice");
  EXPECT_EQ(ErrorOfGroups({"model"}, {{0, 1}}),
            "the index groups lack 2: each of the 3 members must be in one");
  EXPECT_EQ(ErrorOfGroups({"model"}, {{0, 1}, {2, 3}}),
            "the index groups have 3, which is outside of the 3 members");
  EXPECT_EQ(ErrorOfGroups({"model"}, {{0, 1, 2}, {}}),
            "an index group is empty");
}

}  // namespace
}  // namespace lockstep::plan
