// Joining: which workers are admitted, the ranks they get, and the state of a
// job that is incomplete.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"

namespace lockstep::core {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(FormingTest, ForgetsTheDeadlineWhenNobodyIsThere) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Wait(40);
  fixture.Says(1, protocol::Leave{});
  EXPECT_EQ(fixture.core().NextWake(), absl::InfiniteFuture());
  fixture.Hello(2);
  EXPECT_EQ(fixture.WaitWithHeartbeats(59, {2}), "") << "its own 60 s count";
}

TEST(FormingTest, RanksFollowNaturalOrderWhateverTheOrderOfArrival) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.Hello(10);
  fixture.Hello(2);
  EXPECT_THAT(fixture.Hello(1), HasSubstr("epoch 1 begins: w-1 w-2 w-10"));
}

TEST(FormingTest, TheDeadlineCountsFromTheFirstArrivalAndNamesEveryMissing) {
  CoordinatorFixture fixture(SpecOf(4));
  fixture.Hello(1);
  fixture.WaitWithHeartbeats(30, {1});
  fixture.Hello(4);
  EXPECT_EQ(fixture.WaitWithHeartbeats(29, {1, 4}), "");
  const std::string said = fixture.WaitWithHeartbeats(1, {1, 4});
  const std::string why =
      "DEADLINE_EXCEEDED: job digits did not form within 1m: 2 of 4 workers "
      "are missing: w-2, w-3";
  EXPECT_EQ(said, absl::StrCat("persist 4: job failed\n1 <- refused ", why,
                               "\nclose 1: ", why, "\n4 <- refused ", why,
                               "\nclose 4: ", why));
  EXPECT_EQ(fixture.View().state, JobState::kFailed);
  EXPECT_EQ(fixture.View().cause.kind, protocol::CauseKind::kJoinDeadline);
}

TEST(FormingTest, AWorkerWhoseStreamBreaksIsWaitedForAndThenForgotten) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Closes(1);
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kSuspect);
  EXPECT_EQ(fixture.Hello(2),
            "persist 3: w-2 is generation 1\n2 <- welcome, generation 1")
      << "an epoch must not begin with a worker that may be dead";
  EXPECT_THAT(fixture.Resume(3, 1), HasSubstr("epoch 1 begins: w-1 w-2"));

  CoordinatorFixture other(SpecOf(2));
  other.Hello(1);
  other.Closes(1);
  other.Wait(1);
  EXPECT_EQ(other.ViewOf(1).state, WorkerState::kLost);
  EXPECT_EQ(other.View().missing, 2);
}

// It would otherwise wait for ever for an epoch without it.
TEST(FormingTest, WhoFellSilentIsSentAwayToComeAgain) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  EXPECT_THAT(fixture.Wait(11), HasSubstr("close 1: UNAVAILABLE: w-1 (host a, "
                                          "pid 101) fell silent"));
  fixture.Closes(1);
  EXPECT_EQ(fixture.Resume(5, 1), "5 <- welcome back, generation 1");
  EXPECT_THAT(fixture.Hello(2), HasSubstr("epoch 1 begins: w-1 w-2"));
}

TEST(FormingTest, AHelloWhoseWelcomeWasLostIsTheSameLifeAgain) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Closes(1);
  EXPECT_EQ(fixture.Hello(3, fixture.HelloOf(1)),
            "persist 3: w-1 is generation 1\n"
            "3 <- welcome back, generation 1")
      << "with another secret";
  EXPECT_EQ(fixture.View().missing, 1);
}

TEST(FormingTest, AHelloWithoutSpecJoinsWhatAnOperatorCreated) {
  CoordinatorFixture fixture(SpecOf(1));
  EXPECT_EQ(fixture.Step(CreateJob{{7}, fixture.spec(), ""}),
            "persist 1: job digits is created\nanswer 7: OK");
  protocol::Hello hello = fixture.HelloOf(1);
  hello.spec.reset();
  EXPECT_THAT(fixture.Hello(1, hello), HasSubstr("formed 1: rank 0 of w-1"));
}

// --- Bad input --------------------------------------------------------------

TEST(BadHelloTest, AnotherProtocolVersionIsRefusedWithBoth) {
  CoordinatorFixture fixture;
  protocol::Hello hello = fixture.HelloOf(1);
  hello.version = 7;
  EXPECT_THAT(
      fixture.Hello(1, hello),
      AllOf(HasSubstr("refused FAILED_PRECONDITION"), HasSubstr("version 7"),
            HasSubstr("version 1"), HasSubstr("close 1: FAILED_PRECONDITION")));
  EXPECT_TRUE(fixture.core().Jobs().empty()) << "and creates nothing";
}

TEST(BadHelloTest, AnUnknownJobWithoutASpecIsNotFound) {
  CoordinatorFixture fixture;
  protocol::Hello hello = fixture.HelloOf(1);
  hello.spec.reset();
  EXPECT_THAT(fixture.Hello(1, hello),
              HasSubstr("refused NOT_FOUND: there is no "
                        "job digits here"));
}

TEST(BadHelloTest, AnotherSpecIsRefusedWithEveryDifferingField) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  protocol::Hello hello = fixture.HelloOf(2);
  hello.spec->transport = "shm";
  hello.spec->limits.max_restarts = 3;
  EXPECT_THAT(
      fixture.Hello(2, hello),
      AllOf(HasSubstr("refused INVALID_ARGUMENT"),
            HasSubstr("transport: auto in the job, shm from w-2"),
            HasSubstr("limits.max_restarts: 0 in the job, 3 from w-2")));
}

