// Incarnations of a worker: resumed, replaced, fenced.

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"

namespace lockstep::core {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(IdentityTest, ABrokenStreamResumesAsIfNothingHadBeen) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_EQ(fixture.Closes(1), "");
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kSuspect);
  fixture.Wait(0.9);
  EXPECT_EQ(fixture.Resume(5, 1),
            "5 <- welcome back, generation 1\n"
            "5 <- formed 1: rank 0 of w-1 w-2\n"
            "5 <- plan ready\n"
            "5 <- handles of 0: h0 h1\n"
            "5 <- handles of 1: h0 h1\n"
            "5 <- start");
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kReady);
  EXPECT_EQ(fixture.WaitWithHeartbeats(20, {2, 5}), "");
}

TEST(IdentityTest, AWorkerMayResumeBeforeItsOldStreamIsKnownToBeBroken) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.Resume(5, 1),
              AllOf(HasSubstr("close 1: ABORTED"), HasSubstr("5 <- start")));
  EXPECT_EQ(fixture.Closes(1), "") << "the old stream's end is old news";
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kReady);
}

TEST(IdentityTest, WhatIsSaidOnAnOldStreamIsIgnored) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Resume(5, 1);
  EXPECT_EQ(fixture.Says(1, protocol::Leave{.clean = false}), "");
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
}

TEST(IdentityTest, AStreamThatDoesNotResumeInTimeEndsTheEpoch) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Closes(1, "connection reset");
  EXPECT_THAT(fixture.Wait(1),
              AllOf(HasSubstr("2 <- ended 1 for good: w-1 (rank 0, host a, pid "
                              "101) lost its stream (connection reset) and did "
                              "not resume within 1s, last heard at step 0 "),
                    Not(HasSubstr("1 <-"))));
  EXPECT_EQ(fixture.View().cause.kind, protocol::CauseKind::kStreamLost);
}

TEST(IdentityTest, ALateResumerIsToldHowTheEpochEnded) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Closes(1);
  fixture.Wait(1);
  const std::string said = fixture.Resume(5, 1);
  EXPECT_THAT(said, HasSubstr("5 <- welcome back, generation 1\n"
                              "5 <- ended 1: w-1 (rank 0"));
  EXPECT_EQ(fixture.View().missing, 2) << "it has not come again yet";

  protocol::Hello again = fixture.HelloOf(1);
  again.generation = {1};
  EXPECT_EQ(fixture.Hello(5, again), "5 <- welcome back, generation 1");
  EXPECT_EQ(fixture.View().missing, 1) << "now it has";
}

TEST(IdentityTest, ANewLifeTakesThePlaceOfASuspectMemberAndEndsTheEpoch) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Closes(1, "reset");
  protocol::Hello hello = fixture.HelloOf(1);
  hello.incarnation = 99;
  hello.process.pid = 500;
  EXPECT_EQ(
      fixture.Hello(5, hello),
      "persist 6: epoch 1 ends\n"
      "2 <- ended 1: w-1 (rank 0, host a, pid 101) lost its stream "
      "(reset), and a new incarnation of it (host a, pid 500) took its place, "
      "at step 0 between steps\n"
      "persist 7: w-1 is generation 2\n"
      "5 <- welcome, generation 2");
  EXPECT_EQ(fixture.View().cause.kind, protocol::CauseKind::kReplaced);
}

TEST(IdentityTest, AFormerLifeIsFenced) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.Hello(1);
  fixture.Closes(1);
  protocol::Hello hello = fixture.HelloOf(1);
  hello.incarnation = 99;
  fixture.Hello(5, hello);
  fixture.Pass(3);
  EXPECT_THAT(fixture.Resume(6, 1, /*generation=*/1),
              HasSubstr("refused FAILED_PRECONDITION: generation 1 of w-1 is "
                        "over: generation 2 (host a, pid 101, since 3s) took "
                        "the name"));
  EXPECT_THAT(fixture.Resume(7, 1, /*generation=*/9),
              HasSubstr("close 7: FAILED_PRECONDITION: generation 9 of w-1 was "
                        "never assigned here; the newest is 2"));
}

// Claims of a process that may connect to the coordinator, but does not own the
// name.
TEST(IdentityTest, AGuessedGenerationTakesNothingOver) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  const protocol::ResumeState resume{.epoch = fixture.epoch(), .started = true};
  protocol::Hello another_life = fixture.HelloOf(1);  // with the right secret
  another_life.incarnation = 4711;
  protocol::Hello another_secret = fixture.HelloOf(1);
  another_secret.secret = std::string(64, '0');
  uint64_t session = 5;
  for (protocol::Hello hello : {another_life, another_secret}) {
    hello.generation = {1};
    hello.resume = resume;
    const std::string said = fixture.Hello(session, hello);
    EXPECT_EQ(said, absl::StrCat("close ", session,
                                 ": PERMISSION_DENIED: generation 1 of w-1 was "
                                 "given to another incarnation, or with "
                                 "another secret"));
    EXPECT_EQ(fixture.Says(session, protocol::Leave{}), "");
    ++session;
  }
  protocol::Hello no_life = fixture.HelloOf(1);
  for (const uint64_t generation : {0, 1}) {
    no_life.incarnation = 0;
    no_life.generation = {generation};
    EXPECT_THAT(fixture.Hello(session, no_life),
                HasSubstr("refused INVALID_ARGUMENT: w-1 says Hello with "
                          "incarnation 0"));
    ++session;
  }
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kReady);
  EXPECT_EQ(fixture.WaitWithHeartbeats(15, {1, 2}), "")
      << "nothing has changed";
}

