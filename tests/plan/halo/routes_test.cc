#include "plan/halo/routes.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/halo/lanes.h"
#include "tests/plan/halo/declarations.h"

namespace lockstep::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Halo LineOf(std::vector<int64_t> bounds, int64_t low, int64_t high,
            HaloEdge edge, double constant = 0) {
  const int ranks = static_cast<int>(bounds.size()) - 1;
  Halo halo{.name = "u", .mesh = {{{"lat", ranks}}}, .communicator = 1};
  for (int rank = 0; rank < ranks; ++rank) halo.ranks.push_back(rank);
  halo.fields = {
      {DType::kF32, {{0, std::move(bounds), low, high, edge, constant}}}};
  return halo;
}

HaloBox Row(int64_t in, int64_t out, int64_t count, int step = 1) {
  return {0, {{in, out, count, step}}};
}

// The picture of halo.h.
TEST(RoutesTest, ABlockReceivesFromBothSides) {
  const auto routes = RoutesOf(LineOf({0, 4, 7, 10}, 1, 1, HaloEdge::kZero), 5);
  ASSERT_TRUE(routes.ok()) << routes.status();
  const HaloRoutes& middle = (*routes)[1];
  EXPECT_EQ(middle.halo, 5);
  EXPECT_THAT(middle.own, ElementsAre(Row(0, 1, 3)));
  EXPECT_THAT(middle.receives, ElementsAre(HaloMessage{0, 4, {Row(3, 0, 1)}},
                                           HaloMessage{2, 4, {Row(0, 4, 1)}}));
  EXPECT_THAT(middle.sends, ElementsAre(HaloMessage{0, 4, {Row(0, 5, 1)}},
                                        HaloMessage{2, 4, {Row(2, 0, 1)}}));
  EXPECT_THAT(middle.fills, IsEmpty());
  EXPECT_THAT((*routes)[0].fills, ElementsAre(HaloFill{Row(0, 0, 1, 0), 0}));
}

// The picture of routes.h.
TEST(RoutesTest, AReflectionIsReversed) {
  const auto routes =
      RoutesOf(LineOf({0, 2, 4, 10}, 3, 2, HaloEdge::kReflect), 0);
  ASSERT_TRUE(routes.ok()) << routes.status();
  const HaloRoutes& middle = (*routes)[1];
  EXPECT_THAT(middle.own, ElementsAre(Row(0, 3, 2)));
  EXPECT_THAT(middle.receives,
              ElementsAre(HaloMessage{0, 24, {Row(1, 0, 1, -1), Row(0, 1, 2)}},
                          HaloMessage{2, 8, {Row(0, 5, 2)}}));
}

// The picture of halo_spec.h.
TEST(RoutesTest, EdgesAreFilled) {
  const auto routes =
      RoutesOf(LineOf({0, 6, 10}, 1, 2, HaloEdge::kConstant, 9), 0);
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_THAT((*routes)[0].fills, ElementsAre(HaloFill{Row(0, 0, 1, 0), 9}));
  EXPECT_THAT((*routes)[0].receives,
              ElementsAre(HaloMessage{1, 8, {Row(0, 7, 2)}}));
  EXPECT_THAT((*routes)[1].fills, ElementsAre(HaloFill{Row(0, 5, 2, 0), 9}));
}

// Both neighbours of a ring of two are one rank.
TEST(RoutesTest, ARingOfTwoHasOneMessageForBothSides) {
  const auto routes = RoutesOf(LineOf({0, 3, 5}, 1, 1, HaloEdge::kPeriodic), 0);
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_THAT((*routes)[0].receives,
              ElementsAre(HaloMessage{1, 20, {Row(1, 0, 1), Row(0, 4, 1)}}));
}

// A replicated edge is sent once, however wide it is.
TEST(RoutesTest, RepeatedCellsAreInAMessageOnce) {
  const auto routes =
      RoutesOf(LineOf({0, 1, 2}, 0, 100, HaloEdge::kReplicate), 0);
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_THAT(
      (*routes)[0].receives,
      ElementsAre(HaloMessage{1, 20, {Row(0, 1, 1), Row(0, 2, 99, 0)}}));
}

// Messages of both passes: in each first those that the rank sends.
TEST(HaloLanesTest, EachPassIsAGroup) {
  const auto plan =
      Compile(DeclaredByAll({{{"lat", 3}}}, {"u", {RowsOver("lat", {2, 5})}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->ranks[1].lanes.size(), 3u);
  const Lane& lane = plan->ranks[1].lanes[1];
  EXPECT_EQ(lane.kind, LaneKind::kHalo);
  EXPECT_EQ(lane.name, "halo lat@0");
  ASSERT_EQ(lane.transfers.size(), 8u);
  for (size_t i = 0; i < lane.transfers.size(); ++i) {
    const Transfer message{
        .kind = i % 4 < 2 ? TransferKind::kSend : TransferKind::kRecv,
        .communicator = plan->halos[0].communicator,
        .dtype = DType::kU8,
        .shape = {20},
        .peer = i % 2 == 0 ? 0 : 2,
        .tag = i < 4 ? 1u : 2u,
        .halo = 0,
        .group = i < 4 ? 1 : 2};
    EXPECT_EQ(lane.transfers[i], message) << i;
  }
}

}  // namespace
}  // namespace lockstep::plan
