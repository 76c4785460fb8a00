// Whether a job forms again after an epoch ended, and how its steps are
// counted.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using protocol::Phase;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// --- The next epoch ---------------------------------------------------------

TEST(RestartBudgetTest, AnEpochEndsAndAnotherForms) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.Says(1, protocol::LocalFailure{.call = "f"}),
              EffectsAre(Persists(6, EpochFinished(1)),
                         Sends(1, EpochEnded(1,
                                             "w-1 (rank 0, host a, pid 101): f "
                                             "failed at step 0: UNKNOWN: ")),
                         Sends(2, EpochEnded(1,
                                             "w-1 (rank 0, host a, pid 101): f "
                                             "failed at step 0: UNKNOWN: "))));
  EXPECT_EQ(fixture.View().state, JobState::kEpochEnded);
  for (int i : {1, 2}) {
    protocol::Hello again = fixture.HelloOf(i);
    again.generation = {1};
    fixture.Hello(i, again);
  }
  fixture.ConnectAll();
  EXPECT_EQ(fixture.epoch(), EpochId{2});
}

TEST(RestartBudgetTest, WhenItIsSpentTheJobFails) {
  CoordinatorFixture fixture(RestartingSpec(1, /*max_restarts=*/2));
  fixture.RunAll();
  for (int incarnation = 0; incarnation < 2; ++incarnation) {
    EXPECT_THAT(fixture.Says(1, protocol::LocalFailure{.call = "f"}),
                EffectsAre(Persists(EpochFinished(1 + incarnation)),
                           Sends(1, EpochEnded(1 + incarnation))));
    protocol::Hello again = fixture.HelloOf(1);
    again.generation = {1};
    fixture.Hello(1, again);
  }
  EXPECT_THAT(
      fixture.Says(1, protocol::LocalFailure{.call = "f"}),
      FailsJob(1,
               HasSubstr("; the job does not form again: 2 restarts within "
                         "10m were used up (limits.max_restarts)"),
               /*epoch=*/3));
}

TEST(RestartBudgetTest, RestartsBeforeTheWindowAreForgotten) {
  CoordinatorFixture fixture(RestartingSpec(1, /*max_restarts=*/1));
  fixture.RunAll();
  for (int incarnation = 0; incarnation < 4; ++incarnation) {
    fixture.Says(1, protocol::LocalFailure{.call = "f"});
    EXPECT_EQ(fixture.View().state, JobState::kEpochEnded);
    protocol::Hello again = fixture.HelloOf(1);
    again.generation = {1};
    fixture.Hello(1, again);
    fixture.WaitWithHeartbeats(601, {1});
  }
}

TEST(RestartBudgetTest, AStepThatFailsThreeTimesFailsTheJobWithAllCauses) {
  CoordinatorFixture fixture(RestartingSpec(1));
  fixture.JoinAll();
  EffectList requested;
  for (const char* call : {"first", "second", "third"}) {
    fixture.ConnectAll();
    fixture.Says(1, Stands(8, Phase::kCompute));
    requested =
        fixture.Says(1, protocol::LocalFailure{.step = 8, .call = call});
    protocol::Hello again = fixture.HelloOf(1);
    again.generation = {1};
    fixture.Hello(1, again);
  }
  EXPECT_THAT(requested, FailsJob(1,
                                  AllOf(HasSubstr("step 8 failed 3 times"),
                                        HasSubstr("first failed"),
                                        HasSubstr("second failed")),
                                  /*epoch=*/3));
}

// --- Steps are counted over all epochs of a job ------------------------------

protocol::EpochFormed FormedIn(const CoordinatorFixture& fixture) {
  for (const Effect& effect : fixture.effects()) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    const auto* formed =
        std::get_if<protocol::EpochFormed>(&send->message.body);
    if (formed != nullptr) return *formed;
  }
  ADD_FAILURE() << "no epoch formed";
  return {};
}

