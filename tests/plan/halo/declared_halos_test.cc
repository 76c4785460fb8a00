#include "plan/halo/declared_halos.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/digest.h"
#include "plan/verify/verify.h"
#include "tests/plan/halo/declarations.h"
#include "tests/plan/halo/run_halos.h"

namespace lockstep::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Mesh kLine{{{"lat", 2}}};
const Mesh kReplicas{{{"data", 2}, {"lat", 2}}};

// The declarations of two ranks, of which the second differs.
std::vector<std::vector<HaloSpec>> OneDiffers(
    const std::function<void(HaloSpec&)>& change) {
  const HaloSpec spec{"u", {RowsOver("lat", {6, 8})}};
  std::vector<std::vector<HaloSpec>> declared = {{spec}, {spec}};
  change(declared[1][0]);
  return declared;
}

void ExpectHaloError(const Mesh& mesh,
                     const std::vector<std::vector<HaloSpec>>& declared,
                     const std::vector<std::string>& said) {
  const absl::StatusOr<Plan> plan = Compile(DeclaredInput(mesh, declared));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& text : said) {
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr(text));
  }
}

TEST(DeclaredHalosTest, BlocksOfAllRanksMakeAField) {
  const auto plan =
      Compile(DeclaredInput(kLine, {{{"u", {RowsOver("lat", {6, 8})}}},
                                    {{"u", {RowsOver("lat", {4, 8})}}}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
  ASSERT_EQ(plan->halos.size(), 1u);
  const Halo& halo = plan->halos[0];
  EXPECT_EQ(halo.name, "u");
  EXPECT_EQ(halo.mesh, kLine);
  EXPECT_THAT(halo.ranks, ElementsAre(0, 1));
  EXPECT_EQ(plan->communicators[halo.communicator],
            (CommunicatorSpec{"halo/lat@0", {0, 1}}));
  const HaloField field{DType::kF32,
                        {{.axis = 0,
                          .bounds = {0, 6, 10},
                          .low = 1,
                          .high = 1,
                          .edge = HaloEdge::kPeriodic},
                         {.bounds = {0, 8}}}};
  EXPECT_THAT(halo.fields, ElementsAre(field));
}

TEST(DeclaredHalosTest, MembersThatDifferAreNamedWithBothDeclarations) {
  const struct {
    std::function<void(HaloSpec&)> change;
    std::string first, second;
  } cases[] = {
      {[](HaloSpec& s) { s.tensors[0].dtype = DType::kF64; }, "f32[*,8]",
       "f64[*,8]"},
      {[](HaloSpec& s) { s.tensors[0].shape[1] = 9; }, "f32[*,8]", "f32[*,9]"},
      {[](HaloSpec& s) { s.tensors[0].dims[0].low = 2; }, "low 1", "low 2"},
      {[](HaloSpec& s) { s.tensors[0].dims[0].high = 2; }, "high 1", "high 2"},
      {[](HaloSpec& s) { s.tensors[0].dims[0].edge = HaloEdge::kReflect; },
       "periodic", "reflect"},
      {[](HaloSpec& s) {
         s.tensors[0].dims[0].edge = HaloEdge::kConstant;
         s.tensors[0].dims[0].constant = 0.1;
       },
       "periodic", "constant 0.10000000000000001"},
      {[](HaloSpec& s) { s.tensors.push_back(RowsOver("lat", {1})); },
       "f32[*,8]", " and f32[*]"},
      {[](HaloSpec& s) {
         s.tensors[0].dims.push_back({1, "", 1, 0, HaloEdge::kZero});
       },
       "periodic", "dim 1, low 1, high 0, zero"},
      {[](HaloSpec& s) { s.tensors[0].dims[0].dim = 1; }, "[*,8]", "[6,*]"},
      {[](HaloSpec& s) { s.tensors[0].dims[0].axis.clear(); }, "over lat",
       "dim 0, low"},
  };
  for (const auto& c : cases) {
    ExpectHaloError(kLine, OneDiffers(c.change),
                    {"halo u", "rank 0:", "rank 1:", c.first, c.second});
  }
}

TEST(DeclaredHalosTest, AMemberThatDoesNotDeclareItIsNamed) {
  const HaloSpec spec{"u", {RowsOver("lat", {6})}};
  ExpectHaloError(kLine, {{spec}, {}},
                  {"halo u", "rank 0: f32[*]", "rank 1: not declared"});
  ExpectHaloError(kLine, {{}, {spec}},
                  {"halo u", "rank 1: f32[*]", "rank 0: not declared"});
}

TEST(DeclaredHalosTest, ANameDeclaredTwiceIsRefused) {
  const HaloSpec spec{"u", {RowsOver("lat", {6})}};
  ExpectHaloError(kLine, {{spec}, {spec, spec}}, {"rank 1", "halo u", "twice"});
}

TEST(DeclaredHalosTest, WhatOneRankCanCheckNamesTheRank) {
  ExpectHaloError(
      kLine, OneDiffers([](HaloSpec& s) { s.tensors[0].dims[0].low = -1; }),
      {"rank 1", "halo u", "low -1"});
}

TEST(DeclaredHalosTest, AReflectionAsWideAsTheFieldIsRefused) {
  HaloSpec first{"u", {RowsOver("lat", {2}, HaloEdge::kReflect)}};
  HaloSpec second{"u", {RowsOver("lat", {1}, HaloEdge::kReflect)}};
  for (HaloSpec* spec : {&first, &second}) spec->tensors[0].dims[0].high = 3;
  ExpectHaloError(
      kLine, {{first}, {second}},
      {"halo u", "tensor 0", "dim 0", "3 cells", "low is 1", "high is 3"});
  for (HaloSpec* spec : {&first, &second}) spec->tensors[0].dims[0].high = 2;
  EXPECT_TRUE(Compile(DeclaredInput(kLine, {{first}, {second}})).ok());
}

TEST(DeclaredHalosTest, BlocksOfOneCoordinateHaveOneSize) {
  // Both dimensions are cut; ranks 0 and 1 have the same block of lat.
  const Mesh mesh{{{"lat", 2}, {"lon", 2}}};
  const auto block = [](int64_t rows, int64_t columns) {
    HaloTensor tensor = RowsOver("lat", {rows, columns});
    tensor.dims.push_back({1, "lon", 1, 1, HaloEdge::kZero});
    return std::vector<HaloSpec>{{"u", {tensor}}};
  };
  ExpectHaloError(
      mesh, {block(3, 4), block(2, 4), block(3, 4), block(3, 4)},
      {"halo u", "tensor 0", "dim 0", "ranks 0 and 1", "lat", "3 and 2"});
  ExpectHaloError(mesh, {block(3, 4), block(3, 5), block(2, 4), block(2, 6)},
                  {"dim 1", "ranks 1 and 3", "lon", "5 and 6"});
  EXPECT_TRUE(Compile(DeclaredInput(mesh, {block(3, 4), block(3, 5),
                                           block(2, 4), block(2, 5)}))
                  .ok());
}

TEST(DeclaredHalosTest, HalosThatNeedTooManyBoxesAreRefused) {
  HaloSpec spec{"u", {RowsOver("lat", {1})}};
  spec.tensors[0].dims[0].low = int64_t{1} << 30;
  ExpectHaloError(kLine, {{spec}, {spec}}, {"halo u", "rank 0", "4096"});
  // Two of the blocks are the middle of 4097 segments of one cell.
  spec.tensors[0].dims[0].low = 2048;
  spec.tensors[0].dims[0].high = 2048;
  ExpectHaloError(kLine, {{spec}, {spec}}, {"halo u", "4097", "4096"});
  spec.tensors[0].dims[0].high = 2047;
  EXPECT_TRUE(Compile(DeclaredInput(kLine, {{spec}, {spec}})).ok());
}

TEST(DeclaredHalosTest, WideHalosOfFewBoxesAreAccepted) {
  HaloSpec spec{"u", {RowsOver("lat", {3}, HaloEdge::kReplicate)}};
  spec.tensors[0].dims[0].low = int64_t{1} << 36;
  const auto plan = Compile(DeclaredByAll(kLine, spec));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
}

TEST(DeclaredHalosTest, ReplicasAreExchangesOfTheirOwn) {
  const auto rows = [](int64_t count, HaloEdge edge) {
    return std::vector<HaloSpec>{{"u", {RowsOver("lat", {count}, edge)}}};
  };
  const auto plan = Compile(DeclaredInput(
      kReplicas, {rows(2, HaloEdge::kZero), rows(3, HaloEdge::kZero),
                  rows(5, HaloEdge::kPeriodic), rows(1, HaloEdge::kPeriodic)}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->halos.size(), 2u);
  EXPECT_THAT(plan->halos[0].ranks, ElementsAre(0, 1));
  EXPECT_THAT(plan->halos[0].fields[0].dims[0].bounds, ElementsAre(0, 2, 5));
  EXPECT_THAT(plan->halos[1].ranks, ElementsAre(2, 3));
  EXPECT_THAT(plan->halos[1].fields[0].dims[0].bounds, ElementsAre(0, 5, 6));
  EXPECT_EQ(plan->communicators[plan->halos[1].communicator].name,
            "halo/lat@2");
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
  EXPECT_EQ(oracle::HaloFaultIn(*plan), std::nullopt);
}

TEST(DeclaredHalosTest, OneReplicaMayHaveNone) {
  const HaloSpec spec{"u", {RowsOver("lat", {2})}};
  const auto plan = Compile(DeclaredInput(kReplicas, {{}, {}, {spec}, {spec}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->halos.size(), 1u);
  EXPECT_THAT(plan->halos[0].ranks, ElementsAre(2, 3));
  EXPECT_TRUE(plan->ranks[0].halos.empty());
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
}

TEST(DeclaredHalosTest, RanksMayDeclareInDifferentOrders) {
  const HaloSpec u{"u", {RowsOver("lat", {2})}};
  const HaloSpec v{"v", {RowsOver("lat", {3})}};
  const auto alike = Compile(DeclaredInput(kLine, {{u, v}, {u, v}}));
  const auto crossed = Compile(DeclaredInput(kLine, {{u, v}, {v, u}}));
  ASSERT_TRUE(crossed.ok()) << crossed.status();
  EXPECT_EQ(*crossed, *alike);
  EXPECT_EQ(DigestOf(*crossed), DigestOf(*alike));
  // One communicator and one lane for both.
  EXPECT_EQ(crossed->halos[0].communicator, crossed->halos[1].communicator);
  ASSERT_EQ(crossed->ranks[0].lanes.size(), 3u);
  EXPECT_EQ(crossed->ranks[0].lanes[1].name, "halo lat@0");
}

TEST(DeclaredHalosTest, ADeclarationMaySayTheSameInAnotherWay) {
  HaloSpec last = {"u", {RowsOver("lat", {6, 8})}};
  last.tensors[0].dims[0].dim = -2;
  last.tensors[0].dims[0].constant = 4;  // of a periodic edge: ignored
  last.tensors[0].dims.push_back({1, "", 0, 0, HaloEdge::kReflect});
  const HaloSpec first{"u", {RowsOver("lat", {6, 8})}};
  EXPECT_EQ(Compile(DeclaredInput(kLine, {{first}, {last}})).value(),
            Compile(DeclaredInput(kLine, {{first}, {first}})).value());
}

TEST(DeclaredHalosTest, AScalarAndARankAloneExchangeNothing) {
  const HaloSpec alone{
      "alone",
      {{DType::kF32, {}, {}},
       {DType::kI8, {3}, {{0, "", 2, 1, HaloEdge::kReflect}}}}};
  const auto plan = Compile(DeclaredByAll(kLine, alone));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->halos.size(), 2u);
  EXPECT_EQ(plan->halos[1].communicator, -1);
  EXPECT_TRUE(plan->halos[1].mesh.axes.empty());
  EXPECT_THAT(plan->halos[1].ranks, ElementsAre(1));
  EXPECT_EQ(plan->ranks[1].lanes.size(), 2u);  // gradients, verdict
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
  EXPECT_EQ(oracle::HaloFaultIn(*plan), std::nullopt);
}

// A declaration of many ranks is merged in time that grows with its length.
TEST(DeclaredHalosTest, ManyExchangesOfManyReplicas) {
  const Mesh mesh{{{"data", 128}, {"lat", 4}}};
  std::vector<HaloSpec> specs;
  for (int i = 0; i < 40; ++i) {
    specs.push_back({absl::StrCat("u", i), {RowsOver("lat", {2})}});
  }
  const auto plan = Compile(DeclaredInput(
      mesh, std::vector<std::vector<HaloSpec>>(mesh.WorldSize(), specs)));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->halos.size(), 128u * 40);
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
}

}  // namespace
}  // namespace lockstep::plan
