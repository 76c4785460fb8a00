// Joining: which workers are admitted, the ranks they get, and the state of a
// job that is incomplete.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(FormingTest, ForgetsTheDeadlineWhenNobodyIsThere) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Wait(40);
  fixture.Says(1, protocol::Leave{});
  EXPECT_EQ(fixture.core().NextWake(), absl::InfiniteFuture());
  fixture.Hello(2);
  EXPECT_THAT(fixture.WaitWithHeartbeats(59, {2}), NoEffects())
      << "its own 60 s count";
}

TEST(FormingTest, RanksFollowNaturalOrderWhateverTheOrderOfArrival) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.Hello(10);
  fixture.Hello(2);
  EXPECT_THAT(fixture.Hello(1),
              Includes(Persists(EpochBegan(1, {"w-1", "w-2", "w-10"}))));
}

TEST(FormingTest, TheDeadlineCountsFromTheFirstArrivalAndNamesEveryMissing) {
  CoordinatorFixture fixture(SpecOf(4));
  fixture.Hello(1);
  fixture.WaitWithHeartbeats(30, {1});
  fixture.Hello(4);
  EXPECT_THAT(fixture.WaitWithHeartbeats(29, {1, 4}), NoEffects());
  const EffectList requested = fixture.WaitWithHeartbeats(1, {1, 4});
  const std::string why =
      "job digits did not form within 1m: 2 of 4 workers are missing: w-2, w-3";
  const StatusCode code = StatusCode::kDeadlineExceeded;
  EXPECT_THAT(requested,
              EffectsAre(Persists(4, JobEnded(record::JobOutcome::kFailed)),
                         Sends(1, Refused(code, why)), Closes(1, code, why),
                         Sends(4, Refused(code, why)), Closes(4, code, why)));
  EXPECT_EQ(fixture.View().state, JobState::kFailed);
  EXPECT_EQ(fixture.View().cause.kind, protocol::CauseKind::kJoinDeadline);
}

TEST(FormingTest, AWorkerWhoseStreamBreaksIsWaitedForAndThenForgotten) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Closes(1);
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kSuspect);
  EXPECT_THAT(fixture.Hello(2),
              EffectsAre(Persists(3, GenerationAssigned("w-2", 1)),
                         Sends(2, Welcome(1))))
      << "an epoch must not begin with a worker that may be dead";
  EXPECT_THAT(fixture.Resume(3, 1),
              Includes(Persists(EpochBegan(1, {"w-1", "w-2"}))));

  CoordinatorFixture other(SpecOf(2));
  other.Hello(1);
  other.Closes(1);
  other.Wait(1);
  EXPECT_EQ(other.ViewOf(1).state, WorkerState::kLost);
  EXPECT_EQ(other.View().missing, 2);
}

// Otherwise the worker would wait for ever for an epoch without it.
TEST(FormingTest, WhoFellSilentIsSentAwayToComeAgain) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  EXPECT_THAT(
      fixture.Wait(11),
      Includes(Closes(1, StatusCode::kUnavailable,
                      StartsWith("w-1 (host a, pid 101) fell silent"))));
  fixture.Closes(1);
  EXPECT_THAT(fixture.Resume(5, 1), EffectsAre(Sends(5, WelcomeBack(1))));
  EXPECT_THAT(fixture.Hello(2),
              Includes(Persists(EpochBegan(1, {"w-1", "w-2"}))));
}

TEST(FormingTest, AHelloWhoseWelcomeWasLostIsTheSameLifeAgain) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Closes(1);
  EXPECT_THAT(fixture.Hello(3, fixture.HelloOf(1)),
              EffectsAre(Persists(3, GenerationAssigned("w-1", 1)),
                         Sends(3, WelcomeBack(1))))
      << "with another secret";
  EXPECT_EQ(fixture.View().missing, 1);
}

TEST(FormingTest, AHelloWithoutSpecJoinsWhatAnOperatorCreated) {
  CoordinatorFixture fixture(SpecOf(1));
  EXPECT_THAT(fixture.Step(CreateJob{{7}, fixture.spec(), ""}),
              EffectsAre(Persists(1, JobCreated("digits")),
                         Answers(7, StatusCode::kOk)));
  protocol::Hello hello = fixture.HelloOf(1);
  hello.spec.reset();
  EXPECT_THAT(fixture.Hello(1, hello),
              Includes(Sends(1, EpochFormed(1, 0, {"w-1"}))));
}

// --- Bad input --------------------------------------------------------------

