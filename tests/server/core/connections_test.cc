#include "server/core/connections.h"

#include "gtest/gtest.h"

namespace lockstep::core {
namespace {

plan::Plan PlanOf(int communicators) {
  plan::Plan plan;
  for (int c = 0; c < communicators; ++c) {
    plan.communicators.push_back({.name = "c" + std::to_string(c)});
  }
  return plan;
}

TEST(ConnectionsTest, NamesTheCommunicatorsOfEachTransport) {
  Connections said;
  EXPECT_EQ(said.Describe(PlanOf(2)), "");
  said.Add({.groups = {{0, "shm"}, {2, "shm"}}});
  said.Add({.groups = {{0, "shm"}, {1, "gloo (each rank has a host)"}}});
  EXPECT_EQ(said.Describe(PlanOf(3)),
            ": gloo (each rank has a host) connects c1; shm connects c0, c2");
}

TEST(ConnectionsTest, NamesAFewOfMany) {
  Connections said;
  for (int c = 0; c < 7; ++c) said.Add({.groups = {{c, "shm"}}});
  EXPECT_EQ(said.Describe(PlanOf(7)),
            ": shm connects c0, c1, c2, c3 and 3 more");
}

// A worker's message is not trusted as an index.
TEST(ConnectionsTest, LeavesOutCommunicatorsThatAreNot) {
  Connections said;
  said.Add({.groups = {{9, "shm"}}});
  EXPECT_EQ(said.Describe(PlanOf(2)), "");
}

}  // namespace
}  // namespace lockstep::core
