// The exact output of `plan explain`.

#include "plan/timeline/explain.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/timeline/timeline.h"
#include "plan/verify/verify.h"
#include "tests/plan/pipeline/pipelines.h"
#include "tests/plan/plans.h"

namespace lockstep::plan {
namespace {

using testing::HasSubstr;
using enum PipelineSchedule;

// The output from the line that begins with `from` on.
std::string Explained(const PlanInput& input, const std::string& from) {
  const absl::StatusOr<Plan> plan = Compile(input);
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
  const std::string text = ExplainText(*plan, *TimelineOf(*plan, {}));
  const size_t begin = text.find("\n" + from);
  if (begin == std::string::npos) return text;
  return text.substr(begin + 1);
}

// --- A shared parameter -----------------------------------------------------

// Ranks of one stage are listed once; messages, the sum of the tied weight and
// the buckets that wait for it are in launch order.
TEST(ExplainTest, SharedSumsAndMessagesStandInTheOrderOfLaunches) {
  PlanInput input = PipelineInput({kOneFOneB, 2, 2, 1}, 2);
  for (std::vector<Parameter>& registered : input.registrations) {
    registered.push_back({.name = "tied", .shape = {7, 2}, .axes = {"data"}});
  }
  input.pipeline.shared = {"tied"};
  EXPECT_EQ(
      Explained(input, "operations of"),
      R"(operations of ranks 0, 2, with the elements and messages of rank 0:
  messages: 2 to rank 1, 2 from rank 1
  shared: all-reduce of 14 f32, sum: the gradients of tied, on ranks 0-1
  gradient: all-reduce of 49 f32, mean, bucket 1
    before: write-flags of elements 48 to 49
    behind: read-flags of elements 48 to 49; norm of elements 0 to 32
  gradient: all-reduce of 17 f32, mean, bucket 3
    after: the sum of tied
    before: write-flags of elements 16 to 17
    behind: read-flags of elements 16 to 17; norm of elements 0 to 16
  one launch of 2 transfers:
    verdict: all-reduce of 13 f64, sum
      before: write-summary
    verdict: all-reduce of 8 u64, max
      behind: read-summary

operations of ranks 1, 3, with the elements and messages of rank 1:
  messages: 2 from rank 0, 2 to rank 0
  shared: all-reduce of 14 f32, sum: the gradients of tied, on ranks 0-1
  gradient: all-reduce of 49 f32, mean, bucket 0
    before: write-flags of elements 48 to 49
    behind: read-flags of elements 48 to 49; norm of elements 0 to 32
  gradient: all-reduce of 17 f32, mean, bucket 2
    after: the sum of tied
    before: write-flags of elements 16 to 17
    behind: read-flags of elements 16 to 17
  one launch of 2 transfers:
    verdict: all-reduce of 13 f64, sum
      before: write-summary
    verdict: all-reduce of 8 u64, max
      behind: read-summary
)");
}

// The parts of an activation are sent as one group; gradients have the float
// part.
TEST(ExplainTest, MessagesOfSeveralPartsAreGroups) {
  const PlanInput input = PipelineInput(
      {kGPipe, 2, 3, 1}, 1, {{DType::kF32, {4}}, {DType::kI32, {2}}});
  const std::string text = Explained(input, "operations of");
  EXPECT_THAT(text, HasSubstr("  messages: 6 in 3 groups to rank 1, 3 from "
                              "rank 1\n"));
  EXPECT_THAT(text, HasSubstr("  messages: 6 in 3 groups from rank 0, 3 to "
                              "rank 0\n"));
}

// Stage 2 of rank 0 is done while stage 0 still computes.
TEST(ExplainTest, MessagesStandBetweenTheBucketsOfStages) {
  EXPECT_EQ(Explained(PipelineInput({kInterleaved, 2, 2, 2}), "operations of"),
            R"(operations of rank 0:
  messages: 6 to rank 1, 5 from rank 1
  gradient: all-reduce of 49 f32, mean, bucket 1
    before: write-flags of elements 48 to 49
    behind: read-flags of elements 48 to 49; norm of elements 0 to 48
  messages: 1 from rank 1
  gradient: all-reduce of 49 f32, mean, bucket 3
    before: write-flags of elements 48 to 49
    behind: read-flags of elements 48 to 49; norm of elements 0 to 48
  one launch of 2 transfers:
    verdict: all-reduce of 13 f64, sum
      before: write-summary
    verdict: all-reduce of 8 u64, max
      behind: read-summary

operations of rank 1:
  messages: 5 from rank 0, 4 to rank 0
  gradient: all-reduce of 49 f32, mean, bucket 0
    before: write-flags of elements 48 to 49
    behind: read-flags of elements 48 to 49; norm of elements 0 to 48
  messages: 2 to rank 0, 1 from rank 0
  gradient: all-reduce of 49 f32, mean, bucket 2
    before: write-flags of elements 48 to 49
    behind: read-flags of elements 48 to 49; norm of elements 0 to 48
  one launch of 2 transfers:
    verdict: all-reduce of 13 f64, sum
      before: write-summary
    verdict: all-reduce of 8 u64, max
      behind: read-summary
)");
}

// --- Slices and leaves ------------------------------------------------------

TEST(ExplainTest, NormsAreListedRangeByRange) {
  PlanInput input = Alike(MeshOf({{"data", 2}}), {{.name = "c", .shape = {40}},
                                                  {.name = "b", .shape = {5}},
                                                  {.name = "a", .shape = {3}}});
  input.sync = SyncMode::kReduceScatter;
  EXPECT_EQ(Explained(input, "operations of"),
            R"(operations of ranks 0-1, with the elements of rank 0:
  gradient: all-gather of 48 f32, bucket 0
  one launch of 2 transfers:
    gradient: reduce-scatter of 96 f32, mean, bucket 0
      behind: norm of elements 0 to 3, 16 to 21, 32 to 48
    gradient: all-reduce of 3 f32, mean, bucket 0
      before: write-flags of elements 96 to 99
      behind: read-flags of elements 96 to 99
  one launch of 2 transfers:
    verdict: all-reduce of 13 f64, sum
      before: write-summary
    verdict: all-reduce of 8 u64, max
      behind: read-summary
)");
  std::vector<Parameter> many;
  for (int i = 0; i < 9; ++i) {
    many.push_back({.name = absl::StrCat("p", i), .shape = {3}});
  }
  input = Alike(MeshOf({{"data", 1}}), many);
  input.sync = SyncMode::kReduceScatter;
  EXPECT_THAT(Explained(input, "operations of"),
              HasSubstr("norm of 27 elements, in 9 ranges from 0 to 131\n"));
}

TEST(ExplainTest, TheTreeOfLeavesIsDrawn) {
  PlanInput input =
      Alike(MeshOf({{"data", 2}}), {{.name = "w", .shape = {40}}});
  input.leaves = 4;
  EXPECT_EQ(Explained(input, "tree of"),
            R"(tree of 4 leaves over data@0: (0+1)+(2+3)
  rank 0 has leaves 0-1, rank 1 has leaves 2-3

operations of ranks 0-1, with the elements of rank 0:
  gradient: all-to-all of 64 f32, bucket 0
    behind: sum-pairs of elements 0 to 32 from f32 to f32, divisor 4
  one launch of 2 transfers:
    gradient: all-gather of 32 f32, bucket 0
      behind: norm of elements 0 to 64 for leaf 0
    gradient: all-reduce of 1 f32, mean, bucket 0
      before: write-flags of elements 64 to 65
      behind: read-flags of elements 64 to 65
  one launch of 3 transfers:
    verdict: all-reduce of 13 f64, sum
      before: write-summary
    verdict: all-reduce of 8 u64, max
    verdict: all-reduce of 4 f64, sum
      behind: read-summary
)");
  input.leaves = 64;
  EXPECT_THAT(
      Explained(input, "tree of"),
      HasSubstr("tree of 64 leaves over data@0: neighbours are added, then "
                "their sums, 6 times\n"
                "  rank 0 has leaves 0-31, rank 1 has leaves 32-63\n"));
}

// --- Halo exchanges ---------------------------------------------------------

PlanInput InputWithHalo() {
  PlanInput input = Alike(MeshOf({{"lat", 3}}), {{.name = "w", .shape = {4}}});
  for (const int64_t rows : {4, 3, 3}) {
    const HaloTensor wind{DType::kF32, {rows, 8}, {{0, "lat", 1, 2}}};
    const HaloTensor mask{
        DType::kU8, {5}, {{0, "", 2, 2, HaloEdge::kPeriodic}}};
    input.halos.push_back({{"u", {wind, mask}}, {"v", {wind}}});
  }
  return input;
}

// The step does not launch them: they are neither in its links nor among its
// operations.
TEST(ExplainTest, HaloExchangesAreApartFromTheStep) {
  EXPECT_EQ(
      Explained(InputWithHalo(), "halo"),
      R"(halo u on ranks 0-2: f32[10 over lat (1, 2, zero), 8] and u8[5 (2, 2, periodic)]
  link rank 0 > rank 1: 32 B an exchange, and back in its adjoint
  link rank 1 > rank 0: 64 B an exchange, and back in its adjoint
  link rank 1 > rank 2: 32 B an exchange, and back in its adjoint
  link rank 2 > rank 1: 64 B an exchange, and back in its adjoint
halo v on ranks 0-2: f32[10 over lat (1, 2, zero), 8]
  link rank 0 > rank 1: 32 B an exchange, and back in its adjoint
  link rank 1 > rank 0: 64 B an exchange, and back in its adjoint
  link rank 1 > rank 2: 32 B an exchange, and back in its adjoint
  link rank 2 > rank 1: 64 B an exchange, and back in its adjoint

operations of ranks 0, 2, with the elements of rank 0:
  gradient: all-reduce of 17 f32, mean, bucket 0
    before: write-flags of elements 16 to 17
    behind: read-flags of elements 16 to 17; norm of elements 0 to 16
  one launch of 2 transfers:
    verdict: all-reduce of 13 f64, sum
      before: write-summary
    verdict: all-reduce of 8 u64, max
      behind: read-summary
  halo lat@0, launched by the caller: u (1 sent, 1 received), v (1 sent, 1 received)

operations of rank 1:
  gradient: all-reduce of 17 f32, mean, bucket 0
    before: write-flags of elements 16 to 17
    behind: read-flags of elements 16 to 17
  one launch of 2 transfers:
    verdict: all-reduce of 13 f64, sum
      before: write-summary
    verdict: all-reduce of 8 u64, max
      behind: read-summary
  halo lat@0, launched by the caller: u (2 sent, 2 received), v (2 sent, 2 received)
)");
}

TEST(TimelineTest, HaloExchangesTakeNoTimeOfTheStep) {
  const Plan with = *Compile(InputWithHalo());
  PlanInput input = InputWithHalo();
  input.halos.clear();
  const Plan without = *Compile(input);
  EXPECT_TRUE(LinksOf(with).empty());
  EXPECT_EQ(LinksOfHalo(with, 1).size(), 4u);
  const CostModel costs{.latency = 250, .per_byte = 1};
  EXPECT_EQ(TimelineOf(with, costs)->end, TimelineOf(without, costs)->end);
}

}  // namespace
}  // namespace lockstep::plan