TEST(BadHelloTest, ASpecThatIsInvalidCreatesNothing) {
  JobSpec spec = SpecOf(2);
  spec.mesh.axes[0].size = 0;
  CoordinatorFixture fixture(spec);
  EXPECT_THAT(fixture.Hello(1), HasSubstr("refused INVALID_ARGUMENT"));
  EXPECT_TRUE(fixture.core().Jobs().empty());
}

TEST(BadHelloTest, ASpecOfAnotherJobIsRefused) {
  CoordinatorFixture fixture;
  protocol::Hello hello = fixture.HelloOf(1);
  hello.spec->name = "letters";
  EXPECT_THAT(fixture.Hello(1, hello),
              HasSubstr("joins job digits with the spec of job letters"));
}

TEST(BadHelloTest, ANameOutsideTheListIsRefusedWithTheList) {
  JobSpec spec = SpecOf(2);
  spec.workers = {"w-1", "w-2"};
  CoordinatorFixture fixture(spec);
  fixture.Hello(1);
  EXPECT_THAT(fixture.Hello(3),
              AllOf(HasSubstr("refused INVALID_ARGUMENT"),
                    HasSubstr("w-3 is not one of the workers of job digits: "
                              "w-1 and w-2")));
}

TEST(BadHelloTest, AFullJobIsRefusedWithItsHolders) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  EXPECT_THAT(fixture.Hello(3),
              AllOf(HasSubstr("refused FAILED_PRECONDITION"),
                    HasSubstr("no free rank for w-3"),
                    HasSubstr("2 of 2 are held, by w-1 and w-2")));
}

TEST(BadHelloTest, ATakenNameIsRefusedWithItsHolder) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Pass(5);
  protocol::Hello hello = fixture.HelloOf(1);
  hello.incarnation = 77;
  hello.process = {.host = "b", .pid = 5};
  EXPECT_THAT(fixture.Hello(9, hello),
              AllOf(HasSubstr("refused ALREADY_EXISTS: the name w-1 is held by "
                              "generation 1 (host a, pid 101, since 5s)"),
                    HasSubstr("close 9: ALREADY_EXISTS")));
  EXPECT_EQ(fixture.View().missing, 1) << "the holder is not disturbed";
}

TEST(BadHelloTest, AWrongTokenIsDeniedAndSeesNothing) {
  CoordinatorFixture fixture(SpecOf(2));
  protocol::Hello hello = fixture.HelloOf(1);
  hello.token = "secret";
  fixture.Hello(1, hello);
  EXPECT_THAT(fixture.Hello(2), HasSubstr("refused PERMISSION_DENIED"));
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
    EXPECT_THAT(fixture.Hello(1, hello), HasSubstr("is no worker name"));
    fixture.Closes(1);
  }
}

TEST(BadHelloTest, AJobThatIsOverIsRefusedWithItsEnd) {
  CoordinatorFixture fixture(SpecOf(1));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{});
  EXPECT_THAT(fixture.Hello(2), HasSubstr("refused FAILED_PRECONDITION: job "
                                          "digits is over: it completed"));
}

TEST(CreateJobTest, TheSameAgainIsHarmlessAndAnotherSpecIsRefused) {
  CoordinatorFixture fixture(SpecOf(2));
  EXPECT_THAT(fixture.Step(CreateJob{{1}, fixture.spec(), "secret"}),
              HasSubstr("answer 1: OK"));
  const size_t records = fixture.records().size();
  EXPECT_THAT(fixture.Step(CreateJob{{2}, fixture.spec(), "secret"}),
              HasSubstr("answer 2: OK"));
  EXPECT_THAT(fixture.Step(CreateJob{{3}, fixture.spec(), "guess"}),
              HasSubstr("answer 3: PERMISSION_DENIED"));
  JobSpec other = fixture.spec();
  other.seed += 1;
  EXPECT_THAT(fixture.Step(CreateJob{{4}, other, "secret"}),
              AllOf(HasSubstr("answer 4: ALREADY_EXISTS"), HasSubstr("seed")));
  EXPECT_EQ(fixture.records().size(), records) << "nothing was recorded";
}

TEST(BadHelloTest, TheFirstMessageOfAStreamIsHello) {
  CoordinatorFixture fixture;
  EXPECT_THAT(fixture.Says(1, protocol::Heartbeat{}),
              HasSubstr("refused INVALID_ARGUMENT: the first message was no "
                        "Hello"));
  EXPECT_EQ(fixture.Says(1, protocol::Heartbeat{}), "")
      << "what follows on a closed stream is ignored";
}

TEST(BadHelloTest, AStreamSpeaksForOneWorkerOfOneJob) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  EXPECT_THAT(fixture.Hello(1, fixture.HelloOf(2)),
              HasSubstr("1 <- refused INVALID_ARGUMENT"));
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kSuspect);
  EXPECT_EQ(fixture.ViewOf(2).state, WorkerState::kJoining);
  const std::string said = fixture.Step(
      MessageReceived{{2}, {{"letters"}, {1}, {1}, protocol::Heartbeat{}}});
  EXPECT_THAT(said, HasSubstr("2 <- refused INVALID_ARGUMENT: a message for "
                              "job letters"));
}

TEST(BadHelloTest, AResumingWorkerOfAnUnknownJobIsSentAwayButNotForGood) {
  CoordinatorFixture fixture;
  protocol::Hello hello = fixture.HelloOf(1);
  hello.generation = {3};
  EXPECT_EQ(fixture.Hello(1, hello),
            "close 1: UNAVAILABLE: there is no job digits here that generation "
            "3 of w-1 could be part of");
}

}  // namespace
}  // namespace lockstep::core