TEST(BadHelloTest, AnotherProtocolVersionIsRefusedWithBoth) {
  CoordinatorFixture fixture;
  protocol::Hello hello = fixture.HelloOf(1);
  hello.version = 7;
  EXPECT_THAT(fixture.Hello(1, hello),
              Refuses(1, StatusCode::kFailedPrecondition,
                      AllOf(HasSubstr("version 7"), HasSubstr("version 1"))));
  EXPECT_TRUE(fixture.core().Jobs().empty()) << "and creates nothing";
}

TEST(BadHelloTest, AnUnknownJobWithoutASpecIsNotFound) {
  CoordinatorFixture fixture;
  protocol::Hello hello = fixture.HelloOf(1);
  hello.spec.reset();
  EXPECT_THAT(fixture.Hello(1, hello),
              Refuses(1, StatusCode::kNotFound,
                      StartsWith("there is no job digits here")));
}

TEST(BadHelloTest, AnotherSpecIsRefusedWithEveryDifferingField) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  protocol::Hello hello = fixture.HelloOf(2);
  hello.spec->transport = "shm";
  hello.spec->limits.max_restarts = 3;
  EXPECT_THAT(
      fixture.Hello(2, hello),
      Refuses(
          2, StatusCode::kInvalidArgument,
          AllOf(HasSubstr("transport: auto in the job, shm from w-2"),
                HasSubstr("limits.max_restarts: 0 in the job, 3 from w-2"))));
}

TEST(BadHelloTest, ASpecThatIsInvalidCreatesNothing) {
  JobSpec spec = SpecOf(2);
  spec.mesh.axes[0].size = 0;
  CoordinatorFixture fixture(spec);
  EXPECT_THAT(fixture.Hello(1), Refuses(1, StatusCode::kInvalidArgument));
  EXPECT_TRUE(fixture.core().Jobs().empty());
}

TEST(BadHelloTest, ASpecOfAnotherJobIsRefused) {
  CoordinatorFixture fixture;
  protocol::Hello hello = fixture.HelloOf(1);
  hello.spec->name = "letters";
  EXPECT_THAT(
      fixture.Hello(1, hello),
      Refuses(1, StatusCode::kInvalidArgument,
              HasSubstr("joins job digits with the spec of job letters")));
}

TEST(BadHelloTest, ANameOutsideTheListIsRefusedWithTheList) {
  JobSpec spec = SpecOf(2);
  spec.workers = {"w-1", "w-2"};
  CoordinatorFixture fixture(spec);
  fixture.Hello(1);
  EXPECT_THAT(
      fixture.Hello(3),
      Refuses(3, StatusCode::kInvalidArgument,
              HasSubstr(
                  "w-3 is not one of the workers of job digits: w-1 and w-2")));
}

TEST(BadHelloTest, AFullJobIsRefusedWithItsHolders) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  EXPECT_THAT(fixture.Hello(3),
              Refuses(3, StatusCode::kFailedPrecondition,
                      AllOf(HasSubstr("no free rank for w-3"),
                            HasSubstr("2 of 2 are held, by w-1 and w-2"))));
}

TEST(BadHelloTest, AFullJobSaysForWhomARankIsKeptAndHowLong) {
  JobSpec spec = SpecOf(2);
  spec.timeouts.resume = absl::Seconds(5);
  CoordinatorFixture fixture(spec);
  fixture.JoinAll();
  fixture.Closes(2);
  fixture.Pass(2);
  EXPECT_THAT(fixture.Hello(3),
              Refuses(3, StatusCode::kFailedPrecondition,
                      AllOf(HasSubstr("2 of 2 are held, by w-1 and w-2"),
                            HasSubstr("a rank is kept for w-2, whose stream "
                                      "broke 2s ago, for 3s more"))));
}

TEST(BadHelloTest, ATakenNameIsRefusedWithItsHolder) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Pass(5);
  protocol::Hello hello = fixture.HelloOf(1);
  hello.incarnation = 77;
  hello.process = {.host = "b", .pid = 5};
  EXPECT_THAT(fixture.Hello(9, hello),
              Refuses(9, StatusCode::kAlreadyExists,
                      StartsWith("the name w-1 is held by generation "
                                 "1 (host a, pid 101, since 5s)")));
  EXPECT_EQ(fixture.View().missing, 1) << "the holder is not disturbed";
}

TEST(BadHelloTest, AWrongTokenIsDeniedAndSeesNothing) {
  CoordinatorFixture fixture(SpecOf(2));
  protocol::Hello hello = fixture.HelloOf(1);
  hello.token = "secret";
  fixture.Hello(1, hello);
  EXPECT_THAT(fixture.Hello(2), Refuses(2, StatusCode::kPermissionDenied));
  EXPECT_EQ(fixture.core().Authorize(fixture.job(), "secret"),
            absl::OkStatus());
  EXPECT_TRUE(absl::IsPermissionDenied(
      fixture.core().Authorize(fixture.job(), "guess")));
  EXPECT_TRUE(
      absl::IsNotFound(fixture.core().Authorize({"letters"}, "secret")));
  EXPECT_EQ(fixture.durable_job().token_hash.find("secret"), std::string::npos);
}