// Nor after the end, where it would close the worker's stream.
TEST(IdentityTest, AGuessedGenerationIsNotToldHowTheJobEnded) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "Submit"});
  ASSERT_EQ(fixture.View().state, JobState::kFailed);
  protocol::Hello guess = fixture.HelloOf(2);
  guess.generation = {1};
  guess.secret = "guess";
  guess.resume = protocol::ResumeState{.epoch = fixture.epoch()};
  EXPECT_THAT(fixture.Hello(5, guess),
              AllOf(HasSubstr("close 5: PERMISSION_DENIED"),
                    Not(HasSubstr("close 2"))));
}

TEST(IdentityTest, EachAnswerToAHelloWithoutAGenerationHasAnotherSecret) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  const std::string lost = fixture.SecretOf(1);
  EXPECT_EQ(lost.size(), 64u);
  EXPECT_EQ(fixture.Hello(5, fixture.HelloOf(1)),
            "persist 3: w-1 is generation 1\n"
            "close 1: ABORTED: w-1 speaks on another stream now\n"
            "5 <- welcome back, generation 1");
  EXPECT_NE(fixture.SecretOf(1), lost);
  protocol::Hello stale = fixture.HelloOf(1);
  stale.generation = {1};
  stale.secret = lost;
  EXPECT_THAT(fixture.Hello(6, stale), HasSubstr("close 6: PERMISSION_DENIED"));
  EXPECT_EQ(fixture.Resume(7, 1),
            "close 5: ABORTED: w-1 speaks on another stream now\n"
            "7 <- welcome back, generation 1");
  EXPECT_EQ(fixture.SecretOf(1).size(), 64u) << "the former one holds";
}

TEST(IdentityTest, AResumeIsAuthenticatedAfterARestartToo) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Restart();
  protocol::Hello guess = fixture.HelloOf(1);
  guess.generation = {1};
  guess.secret = "guess";
  guess.resume = protocol::ResumeState{.epoch = fixture.epoch()};
  EXPECT_THAT(fixture.Hello(5, guess), HasSubstr("close 5: PERMISSION_DENIED"));
  EXPECT_THAT(fixture.Resume(6, 1),
              HasSubstr("6 <- welcome back, generation 1"));
}

TEST(IdentityTest, SecretsDifferFromWorkerToWorkerAndFromSeedToSeed) {
  std::set<std::string> drawn;
  for (const char* seed : {"", "a", "b"}) {
    SecretSource source(seed);
    for (int i = 0; i < 100; ++i) {
      const std::string secret = source.Draw();
      EXPECT_EQ(secret.size(), 64u);
      EXPECT_TRUE(drawn.insert(secret).second);
    }
  }
  EXPECT_TRUE(SecretOpens("s", Sha256("s")));
  EXPECT_FALSE(SecretOpens("", ""));
  EXPECT_FALSE(SecretOpens("s", ""));
}

TEST(IdentityTest, WhoWasReportedDeadCannotResume) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(2, CoordinatorFixture::DeathOf(1, "signal 9"));
  EXPECT_THAT(fixture.Resume(5, 1),
              HasSubstr("generation 1 of w-1 is over: it was reported dead "
                        "(signal 9)"));
}

TEST(IdentityTest, ASurvivorComesAgainAsANewLifeOfTheSameProcess) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "Submit"});
  protocol::Hello again = fixture.HelloOf(1);
  again.incarnation = 99;
  EXPECT_THAT(fixture.Hello(5, again),
              AllOf(HasSubstr("close 1: ABORTED"),
                    HasSubstr("5 <- welcome, generation 2")));

  protocol::Hello stranger = fixture.HelloOf(2);
  stranger.incarnation = 98;
  stranger.process.pid = 7777;
  EXPECT_THAT(fixture.Hello(6, stranger), HasSubstr("refused ALREADY_EXISTS"))
      << "w-2 lives and may still come again";
}

TEST(IdentityTest, ASurvivorMayComeAgainOnItsOldStream) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "Submit"});
  protocol::Hello again = fixture.HelloOf(1);
  again.incarnation = 99;
  EXPECT_EQ(fixture.Hello(1, again),
            "persist 7: w-1 is generation 2\n1 <- welcome, generation 2");
  protocol::Hello other = fixture.HelloOf(2);
  other.generation = {1};
  EXPECT_EQ(fixture.Hello(2, other),
            "2 <- welcome back, generation 1\n"
            "persist 8: epoch 2 begins: w-1 w-2\n"
            "1 <- formed 2: rank 0 of w-1 w-2\n"
            "2 <- formed 2: rank 1 of w-1 w-2");
}

TEST(IdentityTest, SurvivorsKeepTheirRanksAndAReplacementFillsTheHole) {
  CoordinatorFixture fixture(RestartingSpec(3));
  fixture.RunAll();
  fixture.Says(1, CoordinatorFixture::DeathOf(2, "signal 9"));
  for (int i : {3, 1}) {
    protocol::Hello again = fixture.HelloOf(i);
    again.generation = {1};
    fixture.Hello(i, again);
  }
  EXPECT_THAT(fixture.Hello(9, fixture.HelloOf(0)),
              HasSubstr("epoch 2 begins: w-1 w-0 w-3"));
}

}  // namespace
}  // namespace lockstep::core
