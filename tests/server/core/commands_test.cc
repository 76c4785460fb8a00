// An operator's commands: pause, resume, stop (drain_test.cc: drain).

#include "server/core/commands.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/asking.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using protocol::CauseKind;
using protocol::Phase;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// --- Which commands may follow which ----------------------------------------

TEST(AskTest, EachCommandBesideEachOther) {
  const struct {
    std::vector<Command> wanted;
    // pause, resume, drain, stop; "-": refused.
    std::vector<std::string> then;
  } cases[] = {
      {{}, {"pause", "-", "drain", "stop"}},
      {{Command::kPause}, {"pause", "", "drain", "stop"}},
      {{Command::kDrain}, {"-", "-", "drain", "stop"}},
      {{Command::kStop}, {"-", "-", "-", "stop"}},
  };
  const JobCommand asked[] = {JobCommand::kPause, JobCommand::kResume,
                              JobCommand::kDrain, JobCommand::kStop};
  for (const auto& c : cases) {
    for (size_t i = 0; i < 4; ++i) {
      SCOPED_TRACE(Names(c.wanted) + " + " + std::string(Name(asked[i])));
      const protocol::DesiredCommands now{.commands = c.wanted, .number = 3};
      const auto then = Ask(now, asked[i], "why");
      if (c.then[i] == "-") {
        EXPECT_EQ(then.status().code(), absl::StatusCode::kFailedPrecondition);
        continue;
      }
      ASSERT_TRUE(then.ok()) << then.status();
      EXPECT_EQ(Names(then->commands), c.then[i]);
      const bool changed = then->commands != c.wanted;
      EXPECT_EQ(then->number, changed ? 4u : 3u);
    }
  }
}

// --- Who asks ---------------------------------------------------------------

TEST(RequesterTest, IsInTheHistoryWithEachRequest) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  const auto asks = [&](JobCommand command, const std::string& by) {
    fixture.Step(CommandJob{{7}, fixture.job(), "", command, "lunch", by});
  };
  asks(JobCommand::kSave, "alice at 10.0.0.7:4000");
  asks(JobCommand::kPause, "alice at 10.0.0.7:4001");
  asks(JobCommand::kResume, "operator token 2 at 10.0.0.8:5000");
  asks(JobCommand::kDrain, "");
  fixture.Step(
      StopJob{{8}, fixture.job(), "", "enough", "bob at 10.0.0.9:6000"});
  const std::vector<std::string> lines = LinesOf(fixture);
  for (const char* line :
       {"job digits was created for data=2 by its worker w-1",
        "save is asked for by alice at 10.0.0.7:4000: lunch",
        "pause is asked for by alice at 10.0.0.7:4001: lunch",
        "resume is asked for by operator token 2 at 10.0.0.8:5000: lunch",
        "drain is asked for by an operator: lunch",
        "stop at once is asked for by bob at 10.0.0.9:6000: enough"}) {
    EXPECT_THAT(lines, Contains(line).Times(1));
  }
  // The workers learn why, and not who.
  EXPECT_EQ(fixture.View().cause.message, "stopped by an operator: enough");
}

// --- Pause ------------------------------------------------------------------

TEST(PauseTest, IsRecordedThenToldToEveryMember) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(Asks(fixture, JobCommand::kPause, "lunch"),
              EffectsAre(Persists(6, CommandsWanted({Command::kPause})),
                         Sends(1, DesiredCommands({Command::kPause})),
                         Sends(2, DesiredCommands({Command::kPause})),
                         Answers(7, StatusCode::kOk)));
  EXPECT_EQ(fixture.View().wanted.reason, "lunch");
  EXPECT_THAT(Asks(fixture, JobCommand::kPause),
              EffectsAre(Answers(7, StatusCode::kOk)))
      << "it is wanted already";
  EXPECT_THAT(
      Asks(fixture, JobCommand::kResume),
      EffectsAre(Persists(7, CommandsWanted({})), Sends(1, DesiredCommands({})),
                 Sends(2, DesiredCommands({})), Answers(7, StatusCode::kOk)));
  EXPECT_THAT(
      Asks(fixture, JobCommand::kResume),
      EffectsAre(Answers(7, StatusCode::kFailedPrecondition,
                         StartsWith("cannot resume: the job is not paused"))));
}

TEST(PauseTest, IsSeenAtOneStepAndIsOneLineOfHistory) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kPause);
  fixture.Says(1, Paused(413));
  EXPECT_THAT(LinesOf(fixture), Not(Contains(HasSubstr("all ranks pause"))));
  EXPECT_TRUE(fixture.ViewOf(1).paused);
  EXPECT_FALSE(fixture.ViewOf(2).paused);
  fixture.Says(2, Paused(413));
  fixture.Says(1, Paused(413));
  EXPECT_THAT(LinesOf(fixture),
              Contains("all ranks pause after step 412").Times(1));
  fixture.Says(1, Stands(413, Phase::kCompute));
  EXPECT_FALSE(fixture.ViewOf(1).paused);
}

