#include "gtest/gtest.h"
#include "server/core/data_plane.h"

namespace lockstep::core {
namespace {

plan::Plan PlanOf(int communicators) {
  plan::Plan plan;
  for (int c = 0; c < communicators; ++c) {
    plan.communicators.push_back({.name = "c" + std::to_string(c)});
  }
  return plan;
}

TEST(DataPlaneTest, NamesTheCommunicatorsOfEachTransport) {
  DataPlane plane;
  EXPECT_EQ(plane.Describe(PlanOf(2)), "");
  plane.Add({.groups = {{0, "shm"}, {2, "shm"}}});
  plane.Add({.groups = {{0, "shm"}, {1, "gloo (each rank has a host)"}}});
  EXPECT_EQ(plane.Describe(PlanOf(3)),
            ": gloo (each rank has a host) connects c1; shm connects c0, c2");
}

TEST(DataPlaneTest, NamesAFewOfMany) {
  DataPlane plane;
  for (int c = 0; c < 7; ++c) plane.Add({.groups = {{c, "shm"}}});
  EXPECT_EQ(plane.Describe(PlanOf(7)),
            ": shm connects c0, c1, c2, c3 and 3 more");
}

// A worker's word is not to be trusted with an index.
TEST(DataPlaneTest, LeavesOutCommunicatorsThatAreNot) {
  DataPlane plane;
  plane.Add({.groups = {{9, "shm"}}});
  EXPECT_EQ(plane.Describe(PlanOf(2)), "");
}

}  // namespace
}  // namespace lockstep::core
