// A job that an operator drains: its workers leave, and it waits for others.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/asking.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using testing::Contains;
using testing::EndsWith;
using testing::StartsWith;

void Drain(CoordinatorFixture& fixture) {
  Asks(fixture, JobCommand::kDrain, "maintenance");
  fixture.Says(1, LeavesBy(Command::kDrain, 8));
  fixture.Says(2, LeavesBy(Command::kDrain, 8));
}

TEST(DrainTest, TheJobWaitsForWorkersWithoutADeadlineAndFormsAgain) {
  CoordinatorFixture fixture(
      SpecOf(2));  // max_restarts 0: a drain does not count
  fixture.RunAll();
  Drain(fixture);
  EXPECT_EQ(fixture.View().state, JobState::kForming);
  EXPECT_EQ(fixture.View().missing, 2);
  EXPECT_EQ(fixture.View().cause.message,
            "epoch 1 ended: drained by an operator: maintenance");
  EXPECT_THAT(LinesOf(fixture), Contains("all ranks drain after step 7"));
  EXPECT_THAT(fixture.Wait(100000), NoEffects());

  for (int i = 1; i <= 2; ++i) {
    protocol::Hello hello = fixture.HelloOf(i);
    hello.incarnation += 1000;
    fixture.Hello(10 + i, hello);
  }
  EXPECT_EQ(fixture.View().state, JobState::kSealed);
  EXPECT_EQ(fixture.epoch().value, 2u);
  EXPECT_THAT(fixture.View().wanted.commands, testing::IsEmpty())
      << "it is done";
}

TEST(DrainTest, WhoComesAgainMustBeFollowedInTime) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  Drain(fixture);
  fixture.Wait(1000);
  protocol::Hello hello = fixture.HelloOf(1);
  hello.incarnation += 1000;
  fixture.Hello(11, hello);
  fixture.WaitWithHeartbeats(70, {11});
  EXPECT_EQ(fixture.View().state, JobState::kFailed);
}

TEST(DrainTest, StillWaitsAfterTheCoordinatorRestarted) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  Drain(fixture);
  fixture.Restart();
  EXPECT_THAT(fixture.Wait(100000), NoEffects());
  fixture.Step(TimerExpired{});
  EXPECT_EQ(fixture.View().state, JobState::kForming);
  EXPECT_THAT(fixture.Wait(100000), NoEffects());
}

TEST(DrainTest, OfAJobThatDoesNotRunSendsAwayWhoHasArrived) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  const TextMatcher reason = StartsWith("drained by an operator: maintenance");
  EXPECT_THAT(Asks(fixture, JobCommand::kDrain, "maintenance"),
              EffectsEndWith(Sends(1, Refused(StatusCode::kCancelled, reason)),
                             Closes(1, StatusCode::kCancelled, reason),
                             Answers(7, StatusCode::kOk)));
  EXPECT_EQ(fixture.View().missing, 2);
  EXPECT_EQ(fixture.View().events.back().text,
            "the job is drained: 1 worker is sent away, and it waits for new "
            "ones");
  EXPECT_THAT(fixture.Wait(100000), NoEffects());
}

TEST(DrainTest, OfAJobWithoutWorkersIsDoneAtOnceAndItsHistorySaysSo) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Step(CreateJob{{5}, SpecOf(2), "", ""});
  EXPECT_THAT(Asks(fixture, JobCommand::kDrain),
              EffectsEndWith(Answers(7, StatusCode::kOk)));
  EXPECT_EQ(fixture.View().state, JobState::kForming);
  EXPECT_EQ(fixture.View().events.back().text,
            "the job is drained: it has no workers, and it waits for new ones");
  EXPECT_THAT(fixture.Wait(100000), NoEffects());
  fixture.RunAll();
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_THAT(fixture.View().wanted.commands, testing::IsEmpty());
}

TEST(DrainTest, OfAnEpochThatDoesNotTrainYetEndsItForAll) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  EXPECT_THAT(Asks(fixture, JobCommand::kDrain),
              Includes(Sends(1, EpochEndedForGood(
                                    1, StartsWith("drained by an operator"))),
                       Closes(1, StatusCode::kOk)));
  EXPECT_EQ(fixture.View().state, JobState::kForming);
  EXPECT_EQ(fixture.View().workers.at(0).state, WorkerState::kLost);
}

TEST(DrainTest, AnEpochThatEndsBeforeItTookEffectDrainsIt) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kDrain);
  EXPECT_THAT(fixture.Says(1, CoordinatorFixture::DeathOf(2, "signal 9")),
              Includes(Sends(1, EpochEndedForGood(
                                    1, EndsWith("; drained by an operator"))),
                       Closes(1, StatusCode::kOk)))
      << "else the survivor comes again";
  EXPECT_EQ(fixture.View().state, JobState::kForming);
  EXPECT_THAT(fixture.Wait(100000), NoEffects());
}

