// Incarnations of a worker: resumed, replaced, fenced.

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::Not;
using testing::StartsWith;

TEST(IdentityTest, ABrokenStreamResumesAsIfNothingHadBeen) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.Closes(1), NoEffects());
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kSuspect);
  fixture.Wait(0.9);
  EXPECT_THAT(
      fixture.Resume(5, 1),
      EffectsAre(Sends(5, WelcomeBack(1)),
                 Sends(5, EpochFormed(1, 0, {"w-1", "w-2"})),
                 Sends(5, PlanReady()), Sends(5, GroupHandles(0, {"h0", "h1"})),
                 Sends(5, GroupHandles(1, {"h0", "h1"})), Sends(5, Start())));
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kReady);
  EXPECT_THAT(fixture.WaitWithHeartbeats(20, {2, 5}), NoEffects());
}

TEST(IdentityTest, AWorkerMayResumeBeforeItsOldStreamIsKnownToBeBroken) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(
      fixture.Resume(5, 1),
      EffectsAre(Closes(1, StatusCode::kAborted), Sends(5, WelcomeBack(1)),
                 Sends(5, EpochFormed(1, 0, {"w-1", "w-2"})),
                 Sends(5, PlanReady()), Sends(5, GroupHandles(0, {"h0", "h1"})),
                 Sends(5, GroupHandles(1, {"h0", "h1"})), Sends(5, Start())));
  EXPECT_THAT(fixture.Closes(1), NoEffects())
      << "the old stream's end is old news";
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kReady);
}

TEST(IdentityTest, WhatIsSaidOnAnOldStreamIsIgnored) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Resume(5, 1);
  EXPECT_THAT(fixture.Says(1, protocol::Leave{.clean = false}), NoEffects());
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
}

// It would not listen, so nothing is to be decided for it here.
TEST(IdentityTest, AWorkerThatHeardAHigherTermIsLeftAlone) {
  CoordinatorFixture fixture(SpecOf(2));
  protocol::Hello hello = fixture.HelloOf(1);
  hello.generation = {1};
  hello.resume = protocol::ResumeState{.epoch = {1}};
  for (const uint64_t stream : {1, 2}) {
    const EffectList effects = fixture.Step(
        MessageReceived{{stream}, {fixture.job(), {1}, {7}, hello}});
    EXPECT_THAT(effects, Includes(Closes(stream, StatusCode::kUnavailable,
                                         testing::HasSubstr("term 7"))));
    const bool is_noted = effects.effects.size() > 1;
    EXPECT_EQ(is_noted, stream == 1) << "once";
  }
  EXPECT_THAT(fixture.core().durable().jobs, testing::IsEmpty());
}

TEST(IdentityTest, AStreamThatDoesNotResumeInTimeEndsTheEpoch) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Closes(1, "connection reset");
  EXPECT_THAT(
      fixture.Wait(1),
      AllOf(Includes(Sends(
                2, EpochEndedForGood(
                       1, StartsWith(
                              "w-1 (rank 0, host a, pid 101) lost its "
                              "stream (connection reset) and did not "
                              "resume within 1s, last reported at step 0 ")))),
            Not(Includes(SendsAnythingOn(1)))));
  EXPECT_EQ(fixture.View().cause.kind, protocol::CauseKind::kStreamLost);
}

TEST(IdentityTest, ALateResumerIsToldHowTheEpochEnded) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Closes(1);
  fixture.Wait(1);
  const EffectList requested = fixture.Resume(5, 1);
  EXPECT_THAT(requested,
              Includes(Sends(5, WelcomeBack(1)),
                       Sends(5, EpochEnded(1, StartsWith("w-1 (rank 0")))));
  EXPECT_EQ(fixture.View().missing, 2) << "it has not come again yet";

  protocol::Hello again = fixture.HelloOf(1);
  again.generation = {1};
  EXPECT_THAT(fixture.Hello(5, again), EffectsAre(Sends(5, WelcomeBack(1))));
  EXPECT_EQ(fixture.View().missing, 1) << "now it has";
}