TEST(PauseTest, NobodyWhoIsPausedIsCalledStuck) {
  JobSpec spec = SpecOf(2);
  spec.on_stuck = OnStuck::kEvict;
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  Asks(fixture, JobCommand::kPause);
  fixture.Says(1, Paused(9));
  fixture.Says(2, Paused(9));
  EXPECT_THAT(fixture.WaitWithHeartbeats(200, {1, 2}), NoEffects());
  EXPECT_THAT(fixture.Stalls(), testing::IsEmpty());
  // The progress timeout restarts when they resume.
  Asks(fixture, JobCommand::kResume);
  fixture.Says(1, Stands(9, Phase::kTransfer));
  fixture.Says(2, Stands(9, Phase::kCompute));
  EXPECT_THAT(fixture.WaitWithHeartbeats(29, {1, 2}), NoEffects());
  EXPECT_THAT(fixture.WaitWithHeartbeats(3, {1, 2}),
              FailsJob(1, HasSubstr("was evicted")));
}

TEST(PauseTest, WhoIsPausedAndFallsSilentIsLost) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kPause);
  fixture.Says(1, Paused(9));
  fixture.Says(2, Paused(9));
  EXPECT_THAT(fixture.WaitWithHeartbeats(12, {1}),
              FailsJob(1, HasSubstr("fell silent")));
}

TEST(PauseTest, BeforeTheJobRunsItIsKeptForTheFirstVerdict) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  EXPECT_THAT(Asks(fixture, JobCommand::kPause),
              EffectsAre(Persists(3, CommandsWanted({Command::kPause})),
                         Answers(7, StatusCode::kOk)));
  EXPECT_THAT(fixture.Hello(2),
              EffectsEndWith(Sends(1, EpochFormed(1, 0, {"w-1", "w-2"})),
                             Sends(2, EpochFormed(1, 1, {"w-1", "w-2"})),
                             Sends(1, DesiredCommands({Command::kPause})),
                             Sends(2, DesiredCommands({Command::kPause}))));
}

TEST(PauseTest, IsToldAgainToWhoResumesAndSoIsItsEnd) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kPause);
  fixture.Closes(2);
  EXPECT_THAT(fixture.Resume(12, 2),
              Includes(Sends(12, DesiredCommands({Command::kPause}))));
  fixture.Closes(12);
  Asks(fixture, JobCommand::kResume);
  EXPECT_THAT(fixture.Resume(22, 2),
              EffectsEndWith(Sends(22, DesiredCommands({}))));
}

TEST(PauseTest, OutlivesTheCoordinatorAndTheEpoch) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kPause, "lunch");
  const uint64_t number = fixture.View().wanted.number;
  RestartAndResume(fixture);
  EXPECT_THAT(fixture.View().wanted.commands, ElementsAre(Command::kPause));
  EXPECT_EQ(fixture.View().wanted.number, number);
  fixture.Says(11, protocol::Leave{.clean = false, .reason = "tired"});
  EXPECT_EQ(fixture.View().state, JobState::kEpochEnded);
  EXPECT_THAT(fixture.View().wanted.commands, ElementsAre(Command::kPause));
  // A command after the restart is newer than all earlier ones. They may have
  // left because of the drain.
  Asks(fixture, JobCommand::kResume);
  EXPECT_GT(fixture.View().wanted.number, number);
}

// --- Stop -------------------------------------------------------------------

TEST(StopTest, OfARunningJobWaitsForTheCommonStep) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(Asks(fixture, JobCommand::kStop, "enough"),
              Includes(Sends(1, DesiredCommands({Command::kStop})),
                       Sends(2, DesiredCommands({Command::kStop}))));
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_THAT(Asks(fixture, JobCommand::kResume),
              EffectsAre(Answers(
                  7, StatusCode::kFailedPrecondition,
                  AllOf(HasSubstr("enough"), HasSubstr("not taken back")))));
  fixture.Says(2, LeavesBy(Command::kStop, 413));
  EXPECT_THAT(LinesOf(fixture), Contains("all ranks stop after step 412"));
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_THAT(
      fixture.Says(1, LeavesBy(Command::kStop, 413)),
      EffectsEndWith(Persists(EpochFinished(1)),
                     Persists(10, JobEnded(record::JobOutcome::kStopped))));
  const JobView view = fixture.View();
  EXPECT_EQ(view.state, JobState::kStopped);
  EXPECT_EQ(view.cause.kind, CauseKind::kStopped);
  EXPECT_EQ(view.cause.message, "stopped by an operator: enough");
  EXPECT_THAT(view.wanted.commands, testing::IsEmpty());
  EXPECT_THAT(LinesOf(fixture),
              Contains("all ranks stop after step 412").Times(1));
}

