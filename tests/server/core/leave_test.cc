// Members that fail or leave, and the jobs that operators end.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using protocol::CauseKind;
using protocol::Phase;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// --- Failing ----------------------------------------------------------------

TEST(LocalFailureTest, AllGetRankCallAndMessage) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  const EffectList requested = fixture.Says(
      2, protocol::LocalFailure{.step = 7,
                                .call = "GradientSync::Submit",
                                .code = absl::StatusCode::kInvalidArgument,
                                .message = "w was submitted twice"});
  const MessageMatcher ended = EpochEndedForGood(
      1,
      StartsWith("w-2 (rank 1, host a, pid 102): GradientSync::Submit "
                 "failed at step 7: INVALID_ARGUMENT: w was submitted twice"));
  EXPECT_THAT(requested, Includes(Sends(1, ended), Sends(2, ended)));
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLocalFailure);
}

// Every rank detects it, and one reports it first: no rank is blamed.
TEST(LocalFailureTest, RanksThatDifferBlameNobody) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  const EffectList requested =
      fixture.Says(2, protocol::LocalFailure{.step = 7,
                                             .code = absl::StatusCode::kAborted,
                                             .message = "ranks differ in x"});
  const MessageMatcher ended = EpochEndedForGood(
      1, AllOf(StartsWith("ranks differ in x"), HasSubstr("w-2"),
               Not(HasSubstr("failed at"))));
  EXPECT_THAT(requested, Includes(Sends(1, ended), Sends(2, ended)));
  EXPECT_TRUE(fixture.View().cause.workers.empty());
}

// --- Leaving ----------------------------------------------------------------

TEST(LeaveTest, WithoutFinishingEndsTheEpochWithTheReason) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(
      fixture.Says(1,
                   protocol::Leave{.clean = false, .reason = "an exception"}),
      EffectsAre(
          Sends(1, Left()), Closes(1, StatusCode::kOk),
          Persists(6, EpochFinished(1)),
          Persists(7, JobEnded(record::JobOutcome::kFailed)),
          Sends(2, EpochEndedForGood(
                       1,
                       "w-1 (rank 0, host a, pid 101) left without finishing: "
                       "an exception, at step 0 between steps"))));
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLeft);
}

TEST(LeaveTest, InOrderAndAMomentBeforeTheOthersEndsNothing) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(2, Stands(19, Phase::kVerdict));
  fixture.Says(1, protocol::Leave{.steps = 20});
  fixture.Says(3, Stands(19, Phase::kVerdict));
  fixture.Says(2, Stands(20, Phase::kIdle));
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  fixture.Says(2, protocol::Leave{.steps = 20});
  fixture.Closes(1);
  fixture.Closes(2);
  fixture.Says(3, protocol::Leave{.steps = 20});
  EXPECT_EQ(fixture.View().state, JobState::kCompleted);
}

TEST(LeaveTest, WhoStaysMaySaveAndTestAsLongAsItLives) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{.steps = 20});
  fixture.Says(2, Stands(20, Phase::kIdle));
  EXPECT_THAT(fixture.WaitWithHeartbeats(300, {2}), NoEffects());
  EXPECT_EQ(fixture.Stalls().size(), 1u) << "but it is shown";
  fixture.Says(2, protocol::Leave{.steps = 20});
  EXPECT_EQ(fixture.View().state, JobState::kCompleted);
}

TEST(LeaveTest, WhoGoesOnWithoutTheLeaverEndsTheEpoch) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{.steps = 20});
  EXPECT_THAT(fixture.Says(2, Stands(20, Phase::kCompute)), NoEffects());
  EXPECT_THAT(
      fixture.Says(2, Stands(20, Phase::kTransfer)),
      FailsJob(3,
               StartsWith(
                   "w-1 (rank 0, host a, pid 101) left after 20 steps, but w-2 "
                   "goes on: it is at step 20 while waiting for transfers")));
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLeft);
}

TEST(LeaveTest, WhoLeavesInTheMiddleEndsTheEpochAtOnce) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(2, Stands(20, Phase::kTransfer));
  EXPECT_THAT(fixture.Says(1, protocol::Leave{.steps = 20}),
              FailsJob(2, StartsWith("w-1")));
}

TEST(LeaveTest, WhoComputesAStepThatCannotEndIsNotWaitedForForEver) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{.steps = 20});
  fixture.Says(2, Stands(20, Phase::kCompute));
  EXPECT_THAT(fixture.WaitWithHeartbeats(29, {2}), NoEffects());
  EXPECT_THAT(
      fixture.WaitWithHeartbeats(2, {2}),
      FailsJob(2,
               HasSubstr("w-1 (rank 0, host a, pid 101) left after 20 steps")));
}

TEST(LeaveTest, BeforeAnybodyRegisteredIsNoHarm) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.Says(1, protocol::Leave{});
  EXPECT_EQ(fixture.View().state, JobState::kSealed);
  fixture.Says(2, protocol::Leave{});
  EXPECT_EQ(fixture.View().state, JobState::kCompleted);
}

TEST(LeaveTest, WhoRegistersWithOneThatLeftEndsTheEpoch) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.Says(1, protocol::Leave{});
  EXPECT_THAT(fixture.Register(2, {ParameterNamed("a")}),
              FailsJob(2, StartsWith("w-1 (rank 0, host a, pid 101) left "
                                     "after 0 steps, but w-2 goes on")));
}

TEST(LeaveTest, IsAnsweredAgainOnAnotherStream) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{.steps = 3});
  EXPECT_THAT(fixture.Resume(5, 1),
              EffectsAre(Sends(5, WelcomeBack(1)), Sends(5, Left()),
                         Closes(5, StatusCode::kOk)));
  fixture.Says(2, protocol::Leave{.steps = 3});
  EXPECT_THAT(fixture.Resume(6, 2),
              EffectsAre(Sends(6, WelcomeBack(1)), Sends(6, Left()),
                         Closes(6, StatusCode::kOk)))
      << "also when the job is over";
}

TEST(LeaveTest, ADeathAfterALeaveIsADeath) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{.steps = 3});
  fixture.Step(ReportEvidence{
      {1}, fixture.job(), "", CoordinatorFixture::DeathOf(2, "signal 9")});
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kProcessDied);
}

// --- Operators --------------------------------------------------------------

TEST(StopTest, EndsTheEpochForAllWithTheReason) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  EXPECT_THAT(
      fixture.Step(StopJob{{5}, fixture.job(), "", "maintenance"}),
      EffectsAre(
          Persists(6, EpochFinished(1)),
          Persists(7, JobEnded(record::JobOutcome::kStopped)),
          Sends(1, EpochEndedForGood(1, "stopped by an operator: maintenance")),
          Sends(2, EpochEndedForGood(1, "stopped by an operator: maintenance")),
          Answers(5, StatusCode::kOk)));
  EXPECT_EQ(fixture.View().state, JobState::kStopped);
  EXPECT_THAT(fixture.Step(StopJob{{6}, fixture.job(), "", ""}),
              EffectsAre(Answers(6, StatusCode::kFailedPrecondition,
                                 StartsWith("job digits is over"))));
}

TEST(StopTest, ReachesThoseThatStillWait) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  EXPECT_THAT(
      fixture.Step(StopJob{{5}, fixture.job(), "", ""}),
      EffectsAre(Persists(3, JobEnded(record::JobOutcome::kStopped)),
                 Sends(1, EpochEndedForGood(0, "stopped by an operator")),
                 Answers(5, StatusCode::kOk)));
}

TEST(ShutdownTest, ClosesEveryStreamAndEndsNoJob) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(
      fixture.Step(ShuttingDown{}),
      EffectsAre(
          Closes(1, StatusCode::kUnavailable, "coordinator is shutting down"),
          Closes(2, StatusCode::kUnavailable, "coordinator is shutting down")));
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_EQ(fixture.core().NextWake(), absl::InfiniteFuture());
  EXPECT_THAT(fixture.Closes(1), NoEffects());
  EXPECT_THAT(fixture.Hello(7),
              EffectsAre(Closes(7, StatusCode::kUnavailable,
                                "coordinator is shutting down")));
  EXPECT_THAT(fixture.Step(CreateJob{{1}, SpecOf(1, "other"), ""}),
              EffectsAre(Answers(1, StatusCode::kUnavailable,
                                 "coordinator is shutting down")));
}

}  // namespace
}  // namespace lockstep::core
