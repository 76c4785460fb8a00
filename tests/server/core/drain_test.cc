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

TEST(DrainTest, OfAnEpochThatDoesNotTrainYetEndsIt) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  EXPECT_THAT(
      Asks(fixture, JobCommand::kDrain),
      Includes(Sends(1, EpochEnded(1, StartsWith("drained by an operator")))));
  EXPECT_EQ(fixture.View().state, JobState::kForming);
}

TEST(DrainTest, AnEpochThatEndsBeforeItTookEffectDrainsIt) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kDrain);
  fixture.Says(1, CoordinatorFixture::DeathOf(2, "signal 9"));
  EXPECT_EQ(fixture.View().state, JobState::kForming);
  fixture.Closes(1);
  fixture.Wait(2);
  EXPECT_THAT(fixture.Wait(100000), NoEffects());
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
