#include "lockstep/mesh.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

Mesh Cube() { return {.axes = {{"a", 2}, {"b", 3}, {"c", 2}}}; }

TEST(MeshTest, TheLastAxisIsFastest) {
  const Mesh mesh{.axes = {{"data", 2}, {"pipe", 3}}};
  EXPECT_EQ(mesh.WorldSize(), 6);
  EXPECT_EQ(mesh.CoordinatesOf(4), (std::vector<int>{1, 1}));
  EXPECT_EQ(mesh.RankAt({1, 1}), 4);
}

TEST(MeshTest, WithoutAxesIsOneRank) {
  const Mesh mesh;
  EXPECT_EQ(mesh.WorldSize(), 1);
  EXPECT_TRUE(mesh.CoordinatesOf(0).empty());
  EXPECT_EQ(mesh.GroupOf(0, {}), std::vector<int>{0});
  EXPECT_TRUE(Validate(mesh).ok());
}

TEST(MeshTest, EveryRankIsItsCoordinates) {
  for (int rank = 0; rank < Cube().WorldSize(); ++rank) {
    EXPECT_EQ(Cube().RankAt(Cube().CoordinatesOf(rank)), rank);
  }
}

TEST(MeshTest, AGroupListsTheLastNamedAxisFastest) {
  EXPECT_EQ(Cube().GroupOf(3, {"a"}), (std::vector<int>{3, 9}));
  EXPECT_EQ(Cube().GroupOf(3, {"a", "c"}), (std::vector<int>{2, 3, 8, 9}));
  EXPECT_EQ(Cube().GroupOf(3, {"c", "a"}), (std::vector<int>{2, 8, 3, 9}));
  EXPECT_EQ(Cube().GroupOf(3, {}), std::vector<int>{3});
}

// The definition, read literally: the ranks differ in named axes only.
bool InGroup(const Mesh& mesh, int rank, int other,
             const std::vector<std::string>& names) {
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const bool named =
        std::find(names.begin(), names.end(), mesh.axes[i].name) != names.end();
    if (!named && mesh.CoordinatesOf(rank)[i] != mesh.CoordinatesOf(other)[i]) {
      return false;
    }
  }
  return true;
}

TEST(MeshTest, GroupsAreTheirDefinitionAndCutTheWorld) {
  const std::vector<std::vector<std::string>> listings = {
      {}, {"a"}, {"b"}, {"c", "b"}, {"a", "c"}, {"b", "c", "a"}};
  for (const auto& names : listings) {
    std::vector<int> seen(Cube().WorldSize(), 0);
    int last_first = -1;
    for (const std::vector<int>& group : Cube().GroupsOver(names)) {
      EXPECT_GT(group[0], last_first);
      last_first = group[0];
      for (const int rank : group) ++seen[rank];
      int members = 0;
      for (int other = 0; other < Cube().WorldSize(); ++other) {
        members += InGroup(Cube(), group[0], other, names);
      }
      EXPECT_EQ(static_cast<int>(group.size()), members);
      for (const int rank : group) {
        EXPECT_TRUE(InGroup(Cube(), group[0], rank, names));
        EXPECT_EQ(Cube().GroupOf(rank, names), group);
      }
    }
    EXPECT_EQ(seen, std::vector<int>(Cube().WorldSize(), 1));
  }
}

TEST(MeshTest, ReadsWhatItPrints) {
  for (const char* text : {"", "data=4", "data=2,pipe=3", "x_1=1,y=1048576"}) {
    const absl::StatusOr<Mesh> mesh = ParseMesh(text);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    EXPECT_EQ(ToString(*mesh), text);
  }
  EXPECT_EQ(ToString(*ParseMesh(" data = 2 , pipe=3 ")), "data=2,pipe=3");
}

TEST(MeshTest, RefusesWhatIsNoMesh) {
  for (const char* text :
       {"data", "data=", "data=0", "data=-1", "data=2,", "=2", "data=2,data=3",
        "1d=2", "a-b=2", "data=x", "data=2 pipe=2", "a=1048577",
        "a=65536,b=65536", "a=99999999999", "größe=2"}) {
    EXPECT_EQ(ParseMesh(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(MeshTest, SaysWhatIsWrong) {
  EXPECT_NE(ParseMesh("data=2,data=3").status().message().find("data"),
            std::string::npos);
  EXPECT_NE(ParseMesh("pipe=0").status().message().find("pipe"),
            std::string::npos);
}

TEST(MeshDeathTest, AsksOnlyForRanksThatExist) {
  EXPECT_DEATH(Cube().CoordinatesOf(12), "outside the mesh");
  EXPECT_DEATH(Cube().RankAt({0, 3, 0}), "outside its mesh axis");
  EXPECT_DEATH(Cube().GroupOf(0, {"d"}), "no axis");
  EXPECT_DEATH(Cube().GroupOf(0, {"a", "a"}), "twice");
}

// A message has no more.
TEST(MeshTest, HasNoMoreAxesThanAMessageHolds) {
  Mesh mesh;
  for (int i = 0; i < 64; ++i) mesh.axes.push_back({absl::StrCat("a", i), 1});
  EXPECT_TRUE(Validate(mesh).ok());
  mesh.axes.push_back({"b", 1});
  EXPECT_EQ(Validate(mesh).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep
