// What an operator asks of a job: pause, resume, stop (drain_test.cc: drain).

#include "server/core/commands.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/asking.h"
#include "tests/server/core/scene.h"

namespace lockstep::core {
namespace {

using protocol::CauseKind;
using protocol::Phase;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// --- What may be asked beside what is wanted --------------------------------

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
      const protocol::Wanted now{.commands = c.wanted, .number = 3};
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

// --- Pause ------------------------------------------------------------------

TEST(PauseTest, IsRecordedThenToldToEveryMember) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  EXPECT_EQ(Asks(scene, JobCommand::kPause, "lunch"),
            "persist 6: wanted: pause\n"
            "1 <- wanted: pause\n2 <- wanted: pause\nanswer 7: OK");
  EXPECT_EQ(scene.View().wanted.reason, "lunch");
  EXPECT_EQ(Asks(scene, JobCommand::kPause), "answer 7: OK")
      << "it is wanted already";
  EXPECT_EQ(Asks(scene, JobCommand::kResume),
            "persist 7: wanted: \n1 <- wanted: \n2 <- wanted: \n"
            "answer 7: OK");
  EXPECT_THAT(Asks(scene, JobCommand::kResume),
              HasSubstr("FAILED_PRECONDITION: cannot resume: the job is not "
                        "paused"));
}

TEST(PauseTest, IsSeenAtOneStepAndIsOneLineOfHistory) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  Asks(scene, JobCommand::kPause);
  scene.Says(1, Paused(413));
  EXPECT_THAT(LinesOf(scene), Not(Contains(HasSubstr("all ranks pause"))));
  EXPECT_TRUE(scene.ViewOf(1).paused);
  EXPECT_FALSE(scene.ViewOf(2).paused);
  scene.Says(2, Paused(413));
  scene.Says(1, Paused(413));
  EXPECT_THAT(LinesOf(scene),
              Contains("all ranks pause after step 412").Times(1));
  scene.Says(1, Stands(413, Phase::kCompute));
  EXPECT_FALSE(scene.ViewOf(1).paused);
}

TEST(PauseTest, NobodyWhoIsPausedIsCalledStuck) {
  JobSpec spec = SpecOf(2);
  spec.on_stuck = OnStuck::kEvict;
  Scene scene(spec);
  scene.RunAll();
  Asks(scene, JobCommand::kPause);
  scene.Says(1, Paused(9));
  scene.Says(2, Paused(9));
  EXPECT_EQ(scene.WaitWithHeartbeats(200, {1, 2}), "");
  EXPECT_THAT(scene.View().stalls, testing::IsEmpty());
  // Patience begins anew when they go on, and then holds as ever.
  Asks(scene, JobCommand::kResume);
  scene.Says(1, Stands(9, Phase::kTransfer));
  scene.Says(2, Stands(9, Phase::kCompute));
  EXPECT_EQ(scene.WaitWithHeartbeats(29, {1, 2}), "");
  EXPECT_THAT(scene.WaitWithHeartbeats(3, {1, 2}), HasSubstr("was evicted"));
}

TEST(PauseTest, WhoIsPausedAndFallsSilentIsLost) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  Asks(scene, JobCommand::kPause);
  scene.Says(1, Paused(9));
  scene.Says(2, Paused(9));
  EXPECT_THAT(scene.WaitWithHeartbeats(12, {1}), HasSubstr("fell silent"));
}

TEST(PauseTest, BeforeTheJobRunsItIsKeptForTheFirstVerdict) {
  Scene scene(SpecOf(2));
  scene.Hello(1);
  EXPECT_EQ(Asks(scene, JobCommand::kPause),
            "persist 3: wanted: pause\nanswer 7: OK");
  EXPECT_THAT(scene.Hello(2), EndsWith("1 <- formed 1: rank 0 of w-1 w-2\n"
                                       "2 <- formed 1: rank 1 of w-1 w-2\n"
                                       "1 <- wanted: pause\n"
                                       "2 <- wanted: pause"));
}

TEST(PauseTest, IsToldAgainToWhoResumesAndSoIsItsEnd) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  Asks(scene, JobCommand::kPause);
  scene.Closes(2);
  EXPECT_THAT(scene.Resume(12, 2), HasSubstr("12 <- wanted: pause"));
  scene.Closes(12);
  Asks(scene, JobCommand::kResume);
  EXPECT_THAT(scene.Resume(22, 2), EndsWith("22 <- wanted: "));
}

TEST(PauseTest, OutlivesTheCoordinatorAndTheEpoch) {
  Scene scene(RestartingSpec(2));
  scene.RunAll();
  Asks(scene, JobCommand::kPause, "lunch");
  const uint64_t number = scene.View().wanted.number;
  RestartAndResume(scene);
  EXPECT_THAT(scene.View().wanted.commands, ElementsAre(Command::kPause));
  EXPECT_EQ(scene.View().wanted.number, number);
  scene.Says(11, protocol::Leave{.clean = false, .reason = "tired"});
  EXPECT_EQ(scene.View().state, JobState::kEpochEnded);
  EXPECT_THAT(scene.View().wanted.commands, ElementsAre(Command::kPause));
  // A word after the restart is newer than all before.
  Asks(scene, JobCommand::kResume);
  EXPECT_GT(scene.View().wanted.number, number);
}

// --- Stop -------------------------------------------------------------------

TEST(StopTest, OfARunningJobWaitsForTheCommonStep) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  EXPECT_THAT(Asks(scene, JobCommand::kStop, "enough"),
              HasSubstr("1 <- wanted: stop\n2 <- wanted: stop"));
  EXPECT_EQ(scene.View().state, JobState::kRunning);
  EXPECT_THAT(Asks(scene, JobCommand::kResume),
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("enough"),
                    HasSubstr("not taken back")));
  scene.Says(2, LeavesBy(Command::kStop, 413));
  EXPECT_THAT(LinesOf(scene), Contains("all ranks stop after step 412"));
  EXPECT_EQ(scene.View().state, JobState::kRunning);
  EXPECT_THAT(scene.Says(1, LeavesBy(Command::kStop, 413)),
              EndsWith("epoch 1 ends\npersist 10: job stopped"));
  const JobView view = scene.View();
  EXPECT_EQ(view.state, JobState::kStopped);
  EXPECT_EQ(view.cause.kind, CauseKind::kStopped);
  EXPECT_EQ(view.cause.message, "stopped by an operator: enough");
  EXPECT_THAT(view.wanted.commands, testing::IsEmpty());
  EXPECT_THAT(LinesOf(scene),
              Contains("all ranks stop after step 412").Times(1));
}

TEST(StopTest, TakesThePlaceOfAPauseAndOfADrain) {
  for (const JobCommand before : {JobCommand::kPause, JobCommand::kDrain}) {
    Scene scene(SpecOf(2));
    scene.RunAll();
    Asks(scene, before);
    EXPECT_THAT(Asks(scene, JobCommand::kStop), HasSubstr("1 <- wanted: stop"));
    // They may have left by the drain.
    scene.Says(1, LeavesBy(Command::kDrain, 3));
    scene.Says(2, LeavesBy(Command::kDrain, 3));
    EXPECT_EQ(scene.View().state, JobState::kStopped);
  }
}

TEST(StopTest, AJobThatFinishedBeforeItTookEffectHasCompleted) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  Asks(scene, JobCommand::kStop);
  scene.Says(1, protocol::Leave{.steps = 400});
  scene.Says(2, protocol::Leave{.steps = 400});
  EXPECT_EQ(scene.View().state, JobState::kCompleted);
}

TEST(StopTest, OfAJobThatDoesNotRunEndsItAtOnce) {
  Scene forming(SpecOf(2));
  forming.Hello(1);
  EXPECT_THAT(Asks(forming, JobCommand::kStop, "wrong spec"),
              AllOf(HasSubstr("job stopped"),
                    HasSubstr("1 <- ended 0 for good: stopped by an operator: "
                              "wrong spec")));
  Scene sealed(SpecOf(2));
  sealed.JoinAll();
  Asks(sealed, JobCommand::kStop);
  EXPECT_EQ(sealed.View().state, JobState::kStopped);
  EXPECT_THAT(Asks(sealed, JobCommand::kPause),
              HasSubstr("FAILED_PRECONDITION: job digits is over"));
}

TEST(StopTest, AnEpochThatEndsBeforeItTookEffectIsTheLast) {
  Scene scene(RestartingSpec(2));
  scene.RunAll();
  Asks(scene, JobCommand::kStop, "enough");
  scene.Says(1, Scene::DeathOf(2, "signal 9"));
  EXPECT_EQ(scene.View().state, JobState::kStopped);
  EXPECT_THAT(scene.View().cause.message,
              AllOf(HasSubstr("signal 9"), HasSubstr("the job does not form "
                                                     "again: stopped by an "
                                                     "operator: enough")));
}

TEST(StopTest, ADeathBeforeItTookEffectIsNoFailureOfTheJob) {
  Scene scene(SpecOf(2));  // may not form again
  scene.RunAll();
  Asks(scene, JobCommand::kStop);
  scene.Says(2, LeavesBy(Command::kStop, 413));
  scene.Says(1, protocol::LocalFailure{.call = "f"});
  EXPECT_EQ(scene.View().state, JobState::kStopped);
}

TEST(StopTest, IsDoneAfterARestartIfOnlyItsEndWasLost) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  Asks(scene, JobCommand::kStop, "enough");
  for (const int i : {1, 2}) scene.Says(i, LeavesBy(Command::kStop, 413));
  scene.Restart(/*forgotten=*/1);
  EXPECT_THAT(scene.Step(Wake{}), HasSubstr("job stopped"));
  EXPECT_EQ(scene.View().state, JobState::kStopped);
}

TEST(StopTest, AfterARestartWhoseWorkWasDoneHasCompletedAllTheSame) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  Asks(scene, JobCommand::kStop, "enough");
  for (const int i : {1, 2}) scene.Says(i, protocol::Leave{.steps = 400});
  scene.Restart(/*forgotten=*/1);
  EXPECT_THAT(scene.Step(Wake{}), HasSubstr("job completed"));
}

TEST(StopTest, AfterARestartWithAPlanItWaitsForWhoTrains) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Restart();
  EXPECT_THAT(Asks(scene, JobCommand::kStop), HasSubstr("wanted: stop"));
  EXPECT_FALSE(scene.durable_job().ended.has_value());
  protocol::Hello hello = scene.HelloOf(1);
  hello.generation = {1};
  hello.resume =
      protocol::ResumeState{.epoch = scene.epoch(),
                            .revision = scene.durable_job().revision,
                            .plan_digest = scene.durable_job().plan_digest};
  EXPECT_THAT(scene.Hello(11, hello), HasSubstr("11 <- wanted: stop"));
}

}  // namespace
}  // namespace lockstep::core