TEST(GlobalStepsTest, FailuresAtFiveTenAndFifteenAreNotTheSame) {
  CoordinatorFixture fixture(RestartingSpec(1));
  fixture.JoinAll();
  for (const uint64_t step : {5, 10, 15, 20}) {
    EXPECT_EQ(FormedIn(fixture).first_step, step - 5);
    fixture.ConnectAll();
    fixture.Says(1, Stands(step, Phase::kCompute));
    EXPECT_THAT(
        fixture.Says(1, protocol::LocalFailure{.step = step, .call = "f"}),
        Not(Includes(Sends(AnyEpochEndedForGood()))));
    fixture.JoinsAgain(1);
  }
}

// Progress may be 0.1 s old; the reports of survivors are exact.
TEST(GlobalStepsTest, ReportsOfSurvivorsCount) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.JoinAll();
  for (const uint64_t step : {5, 10, 15, 20}) {
    fixture.ConnectAll();
    EXPECT_THAT(fixture.Says(2, protocol::Leave{.clean = false, .steps = 0}),
                Not(Includes(Sends(AnyEpochEndedForGood()))))
        << "before step " << step;
    fixture.Says(1, protocol::EpochReport{{step, Phase::kIdle}, ""});
    EXPECT_EQ(fixture.View().step, step);
    fixture.JoinsAgain(1);
    fixture.Closes(2);
    protocol::Hello other = fixture.HelloOf(2);
    other.incarnation = 2000 + step;
    fixture.Hello(2, other);
    EXPECT_EQ(FormedIn(fixture).first_step, step);
  }
}

TEST(GlobalStepsTest, AStepThatFailsAgainAfterReportsIsTheSame) {
  CoordinatorFixture fixture(RestartingSpec(1));
  fixture.JoinAll();
  EffectList requested;
  for (int i = 0; i < 3; ++i) {
    fixture.ConnectAll();
    requested = fixture.Says(1, protocol::LocalFailure{.call = "f"});
    fixture.Says(1, protocol::EpochReport{{8, Phase::kTransfer}, ""});
    fixture.JoinsAgain(1);
  }
  EXPECT_THAT(requested,
              FailsJob(1, HasSubstr("step 8 failed 3 times"), /*epoch=*/3));
}

TEST(GlobalStepsTest, SurviveTheCoordinator) {
  CoordinatorFixture fixture(RestartingSpec(1));
  fixture.RunAll();
  fixture.Says(1, Stands(7, Phase::kCompute));
  fixture.Says(1, protocol::LocalFailure{.step = 7, .call = "f"});
  fixture.Restart();
  fixture.JoinsAgain(1);
  EXPECT_EQ(FormedIn(fixture).first_step, 7u);
  EXPECT_EQ(fixture.ViewOf(1).position.step, 7u);
}

TEST(GlobalStepsTest, AShortJobThatIsOverShowsItsSteps) {
  CoordinatorFixture fixture;
  fixture.RunAll();
  for (const uint64_t session : {1, 2}) {
    fixture.Says(session, protocol::Leave{.steps = 3});
  }
  EXPECT_EQ(fixture.View().state, JobState::kCompleted);
  EXPECT_EQ(fixture.View().step, 3u);
  EXPECT_EQ(fixture.core().Jobs()[0].step, 3u);
  fixture.Restart();
  fixture.Step(TimerExpired{});
  EXPECT_EQ(fixture.View().step, 3u);
}

TEST(RestartBudgetTest, SurvivorsThatDoNotComeAgainMissTheDeadline) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  protocol::Hello again = fixture.HelloOf(1);
  again.generation = {1};
  fixture.Hello(1, again);
  const EffectList requested = fixture.WaitWithHeartbeats(61, {1, 2});
  const TextMatcher missing = HasSubstr("1 of 2 workers is missing: w-2");
  EXPECT_THAT(
      requested,
      EffectsAre(Persists(7, JobEnded(record::JobOutcome::kFailed)),
                 Sends(1, Refused(StatusCode::kDeadlineExceeded, missing)),
                 Closes(1, StatusCode::kDeadlineExceeded, missing),
                 Sends(2, EpochEndedForGood(0, missing))));
}

TEST(EpochReportTest, IsRememberedForPeople) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  fixture.Says(2, protocol::EpochReport{{7, Phase::kTransfer}, "verdict"});
  EXPECT_EQ(fixture.View().events.back().text,
            "w-2 stands at step 7 while waiting for transfers and has "
            "passed the verdict of step 6");
}

}  // namespace
}  // namespace lockstep::core
