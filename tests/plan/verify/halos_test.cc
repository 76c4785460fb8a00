// Plans with wrong halo exchanges, one for each check of the verifier.

#include "plan/verify/halos.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/verify/verify.h"
#include "tests/plan/halo/declarations.h"

namespace lockstep::plan {
namespace {

using testing::HasSubstr;

// Two replicas (data) of a field that is cut in two dimensions (lat, lon), with
// a second tensor that only lat cuts; and an exchange over lon only. Ranks 0 to
// 3 are the first replica.
Plan PlanWithHalos() {
  const HaloTensor wind{DType::kF32,
                        {3, 4},
                        {{0, "lat", 1, 2, HaloEdge::kConstant, 7},
                         {1, "lon", 1, 1, HaloEdge::kPeriodic}}};
  const HaloTensor rain{DType::kU8,
                        {2, 2},
                        {{0, "lat", 1, 1, HaloEdge::kReplicate},
                         {1, "", 1, 0, HaloEdge::kReflect}}};
  const HaloTensor mask{DType::kBool, {5}, {{0, "lon", 1, 1}}};
  const std::vector<HaloSpec> specs = {{"u", {wind, rain}}, {"mask", {mask}}};
  const Mesh mesh{{{"data", 2}, {"lat", 2}, {"lon", 2}}};
  return *Compile(DeclaredInput(
      mesh, std::vector<std::vector<HaloSpec>>(mesh.WorldSize(), specs)));
}

HaloRoutes& RoutesOf(Plan& plan, int rank, int index = 0) {
  return plan.ranks[rank].halos[index];
}
HaloExtent& ExtentOf(Plan& plan, int field, int dim) {
  return plan.halos[0].fields[field].dims[dim];
}
Lane& HaloLane(Plan& plan, int rank, int number = 0) {
  return plan.ranks[rank].lanes[1 + number];
}

// The first own box of the field that begins at this row.
HaloBox* FindBox(Plan& plan, int rank, int field, int64_t row) {
  for (HaloBox& box : RoutesOf(plan, rank).own) {
    if (box.field == field && box.dims[0].out == row) return &box;
  }
  return nullptr;
}

struct BrokenHalo {
  std::string how;
  std::function<void(Plan&)> damage;
  std::string said;
};

void ExpectHalosRefused(const std::vector<BrokenHalo>& all) {
  for (const BrokenHalo& broken : all) {
    SCOPED_TRACE(broken.how);
    Plan plan = PlanWithHalos();
    broken.damage(plan);
    Diagnostics diagnostics;
    CheckHalos(plan, diagnostics);
    ASSERT_FALSE(diagnostics.empty());
    EXPECT_EQ(static_cast<int>(diagnostics.kept()[0].rule),
              static_cast<int>(Rule::kHalos));
    EXPECT_THAT(std::string(diagnostics.ToStatus().message()),
                HasSubstr(broken.said));
    EXPECT_EQ(Verify(plan).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(HalosVerifierTest, AcceptsWhatIsCompiled) {
  const Plan plan = PlanWithHalos();
  ASSERT_EQ(plan.halos.size(), 6u);  // u of 2 replicas, mask of 4
  EXPECT_EQ(Verify(plan), absl::OkStatus());
}

TEST(HalosVerifierTest, RefusesWrongFields) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  ExpectHalosRefused({
      {"no name", [](Plan& p) { p.halos[0].name.clear(); }, "name"},
      {"a name with a line end", [](Plan& p) { p.halos[0].name = "\n"; },
       "printable"},
      {"a name twice", [](Plan& p) { p.halos[1].name = "u"; }, "u twice"},
      {"no fields", [](Plan& p) { p.halos[1].fields.clear(); }, "0 fields"},
      {"too many fields",
       [](Plan& p) { p.halos[0].fields.resize(65, p.halos[0].fields[0]); },
       "65 fields"},
      {"no dtype",
       [](Plan& p) { p.halos[0].fields[1].dtype = static_cast<DType>(77); },
       "field 1: has no dtype"},
      {"nine dimensions",
       [](Plan& p) {
         p.halos[0].fields[0].dims.resize(9, {.bounds = {0, 1}});
       },
       "9 dimensions"},
      {"no such axis", [](Plan& p) { ExtentOf(p, 0, 0).axis = 2; },
       "axis 2 of 2"},
      {"an axis below none", [](Plan& p) { ExtentOf(p, 1, 1).axis = -2; },
       "axis -2"},
      {"an axis twice",
       [](Plan& p) {
         ExtentOf(p, 1, 1).axis = 0;
         ExtentOf(p, 1, 1).bounds = {0, 1, 2};
       },
       "over axis 0 again"},
      {"a block too many",
       [](Plan& p) { ExtentOf(p, 0, 0).bounds.push_back(9); }, "4 bounds"},
      {"bounds from 1", [](Plan& p) { ExtentOf(p, 0, 0).bounds[0] = 1; },
       "from 0"},
      {"an empty block", [](Plan& p) { ExtentOf(p, 0, 0).bounds[1] = 0; },
       "block 0 from 0 to 0"},
      {"a descending bound", [](Plan& p) { ExtentOf(p, 0, 0).bounds[2] = 2; },
       "block 1 from 3 to 2"},
      {"a bound that overflows",
       [](Plan& p) { ExtentOf(p, 0, 0).bounds[2] = kLargest; }, "block 1"},
      {"a negative width", [](Plan& p) { ExtentOf(p, 0, 0).low = -1; },
       "widths -1 and 2"},
      {"a width that overflows",
       [](Plan& p) { ExtentOf(p, 0, 0).high = kLargest; }, "widths 1 and"},
      {"a reflection as wide as the field",
       [](Plan& p) { ExtentOf(p, 1, 1).low = 2; }, "reflect"},
      {"no edge",
       [](Plan& p) { ExtentOf(p, 0, 0).edge = static_cast<HaloEdge>(0); },
       "edge 0"},
      {"a constant of another edge",
       [](Plan& p) { ExtentOf(p, 0, 1).constant = 1; }, "constant 1"},
      {"a constant that is no number",
       [](Plan& p) {
         ExtentOf(p, 0, 0).constant = std::numeric_limits<double>::quiet_NaN();
       },
       "constant nan"},
      {"a constant beyond the dtype",
       [](Plan& p) { ExtentOf(p, 0, 0).constant = 1e39; }, "f32"},
      {"more bytes than fit",
       [](Plan& p) {
         ExtentOf(p, 0, 0).low = int64_t{1} << 39;
         ExtentOf(p, 0, 1).low = int64_t{1} << 39;
       },
       "more than 1099511627776 bytes"},
  });
}

TEST(HalosVerifierTest, RefusesWrongGroups) {
  ExpectHalosRefused({
      {"an axis that the plan has not",
       [](Plan& p) { p.halos[0].mesh.axes[0].name = "pipe"; }, "no axes"},
      {"an axis of another size",
       [](Plan& p) { ++p.halos[0].mesh.axes[0].size; }, "no axes"},
      {"axes in another order",
       [](Plan& p) {
         std::swap(p.halos[0].mesh.axes[0], p.halos[0].mesh.axes[1]);
       },
       "in its order"},
      {"an axis that cuts nothing",
       [](Plan& p) {
         p.halos[1].fields[0].dims[0].axis = -1;
         p.halos[1].fields[0].dims[0].bounds = {0, 5};
       },
       "lon cuts"},
      {"a rank too few", [](Plan& p) { p.halos[0].ranks.pop_back(); },
       "no group"},
      {"no ranks", [](Plan& p) { p.halos[0].ranks.clear(); }, "no group"},
      {"ranks in another order",
       [](Plan& p) { std::swap(p.halos[0].ranks[0], p.halos[0].ranks[1]); },
       "no group"},
      {"a rank of another replica", [](Plan& p) { p.halos[0].ranks[3] = 7; },
       "no group"},
      {"a rank of another world", [](Plan& p) { p.halos[0].ranks[0] = 8; },
       "no group"},
      {"no communicator", [](Plan& p) { p.halos[0].communicator = -1; },
       "communicator -1"},
      {"the verdict's communicator",
       [](Plan& p) { p.halos[0].communicator = 0; }, "communicator 0"},
      {"a communicator of others",
       [](Plan& p) {
         for (const Halo& halo : p.halos) {
           if (halo.ranks[0] == 4) p.halos[0].communicator = halo.communicator;
         }
       },
       "ranks 4"},
  });
}

TEST(HalosVerifierTest, RefusesRoutesOfOtherRanks) {
  ExpectHalosRefused({
      {"no routes", [](Plan& p) { p.ranks[2].halos.pop_back(); },
       "rank 2: has no routes of halo mask"},
      {"routes twice",
       [](Plan& p) { p.ranks[2].halos.push_back(p.ranks[2].halos.back()); },
       "after exchange"},
      {"routes of no exchange",
       [](Plan& p) { p.ranks[2].halos.back().halo = 6; }, "exchange 6"},
      {"routes below none", [](Plan& p) { RoutesOf(p, 2).halo = -1; },
       "exchange -1"},
      {"routes of another group",
       [](Plan& p) {
         p.ranks[0].halos.pop_back();
         p.ranks[0].halos.push_back(p.ranks[7].halos.back());
       },
       "rank 0: has routes of halo mask of ranks 6-7"},
      {"routes in another order",
       [](Plan& p) { std::swap(p.ranks[2].halos[0], p.ranks[2].halos[1]); },
       "after exchange"},
  });
}

TEST(HalosVerifierTest, RefusesWrongBoxes) {
  ExpectHalosRefused({
      {"too many boxes",
       [](Plan& p) { RoutesOf(p, 0).own.resize(5000, RoutesOf(p, 0).own[0]); },
       "at most 4096"},
      {"a box of no field", [](Plan& p) { RoutesOf(p, 0).own[0].field = 2; },
       "field 2 has no field"},
      {"a box without a dimension",
       [](Plan& p) { RoutesOf(p, 0).own[0].dims.pop_back(); },
       "1 dimensions, not 2"},
      {"an empty box", [](Plan& p) { RoutesOf(p, 0).own[0].dims[0].count = 0; },
       "outside"},
      {"a box that overflows",
       [](Plan& p) {
         RoutesOf(p, 0).own[0].dims[0].count =
             std::numeric_limits<int64_t>::max();
       },
       "outside"},
      {"a box before the block",
       [](Plan& p) { RoutesOf(p, 0).own[0].dims[0].out = -1; }, "outside"},
      {"a box twice",
       [](Plan& p) { RoutesOf(p, 0).own.push_back(RoutesOf(p, 0).own[0]); },
       "overlap"},
      {"a box that is missing", [](Plan& p) { RoutesOf(p, 0).own.pop_back(); },
       "no source"},
      {"a shifted source", [](Plan& p) { ++RoutesOf(p, 0).own[0].dims[0].in; },
       "copies cells"},
      {"another step", [](Plan& p) { RoutesOf(p, 0).own[0].dims[0].step = -1; },
       "step -1"},
      {"a box across the edge",
       [](Plan& p) {
         // The replicated row takes the first own row, too.
         HaloBox& edge = *FindBox(p, 0, 1, 0);
         HaloBox& own = *FindBox(p, 0, 1, 1);
         ASSERT_EQ(edge.dims[0].step, 0);
         edge.dims[0].count += 1;
         own.dims[0].in += 1;
         own.dims[0].out += 1;
         own.dims[0].count -= 1;
       },
       "no such range"},
      {"a fill that is copied",
       [](Plan& p) {
         HaloRoutes& routes = RoutesOf(p, 0);
         routes.own.push_back(routes.fills[0].box);
         routes.fills.erase(routes.fills.begin());
       },
       "which is constant"},
      {"a copy that is filled",
       [](Plan& p) {
         HaloRoutes& routes = RoutesOf(p, 0);
         HaloFill fill{routes.own[0], 7};
         for (HaloSegment& s : fill.box.dims) s.in = s.step = 0;
         routes.own.erase(routes.own.begin());
         routes.fills.push_back(fill);
       },
       "not constant"},
      {"another value", [](Plan& p) { RoutesOf(p, 0).fills[0].value = 8; },
       "filled with 8, not 7"},
      {"a fill with a source",
       [](Plan& p) { RoutesOf(p, 0).fills[0].box.dims[0].step = 1; },
       "and copies"},
      {"a fill across the edge",
       [](Plan& p) { ++RoutesOf(p, 0).fills[0].box.dims[0].count; },
       "across the edge"},
  });
}

// The second field is not cut over lon: rank 1 has a copy of its own.
TEST(HalosVerifierTest, RefusesCellsOfAnotherReplica) {
  ExpectHalosRefused({{"own cells from the other column",
                       [](Plan& p) {
                         HaloRoutes& routes = RoutesOf(p, 0);
                         HaloMessage& message = routes.receives[0];
                         ASSERT_EQ(message.peer, 1);
                         for (const HaloBox& box : routes.own) {
                           if (box.field == 1) message.boxes.push_back(box);
                         }
                         std::erase_if(routes.own, [](const HaloBox& box) {
                           return box.field == 1;
                         });
                       },
                       "another replica"}});
}

TEST(HalosVerifierTest, RefusesWrongMessages) {
  ExpectHalosRefused({
      {"peers that descend",
       [](Plan& p) {
         std::swap(RoutesOf(p, 0).receives[0], RoutesOf(p, 0).receives[1]);
       },
       "peers ascend"},
      {"a peer twice",
       [](Plan& p) {
         RoutesOf(p, 0).sends.insert(RoutesOf(p, 0).sends.begin(),
                                     RoutesOf(p, 0).sends[0]);
       },
       "peers ascend"},
      {"a message to itself", [](Plan& p) { RoutesOf(p, 0).sends[0].peer = 0; },
       "itself"},
      {"a peer of no group",
       [](Plan& p) { RoutesOf(p, 0).sends.back().peer = 4; }, "peer 4"},
      {"a message without boxes",
       [](Plan& p) { RoutesOf(p, 0).sends[0].boxes.clear(); }, "without boxes"},
      {"other bytes", [](Plan& p) { ++RoutesOf(p, 0).receives[0].bytes; },
       "receives"},
      {"other bytes at the sender",
       [](Plan& p) { ++RoutesOf(p, 0).sends[0].bytes; }, "rank 0 sends"},
      {"other boxes at the sender",
       [](Plan& p) { ++RoutesOf(p, 0).sends[0].boxes[0].dims[0].in; },
       "other boxes"},
      {"nothing sent", [](Plan& p) { RoutesOf(p, 0).sends.pop_back(); },
       "which sends none"},
  });
  // The first and the last of three ranks in a line have no common edge.
  Plan plan = *Compile(DeclaredByAll(
      {{{"lat", 3}}}, {"u", {RowsOver("lat", {2}, HaloEdge::kZero)}}));
  RoutesOf(plan, 0).sends.push_back(RoutesOf(plan, 0).sends[0]);
  RoutesOf(plan, 0).sends[1].peer = 2;
  EXPECT_THAT(std::string(Verify(plan).message()),
              HasSubstr("rank 0 sends 4 bytes in 1 boxes to rank 2, which "
                        "receives none"));
}

TEST(HalosVerifierTest, RefusesWrongLanes) {
  ExpectHalosRefused({
      {"no lane", [](Plan& p) { HaloLane(p, 0).kind = LaneKind::kState; },
       "no halo lane"},
      {"an empty lane", [](Plan& p) { HaloLane(p, 0).transfers.clear(); },
       "no messages"},
      {"the lane twice",
       [](Plan& p) { p.ranks[0].lanes.push_back(HaloLane(p, 0)); }, "again"},
      {"a transfer too few",
       [](Plan& p) { HaloLane(p, 0).transfers.pop_back(); }, "11 transfers"},
      {"a transfer too many",
       [](Plan& p) {
         HaloLane(p, 0).transfers.push_back(HaloLane(p, 0).transfers[0]);
       },
       "13 transfers"},
      {"a transfer of another exchange",
       [](Plan& p) { HaloLane(p, 0).transfers[3].halo = 1; }, "transfer 3"},
      {"a transfer of no exchange",
       [](Plan& p) { HaloLane(p, 0).transfers[3].halo = -1; }, "transfer 3"},
      {"another tag", [](Plan& p) { HaloLane(p, 0).transfers[3].tag = 2; },
       "tag 2"},
      {"other bytes", [](Plan& p) { ++HaloLane(p, 0).transfers[3].shape[0]; },
       "transfer 3"},
      {"another dtype",
       [](Plan& p) { HaloLane(p, 0).transfers[3].dtype = DType::kI8; }, "i8"},
      {"another group", [](Plan& p) { HaloLane(p, 0).transfers[3].group = 2; },
       "group 2"},
      {"another peer", [](Plan& p) { HaloLane(p, 0).transfers[3].peer = 2; },
       "peer 2"},
      {"a shape that overflows",
       [](Plan& p) {
         HaloLane(p, 0).transfers[3].shape = {int64_t{1} << 62, 1 << 30};
       },
       "transfer 3"},
      {"a transfer that waits",
       [](Plan& p) {
         HaloLane(p, 0).transfers[3].after = {{1, 0}};
       },
       "anything to wait for"},
      {"a transfer of an exchange in another lane",
       [](Plan& p) {
         p.ranks[0].lanes.push_back(
             {LaneKind::kState, "state", {HaloLane(p, 0).transfers[0]}});
       },
       "no halo lane"},
  });
}

}  // namespace
}  // namespace lockstep::plan
