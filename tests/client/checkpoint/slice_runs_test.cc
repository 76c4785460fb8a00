#include "client/checkpoint/slice_runs.h"

#include <cstdint>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::checkpoint {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// From, to and length of each run.
using RunList = std::vector<std::tuple<uint64_t, uint64_t, uint64_t>>;

RunList RunsOf(const TensorBox& slice, const TensorBox& box,
               size_t element_bytes) {
  RunList list;
  for (SliceRuns runs(slice, box, element_bytes); !runs.AtEnd(); runs.Next()) {
    list.emplace_back(runs.from(), runs.to(), runs.run_bytes());
  }
  return list;
}

TEST(SliceRunsTest, TheExampleOfTheHeader) {
  EXPECT_THAT(RunsOf({{0, 0}, {3, 4}}, {{0, 2}, {3, 4}}, 1),
              ElementsAre(std::tuple(2, 0, 2), std::tuple(6, 4, 2),
                          std::tuple(10, 8, 2)));
}

TEST(SliceRunsTest, WhatIsContiguousInBothIsOneRun) {
  const TensorBox slice = {{4, 0, 0}, {8, 5, 3}};
  EXPECT_THAT(RunsOf(slice, slice, 2), ElementsAre(std::tuple(0, 0, 240)));
  EXPECT_THAT(RunsOf(slice, {{6, 0, 0}, {2, 5, 3}}, 2),
              ElementsAre(std::tuple(60, 0, 60)));
  EXPECT_THAT(RunsOf(slice, {{0, 0, 0}, {20, 5, 3}}, 2),
              ElementsAre(std::tuple(0, 120, 240)));
  // A part of one row.
  EXPECT_THAT(RunsOf(slice, {{5, 2, 1}, {1, 1, 2}}, 2),
              ElementsAre(std::tuple(44, 0, 4)));
}

// Contiguous in the slice, but not in the box, and the other way round.
TEST(SliceRunsTest, RunsEndWhereEitherSideHasAGap) {
  EXPECT_THAT(RunsOf({{0, 0}, {2, 3}}, {{0, 0}, {2, 6}}, 4),
              ElementsAre(std::tuple(0, 0, 12), std::tuple(12, 24, 12)));
  EXPECT_THAT(RunsOf({{0, 0}, {2, 6}}, {{0, 0}, {2, 3}}, 4),
              ElementsAre(std::tuple(0, 0, 12), std::tuple(24, 12, 12)));
}

TEST(SliceRunsTest, AScalarIsOneRunAndDisjointBoxesHaveNone) {
  EXPECT_THAT(RunsOf({}, {}, 8), ElementsAre(std::tuple(0, 0, 8)));
  EXPECT_THAT(RunsOf({{0, 0}, {2, 3}}, {{2, 0}, {2, 3}}, 4), IsEmpty());
  EXPECT_THAT(RunsOf({{0, 0}, {2, 3}}, {{1, 1}, {1, 0}}, 4), IsEmpty());
}

}  // namespace
}  // namespace lockstep::checkpoint
