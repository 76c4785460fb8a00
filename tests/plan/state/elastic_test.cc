#include "plan/state/elastic.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// data=2,model=2, elastic over data: ranks 0 1 are the first replica.
JobSpec TwoReplicas() {
  return {.name = "job",
          .mesh = {{{"data", 2}, {"model", 2}}},
          .elastic = {.axis = "data"}};
}

StateTensor HeldBy(std::vector<int> ranks, std::vector<StateDim> dims) {
  return {.name = "w", .dims = std::move(dims), .ranks = std::move(ranks)};
}

std::string WhyNot(const StateTensor& tensor, const JobSpec& spec) {
  const absl::Status all = CheckReplicasHoldAll({tensor}, spec);
  EXPECT_TRUE(absl::IsFailedPrecondition(all)) << all;
  return std::string(all.message());
}

TEST(ElasticStateTest, WhatEachReplicaHoldsWholeFitsAnyNumberOfThem) {
  const StateTensor whole = HeldBy({0, 1, 2, 3}, {{.bounds = {0, 8}}});
  const StateTensor cut_over_model =
      HeldBy({0, 1, 2, 3}, {{.axes = {"model"}, .bounds = {0, 4, 8}}});
  const StateTensor of_one_stage = HeldBy({1, 3}, {{.bounds = {0, 8}}});
  EXPECT_EQ(CheckReplicasHoldAll({whole, cut_over_model, of_one_stage},
                                 TwoReplicas()),
            absl::OkStatus());
  EXPECT_EQ(CheckReplicasHoldAll({}, TwoReplicas()), absl::OkStatus());
}

TEST(ElasticStateTest, WhatIsCutOverTheElasticAxisDoesNot) {
  const StateTensor cut = HeldBy(
      {0, 1, 2, 3}, {{.axes = {"model", "data"}, .bounds = {0, 2, 4, 6, 8}}});
  EXPECT_THAT(WhyNot(cut, TwoReplicas()),
              AllOf(HasSubstr("\"w\""), HasSubstr("is cut over it")));
}

TEST(ElasticStateTest, NorDoSlices) {
  StateTensor sliced = HeldBy({0, 1, 2, 3}, {{.bounds = {0, 8}}});
  sliced.slices = {{0, 4}, {0, 4}, {4, 4}, {4, 4}};
  EXPECT_THAT(WhyNot(sliced, TwoReplicas()), HasSubstr("slices"));
}

// With one replica left its slice is all, and looks whole.
TEST(ElasticStateTest, NorDoesAnythingOfAJobThatReducesAndScatters) {
  JobSpec one = TwoReplicas();
  one.mesh.axes[0].size = 1;
  const StateTensor whole = HeldBy({0, 1}, {{.bounds = {0, 8}}});
  EXPECT_EQ(CheckReplicasHoldAll({whole}, one), absl::OkStatus());
  one.sync = SyncMode::kReduceScatter;
  EXPECT_THAT(WhyNot(whole, one), HasSubstr("slices"));
}

TEST(ElasticStateTest, NorDoesWhatOneReplicaAloneHolds) {
  EXPECT_THAT(WhyNot(HeldBy({0, 1, 2}, {{.bounds = {0, 8}}}), TwoReplicas()),
              HasSubstr("is held by rank 1, but not by rank 3"));
}

}  // namespace
}  // namespace lockstep::plan
