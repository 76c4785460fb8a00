// Warnings of a job that continues: parameters that are not submitted, and
// values that differ.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using protocol::ParameterNames;
using protocol::Phase;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

protocol::Progress Lacks(uint64_t step, ParameterNames by_all,
                         ParameterNames here = {}) {
  protocol::Progress progress = Stands(step, Phase::kCompute);
  progress.unsubmitted_by_all = std::move(by_all);
  progress.unsubmitted_here = std::move(here);
  return progress;
}

TEST(WarningTest, ComesOnceAllRanksHaveSaidWhatTheyLack) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  EXPECT_THAT(fixture.Says(1, Lacks(3, {1, {"bias"}})), NoEffects());
  EXPECT_THAT(fixture.Says(2, Lacks(3, {1, {"bias"}}, {1, {"weight"}})),
              NoEffects());
  EXPECT_THAT(fixture.Says(1, Lacks(4, {1, {"bias"}})), NoEffects());
  EXPECT_THAT(fixture.Says(3, Lacks(4, {1, {"bias"}})), NoEffects())
      << "of a later step";
  fixture.Says(1, Lacks(5, {1, {"bias"}}));
  fixture.Says(2, Lacks(5, {1, {"bias"}}, {1, {"weight"}}));
  EXPECT_THAT(fixture.View().warnings, IsEmpty());
  EXPECT_THAT(
      fixture.Says(3, Lacks(5, {1, {"bias"}})),
      AllOf(Includes(Sends(1, Warning(StartsWith(
                                  "no rank submits bias: the gradient stays "
                                  "zero; rank 1 does not submit weight")))),
            Not(Includes(SendsAnythingOn(2)))));
  ASSERT_EQ(fixture.View().warnings.size(), 1u);
  EXPECT_THAT(fixture.View().events.back().text, HasSubstr("warning: no rank"));
  // A repeated report has no effects.
  EXPECT_THAT(fixture.Says(2, Lacks(6, {1, {"bias"}}, {1, {"weight"}})),
              NoEffects());
  EXPECT_EQ(fixture.View().warnings.size(), 1u);
}

TEST(WarningTest, OutlivesTheRankThatLeavesFirst) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, Lacks(3, {1, {"bias"}}));
  EXPECT_THAT(fixture.Says(1, protocol::Leave{.steps = 3}),
              Not(Includes(Sends(Warning()))))
      << "rank 1 may have more to say";
  EXPECT_THAT(fixture.Says(2, protocol::Leave{.steps = 3}),
              Includes(Sends(2, Warning(StartsWith("no rank submits bias")))));
  EXPECT_EQ(fixture.View().state, JobState::kCompleted);
  EXPECT_EQ(fixture.View().warnings.size(), 1u);
}

TEST(UnsubmittedTrackerTest, NamesTheNewOnesAndCountsTheRest) {
  UnsubmittedTracker board;
  EXPECT_EQ(board.Take(), "");
  board.Update(0, Lacks(3, {5, {"a", "b"}}));
  EXPECT_TRUE(board.has_news());
  EXPECT_EQ(board.step(), 3u);
  EXPECT_THAT(board.Take(), HasSubstr("no rank submits a, b and 3 more: "));
  EXPECT_FALSE(board.has_news());
  board.Update(0, Lacks(9, {6, {"c", "a", "b"}}));
  EXPECT_THAT(board.Take(), AllOf(HasSubstr("no rank submits c and 3 more"),
                                  Not(HasSubstr("a, "))));
}

TEST(UnsubmittedTrackerTest, PutsTogetherRanksThatLackTheSame) {
  UnsubmittedTracker board;
  board.Update(1, Lacks(3, {}, {2, {"a", "b"}}));
  board.Update(2, Lacks(3, {}, {2, {"b", "a"}}));
  board.Update(3, Lacks(3, {}, {1, {"b"}}));
  const std::string told = board.Take();
  EXPECT_THAT(told, AllOf(HasSubstr("ranks 1-2 do not submit a"),
                          HasSubstr("ranks 1-3 do not submit b")));
}

protocol::ValueDigests Digests(std::vector<uint64_t> digests) {
  protocol::ValueDigests values{.digests = std::move(digests)};
  for (size_t p = 0; p < values.digests.size(); ++p) {
    values.parameters.push_back(static_cast<uint32_t>(p));
  }
  return values;
}

TEST(ValuesTest, ThatDifferAreNamedOnceAllRanksHaveSaidTheirs) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  EXPECT_THAT(fixture.Says(1, Digests({7, 8})), NoEffects());
  EXPECT_THAT(fixture.Says(2, Digests({7, 9})), NoEffects());
  EXPECT_THAT(
      fixture.Says(3, Digests({7, 9})),
      Includes(Sends(
          1, Warning(StartsWith(
                 "bias: ranks 1-2 and rank 0 begin with different values")))));
  // A rank that resumes repeats its report.
  EXPECT_THAT(fixture.Says(2, Digests({7, 9})), NoEffects());
  EXPECT_EQ(fixture.View().warnings.size(), 1u);
}

TEST(ValuesTest, ARankThatSaysNothingIsNotWaitedFor) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(1, Digests({7, 8}));
  fixture.Says(2, Digests({6, 8}));
  EXPECT_THAT(fixture.View().warnings, IsEmpty());
  fixture.Says(3, Stands(1, Phase::kCompute));
  EXPECT_THAT(fixture.View().warnings,
              ElementsAre(HasSubstr("weight: rank 0 and rank 1 begin with")));
}

// The reports of different ranks arrive in any order.
TEST(ValuesTest, AreAwaitedThoughAnotherRankLeavesBefore) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(1, Digests({7, 8}));
  fixture.Says(2, Digests({6, 8}));
  fixture.Says(1, protocol::Leave{.steps = 3});
  EXPECT_THAT(fixture.View().warnings, IsEmpty());
  fixture.Says(3, Digests({7, 9}));
  EXPECT_THAT(fixture.View().warnings,
              ElementsAre(AllOf(HasSubstr("weight: ranks 0, 2 and rank 1"),
                                HasSubstr("bias: ranks 0-1 and rank 2"))));
}

TEST(ValuesTest, OfParametersThatAreNotThereAreRefused) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(
      fixture.Says(1, Digests({1, 2, 3})),
      FailsJob(1, HasSubstr("values of parameters that are not there")));
}

}  // namespace
}  // namespace lockstep::core