// As when the coordinator was replaced while a worker died: its launcher could
// not ask, and starts it again.
TEST(DrainTest, WorkersOfTheDrainedLaunchAreRefused) {
  CoordinatorFixture fixture(RestartingSpec(2));
  const auto of_launch = [&](int i, const std::string& launch) {
    protocol::Hello hello = fixture.HelloOf(i);
    hello.launch = protocol::Launch{launch, 1, 0};
    hello.incarnation += launch == "first" ? 0 : 70;
    return hello;
  };
  for (const int i : {1, 2}) fixture.Hello(i, of_launch(i, "first"));
  fixture.ConnectAll();
  Asks(fixture, JobCommand::kDrain, "maintenance");
  fixture.Says(1, CoordinatorFixture::DeathOf(2, "signal 9"));
  protocol::Hello restarted = of_launch(2, "first");
  restarted.incarnation = 78;
  EXPECT_THAT(
      fixture.Hello(3, restarted),
      Includes(Sends(3, Refused(StatusCode::kCancelled,
                                "drained by an operator: maintenance"))));
  fixture.Hello(4, of_launch(2, "second"));
  EXPECT_THAT(fixture.Hello(5, of_launch(1, "second")),
              Includes(Sends(5, EpochFormed(2, 0, {"w-1", "w-2"}))));
}

// They left to join again before the drain.
TEST(DrainTest, SurvivorsOfTheLastEpochAreRefused) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(1, CoordinatorFixture::DeathOf(2, "signal 9"));
  fixture.Says(1, protocol::EpochReport{});
  fixture.Says(1, protocol::Leave{.clean = false, .returns = true});
  Asks(fixture, JobCommand::kDrain, "maintenance");
  protocol::Hello again = fixture.HelloOf(1);
  again.incarnation = 77;
  again.held = protocol::HeldState{.epoch = {1}, .steps = 0};
  const EffectMatcher is_sent_away = Sends(
      3,
      Refused(StatusCode::kCancelled, "drained by an operator: maintenance"));
  EXPECT_THAT(fixture.Hello(3, again), Includes(is_sent_away));
  fixture.Restart();
  EXPECT_THAT(fixture.Hello(3, again), Includes(is_sent_away));
  EXPECT_THAT(fixture.Wait(100000), NoEffects());
}

// The stream broke before.
TEST(DrainTest, AMemberThatMissedTheEndIsToldWhenItResumes) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kDrain);
  fixture.Closes(1);
  fixture.Says(2, protocol::LocalFailure{.call = "f"});
  EXPECT_THAT(fixture.Resume(3, 1),
              Includes(Sends(3, EpochEndedForGood(
                                    1, EndsWith("; drained by an operator"))),
                       Closes(3, StatusCode::kOk)));
}

TEST(DrainTest, ADeathBeforeItTookEffectIsNoFailureOfTheJob) {
  CoordinatorFixture fixture(SpecOf(2));  // may not restart
  fixture.RunAll();
  Asks(fixture, JobCommand::kDrain);
  fixture.Says(2, LeavesBy(Command::kDrain, 413));
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  EXPECT_EQ(fixture.View().state, JobState::kForming);
  EXPECT_THAT(fixture.View().cause.message,
              EndsWith("; drained by an operator"));
}

TEST(DrainTest, IsDoneBeforeTheNextEpochBegins) {
  CoordinatorFixture fixture(SpecOf(1));
  Asks(fixture, JobCommand::kDrain);
  fixture.RunAll();
  Asks(fixture, JobCommand::kDrain);
  fixture.Says(1, LeavesBy(Command::kDrain, 413));
  fixture.Restart();
  EXPECT_THAT(fixture.Hello(3, fixture.HelloOf(3)),
              EffectsAre(Persists(8, GenerationAssigned("w-3", 1)),
                         Sends(3, Welcome(1)), Persists(9, CommandsWanted({})),
                         Persists(10, EpochBegan(2, {"w-3"})),
                         Sends(3, EpochFormed(2, 0, {"w-3"})),
                         Sends(3, DesiredCommands({}))));
  size_t begun = 0, done = 0;
  const auto records = fixture.records();
  for (size_t i = 0; i < records.size(); ++i) {
    if (std::get_if<record::EpochBegan>(&records[i].body)) begun = i;
    if (std::get_if<record::CommandsWanted>(&records[i].body)) done = i;
  }
  EXPECT_LT(done, begun) << "else a restart between them drains it again";
}

TEST(DrainTest, OfADrainedJobSendsAwayWhoHasComeSince) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kDrain);
  for (const int i : {1, 2}) fixture.Says(i, LeavesBy(Command::kDrain, 413));
  protocol::Hello again = fixture.HelloOf(1);
  again.incarnation = 77;
  fixture.Hello(3, again);
  EXPECT_THAT(Asks(fixture, JobCommand::kDrain),
              Includes(Sends(3, Refused(StatusCode::kCancelled))));
  EXPECT_THAT(fixture.Wait(100000), NoEffects()) << "no deadline is left";
}

}  // namespace
}  // namespace lockstep::core
