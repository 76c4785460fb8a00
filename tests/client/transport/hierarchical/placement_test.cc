#include "client/transport/hierarchical/placement.h"

#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

TEST(PlacementTest, ListsHostsByTheirLowestRankAndTheirRanksInOrder) {
  const Placement placement({"x", "y", "y", "x", "a"});
  EXPECT_EQ(placement.ranks(), 5);
  ASSERT_EQ(placement.hosts(), 3);
  EXPECT_EQ(placement.members(0), std::vector({0, 3}));
  EXPECT_EQ(placement.members(1), std::vector({1, 2}));
  EXPECT_EQ(placement.members(2), std::vector({4}));
  EXPECT_EQ(placement.host(3), 0);
  EXPECT_EQ(placement.index(3), 1);
  EXPECT_EQ(placement.index(4), 0);
}

TEST(PlacementTest, HasAsManyLinesAsTheSmallestHostHasRanks) {
  EXPECT_EQ(Placement({"a", "a", "b", "b", "b"}).lines(), 2);
  EXPECT_EQ(Placement({"a", "a", "b", "b", "b"}).most(), 3);
  EXPECT_EQ(Placement({"a", "b"}).lines(), 1);
  EXPECT_EQ(Placement({"a", "a"}).lines(), 2);
}

}  // namespace
}  // namespace lockstep::transport