TEST(IdentityTest, ANewLifeTakesThePlaceOfASuspectMemberAndEndsTheEpoch) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Closes(1, "reset");
  protocol::Hello hello = fixture.HelloOf(1);
  hello.incarnation = 99;
  hello.process.pid = 500;
  EXPECT_THAT(
      fixture.Hello(5, hello),
      EffectsAre(
          Persists(6, EpochFinished(1)),
          Sends(2,
                EpochEnded(1,
                           "w-1 (rank 0, host a, pid 101) lost its stream "
                           "(reset), and a new incarnation of it (host a, pid "
                           "500) took its place, at step 0 between steps")),
          Persists(7, GenerationAssigned("w-1", 2)), Sends(5, Welcome(2))));
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
  EXPECT_THAT(
      fixture.Resume(6, 1, /*generation=*/1),
      Refuses(6, StatusCode::kFailedPrecondition,
              StartsWith("generation 1 of w-1 is over: generation 2 (host "
                         "a, pid 101, since 3s) took the name")));
  EXPECT_THAT(
      fixture.Resume(7, 1, /*generation=*/9),
      Includes(Closes(7, StatusCode::kFailedPrecondition,
                      StartsWith("generation 9 of w-1 was never assigned "
                                 "here; the newest is 2"))));
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
    const EffectList requested = fixture.Hello(session, hello);
    EXPECT_THAT(requested,
                EffectsAre(Closes(session, StatusCode::kPermissionDenied,
                                  "generation 1 of w-1 was given to another "
                                  "incarnation, or with another secret")));
    EXPECT_THAT(fixture.Says(session, protocol::Leave{}), NoEffects());
    ++session;
  }
  protocol::Hello no_life = fixture.HelloOf(1);
  for (const uint64_t generation : {0, 1}) {
    no_life.incarnation = 0;
    no_life.generation = {generation};
    EXPECT_THAT(fixture.Hello(session, no_life),
                Refuses(session, StatusCode::kInvalidArgument,
                        StartsWith("w-1 says Hello with incarnation 0")));
    ++session;
  }
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kReady);
  EXPECT_THAT(fixture.WaitWithHeartbeats(15, {1, 2}), NoEffects())
      << "nothing has changed";
}

// After the end of the job, too: the answer would close the worker's stream.
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
              EffectsAre(Closes(5, StatusCode::kPermissionDenied)));
}

TEST(IdentityTest, AHelloThatComesLateEndsNoSecretThatIsUsed) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.Hello(5, fixture.HelloOf(1)),
              EffectsAre(Closes(5, StatusCode::kAborted,
                                StartsWith("w-1 has the secret"))));
  EXPECT_THAT(fixture.Says(1, protocol::Heartbeat{}), NoEffects());
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kReady);
  fixture.Closes(1);
  EXPECT_THAT(fixture.Resume(6, 1), Includes(Sends(6, WelcomeBack(1))));
}

TEST(IdentityTest, EachAnswerToAHelloWithoutAGenerationHasAnotherSecret) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  const std::string lost = fixture.SecretOf(1);
  EXPECT_EQ(lost.size(), 64u);
  EXPECT_THAT(fixture.Hello(5, fixture.HelloOf(1)),
              EffectsAre(Persists(3, GenerationAssigned("w-1", 1)),
                         Closes(1, StatusCode::kAborted,
                                "w-1 speaks on another stream now"),
                         Sends(5, WelcomeBack(1))));
  EXPECT_NE(fixture.SecretOf(1), lost);
  protocol::Hello stale = fixture.HelloOf(1);
  stale.generation = {1};
  stale.secret = lost;
  EXPECT_THAT(fixture.Hello(6, stale),
              Includes(Closes(6, StatusCode::kPermissionDenied)));
  EXPECT_THAT(fixture.Resume(7, 1),
              EffectsAre(Closes(5, StatusCode::kAborted,
                                "w-1 speaks on another stream now"),
                         Sends(7, WelcomeBack(1))));
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
  EXPECT_THAT(fixture.Hello(5, guess),
              Includes(Closes(5, StatusCode::kPermissionDenied)));
  EXPECT_THAT(fixture.Resume(6, 1), Includes(Sends(6, WelcomeBack(1))));
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
              Refuses(5, StatusCode::kFailedPrecondition,
                      StartsWith("generation 1 of w-1 is over: it "
                                 "was reported dead (signal 9)")));
}

TEST(IdentityTest, ASurvivorComesAgainAsANewLifeOfTheSameProcess) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "Submit"});
  protocol::Hello again = fixture.HelloOf(1);
  again.incarnation = 99;
  EXPECT_THAT(fixture.Hello(5, again),
              EffectsAre(Closes(1, StatusCode::kAborted),
                         Persists(7, GenerationAssigned("w-1", 2)),
                         Sends(5, Welcome(2))));

  protocol::Hello stranger = fixture.HelloOf(2);
  stranger.incarnation = 98;
  stranger.process.pid = 7777;
  EXPECT_THAT(fixture.Hello(6, stranger),
              Refuses(6, StatusCode::kAlreadyExists))
      << "w-2 lives and may still come again";
}

TEST(IdentityTest, ASurvivorMayComeAgainOnItsOldStream) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "Submit"});
  protocol::Hello again = fixture.HelloOf(1);
  again.incarnation = 99;
  EXPECT_THAT(fixture.Hello(1, again),
              EffectsAre(Persists(7, GenerationAssigned("w-1", 2)),
                         Sends(1, Welcome(2))));
  protocol::Hello other = fixture.HelloOf(2);
  other.generation = {1};
  EXPECT_THAT(fixture.Hello(2, other),
              EffectsAre(Sends(2, WelcomeBack(1)),
                         Persists(8, EpochBegan(2, {"w-1", "w-2"})),
                         Sends(1, EpochFormed(2, 0, {"w-1", "w-2"})),
                         Sends(2, EpochFormed(2, 1, {"w-1", "w-2"}))));
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
              Includes(Persists(EpochBegan(2, {"w-1", "w-0", "w-3"}))));
}

}  // namespace
}  // namespace lockstep::core