TEST(BadHelloTest, ANameThatIsNoNameIsRefused) {
  CoordinatorFixture fixture(SpecOf(2));
  for (const std::string& name :
       {std::string(), std::string("a\nb"), std::string(254, 'x')}) {
    protocol::Hello hello = fixture.HelloOf(1);
    hello.worker = {name};
    EXPECT_THAT(fixture.Hello(1, hello),
                Refuses(1, StatusCode::kInvalidArgument,
                        HasSubstr("is no worker name")));
    fixture.Closes(1);
  }
  EXPECT_TRUE(fixture.core().Jobs().empty()) << "and creates nothing";
}

TEST(BadHelloTest, AWorkerThatItsOwnSpecDoesNotListCreatesNoJob) {
  JobSpec spec = SpecOf(2);
  spec.workers = {"a", "b"};
  CoordinatorFixture fixture(spec);
  EXPECT_THAT(fixture.Hello(1),
              Refuses(1, StatusCode::kInvalidArgument,
                      HasSubstr("w-1 is not one of the workers")));
  EXPECT_TRUE(fixture.core().Jobs().empty());
}

TEST(BadHelloTest, AJobThatIsOverIsRefusedWithItsEnd) {
  CoordinatorFixture fixture(SpecOf(1));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{});
  EXPECT_THAT(fixture.Hello(2),
              Refuses(2, StatusCode::kFailedPrecondition,
                      StartsWith("job digits is over: it completed")));
}

TEST(CreateJobTest, TheSameAgainIsHarmlessAndAnotherSpecIsRefused) {
  CoordinatorFixture fixture(SpecOf(2));
  EXPECT_THAT(fixture.Step(CreateJob{{1}, fixture.spec(), "secret"}),
              EffectsEndWith(Answers(1, StatusCode::kOk)));
  const size_t records = fixture.records().size();
  EXPECT_THAT(fixture.Step(CreateJob{{2}, fixture.spec(), "secret"}),
              EffectsAre(Answers(2, StatusCode::kOk)));
  EXPECT_THAT(fixture.Step(CreateJob{{3}, fixture.spec(), "guess"}),
              EffectsAre(Answers(3, StatusCode::kPermissionDenied)));
  JobSpec other = fixture.spec();
  other.seed += 1;
  EXPECT_THAT(
      fixture.Step(CreateJob{{4}, other, "secret"}),
      EffectsAre(Answers(4, StatusCode::kAlreadyExists, HasSubstr("seed"))));
  EXPECT_EQ(fixture.records().size(), records) << "nothing was recorded";
}

TEST(BadHelloTest, TheFirstMessageOfAStreamIsHello) {
  CoordinatorFixture fixture;
  EXPECT_THAT(fixture.Says(1, protocol::Heartbeat{}),
              Includes(Sends(
                  1, Refused(StatusCode::kInvalidArgument,
                             StartsWith("the first message was no Hello")))));
  EXPECT_THAT(fixture.Says(1, protocol::Heartbeat{}), NoEffects())
      << "what follows on a closed stream is ignored";
}

TEST(BadHelloTest, AStreamSpeaksForOneWorkerOfOneJob) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  EXPECT_THAT(fixture.Hello(1, fixture.HelloOf(2)),
              Refuses(1, StatusCode::kInvalidArgument));
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kSuspect);
  EXPECT_EQ(fixture.ViewOf(2).state, WorkerState::kJoining);
  const EffectList requested = fixture.Step(
      MessageReceived{{2}, {{"letters"}, {1}, {1}, protocol::Heartbeat{}}});
  EXPECT_THAT(
      requested,
      Includes(Sends(2, Refused(StatusCode::kInvalidArgument,
                                StartsWith("a message for job letters")))));
  EXPECT_THAT(fixture.View().events.back().text,
              AllOf(HasSubstr("w-2"), HasSubstr("lost its stream"),
                    HasSubstr("refused: a message for job letters")));
}

TEST(BadHelloTest, AResumingWorkerOfAnUnknownJobIsSentAwayButNotForGood) {
  CoordinatorFixture fixture;
  protocol::Hello hello = fixture.HelloOf(1);
  hello.generation = {3};
  EXPECT_THAT(fixture.Hello(1, hello),
              EffectsAre(Closes(1, StatusCode::kUnavailable,
                                "there is no job digits here that generation 3 "
                                "of w-1 could be part of")));
}

}  // namespace
}  // namespace lockstep::core