TEST(StopTest, TakesThePlaceOfAPauseAndOfADrain) {
  for (const JobCommand before : {JobCommand::kPause, JobCommand::kDrain}) {
    CoordinatorFixture fixture(SpecOf(2));
    fixture.RunAll();
    Asks(fixture, before);
    EXPECT_THAT(Asks(fixture, JobCommand::kStop),
                Includes(Sends(1, DesiredCommands({Command::kStop}))));
    // Workers may have left because of the drain.
    fixture.Says(1, LeavesBy(Command::kDrain, 3));
    fixture.Says(2, LeavesBy(Command::kDrain, 3));
    EXPECT_EQ(fixture.View().state, JobState::kStopped);
  }
}

TEST(StopTest, AJobThatFinishedBeforeItTookEffectHasCompleted) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kStop);
  fixture.Says(1, protocol::Leave{.steps = 400});
  fixture.Says(2, protocol::Leave{.steps = 400});
  EXPECT_EQ(fixture.View().state, JobState::kCompleted);
}

TEST(StopTest, OfAJobThatDoesNotRunEndsItAtOnce) {
  CoordinatorFixture forming(SpecOf(2));
  forming.Hello(1);
  EXPECT_THAT(
      Asks(forming, JobCommand::kStop, "wrong spec"),
      Includes(
          Persists(JobEnded(record::JobOutcome::kStopped)),
          Sends(1, EpochEndedForGood(
                       0, StartsWith("stopped by an operator: wrong spec")))));
  CoordinatorFixture sealed(SpecOf(2));
  sealed.JoinAll();
  Asks(sealed, JobCommand::kStop);
  EXPECT_EQ(sealed.View().state, JobState::kStopped);
  EXPECT_THAT(Asks(sealed, JobCommand::kPause),
              EffectsAre(Answers(7, StatusCode::kFailedPrecondition,
                                 StartsWith("job digits is over"))));
}

TEST(StopTest, AnEpochThatEndsBeforeItTookEffectIsTheLast) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kStop, "enough");
  fixture.Says(1, CoordinatorFixture::DeathOf(2, "signal 9"));
  EXPECT_EQ(fixture.View().state, JobState::kStopped);
  EXPECT_THAT(fixture.View().cause.message,
              AllOf(HasSubstr("signal 9"), HasSubstr("the job does not form "
                                                     "again: stopped by an "
                                                     "operator: enough")));
}

TEST(StopTest, ADeathBeforeItTookEffectIsNoFailureOfTheJob) {
  CoordinatorFixture fixture(SpecOf(2));  // may not restart
  fixture.RunAll();
  Asks(fixture, JobCommand::kStop);
  fixture.Says(2, LeavesBy(Command::kStop, 413));
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  EXPECT_EQ(fixture.View().state, JobState::kStopped);
}

TEST(StopTest, IsDoneAfterARestartIfOnlyItsEndWasLost) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kStop, "enough");
  for (const int i : {1, 2}) fixture.Says(i, LeavesBy(Command::kStop, 413));
  fixture.Restart(/*forgotten=*/1);
  EXPECT_THAT(fixture.Step(TimerExpired{}),
              Includes(Persists(JobEnded(record::JobOutcome::kStopped))));
  EXPECT_EQ(fixture.View().state, JobState::kStopped);
}

TEST(StopTest, AfterARestartWhoseWorkWasDoneHasCompletedAllTheSame) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kStop, "enough");
  for (const int i : {1, 2}) fixture.Says(i, protocol::Leave{.steps = 400});
  fixture.Restart(/*forgotten=*/1);
  EXPECT_THAT(fixture.Step(TimerExpired{}),
              Includes(Persists(JobEnded(record::JobOutcome::kCompleted))));
}

TEST(StopTest, AfterARestartWithAPlanItWaitsForWhoTrains) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Restart();
  EXPECT_THAT(Asks(fixture, JobCommand::kStop),
              EffectsAre(Persists(6, CommandsWanted({Command::kStop})),
                         Answers(7, StatusCode::kOk)));
  EXPECT_FALSE(fixture.durable_job().ended.has_value());
  protocol::Hello hello = fixture.HelloOf(1);
  hello.generation = {1};
  hello.resume =
      protocol::ResumeState{.epoch = fixture.epoch(),
                            .revision = fixture.durable_job().revision,
                            .plan_digest = fixture.durable_job().plan_digest};
  EXPECT_THAT(fixture.Hello(11, hello),
              Includes(Sends(11, DesiredCommands({Command::kStop}))));
}

}  // namespace
}  // namespace lockstep::core
