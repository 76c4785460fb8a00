// Evidence that a member has died or that a link is broken: whose word counts,
// and what it says to people.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using protocol::CauseKind;
using protocol::EvidenceKind;
using protocol::Phase;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// --- Proof ------------------------------------------------------------------

TEST(EvidenceTest, ProofEndsTheEpochAtOnce) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(2, Stands(412, Phase::kTransfer));
  EXPECT_THAT(
      fixture.Says(1, CoordinatorFixture::DeathOf(2, "killed by signal 9")),
      EffectsAre(
          Closes(2, StatusCode::kAborted,
                 "w-2 was reported dead: killed by signal 9"),
          Persists(7, EpochFinished(1)),
          Persists(8, JobEnded(record::JobOutcome::kFailed)),
          Sends(1, EpochEndedForGood(
                       1,
                       "w-2 (rank 1, host a, pid 102) died: killed by signal "
                       "9, at step 412 while waiting for transfers")),
          Sends(3, EpochEndedForGood(
                       1,
                       "w-2 (rank 1, host a, pid 102) died: killed by signal "
                       "9, at step 412 while waiting for transfers"))));
  EXPECT_EQ(fixture.View().cause.workers, std::vector<WorkerName>{W(2)});
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kProcessDied);
}

TEST(EvidenceTest, ProofOfAnotherLifeIsNothing) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  protocol::Evidence evidence = CoordinatorFixture::DeathOf(2, "signal 9");
  evidence.generation = {7};
  EXPECT_THAT(fixture.Says(1, evidence), NoEffects());
  EXPECT_THAT(fixture.Says(1, CoordinatorFixture::DeathOf(9, "signal 9")),
              NoEffects());
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
}

// A second launch of the job: its workers have the members' names, are refused,
// and exit.
TEST(EvidenceTest, ProofOfAnotherProcessIsNotedAndNothingElse) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  using protocol::ProcessInfo;
  const ProcessInfo member = CoordinatorFixture::ProcessOf(2);
  for (const ProcessInfo& process :
       {ProcessInfo{}, ProcessInfo{member.host, 28325, "boot", 9000},
        ProcessInfo{member.host, member.pid, "boot", member.start_time + 1},
        ProcessInfo{member.host, member.pid, "later", member.start_time},
        ProcessInfo{"b", member.pid, "boot", member.start_time},
        ProcessInfo{member.host, member.pid, "boot", 0}}) {
    for (const uint64_t generation : {0, 1}) {
      const protocol::Evidence evidence{.subject = W(2),
                                        .generation = {generation},
                                        .detail = "exited with code 1",
                                        .process = process};
      EXPECT_THAT(
          fixture.Step(ReportEvidence{{1}, fixture.job(), "", evidence}),
          EffectsAre(Answers(1, StatusCode::kOk)));
      EXPECT_THAT(fixture.Says(1, evidence), NoEffects());
      const std::string noted = fixture.View().events.back().text;
      EXPECT_THAT(noted, AllOf(HasSubstr("evidence about w-2 has no effect"),
                               HasSubstr(absl::StrCat("pid ", process.pid)),
                               HasSubstr("exited with code 1"),
                               HasSubstr("host a, pid 102")));
    }
  }
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_THAT(fixture.WaitWithHeartbeats(15, {1, 2}), NoEffects());
}

TEST(EvidenceTest, ALauncherThatKnowsNoGenerationProvesByTheProcess) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(
      fixture.Step(ReportEvidence{
          {1}, fixture.job(), "", CoordinatorFixture::DeathOf(2, "signal 9")}),
      FailsJob(1, StartsWith("w-2 (rank 1")));
}

TEST(EvidenceTest, OfAWorkerThatDoesNotTellItsStartTimeThereIsNoProof) {
  CoordinatorFixture fixture(SpecOf(2));
  protocol::Hello hello = fixture.HelloOf(1);
  hello.process.start_time = 0;
  fixture.Hello(1, hello);
  protocol::Evidence evidence = CoordinatorFixture::DeathOf(1, "signal 9");
  evidence.process = hello.process;
  fixture.Step(ReportEvidence{{1}, fixture.job(), "", evidence});
  EXPECT_EQ(fixture.View().missing, 1) << "w-1 is still there";
}

TEST(EvidenceTest, AHintAboutAnotherGenerationIsNothing) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  for (const uint64_t generation : {0, 2}) {
    protocol::Evidence evidence = CoordinatorFixture::ResetBy(2);
    evidence.generation = {generation};
    EXPECT_THAT(fixture.Says(1, evidence), NoEffects());
  }
  EXPECT_THAT(fixture.WaitWithHeartbeats(5, {1, 2}), NoEffects());
}

TEST(EvidenceTest, TheEndOfWhoLeftInOrderIsNothing) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{.steps = 5});
  const size_t lines = fixture.View().events.size();
  EXPECT_THAT(
      fixture.Says(2, CoordinatorFixture::DeathOf(1, "exited with code 0")),
      NoEffects());
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_EQ(fixture.View().events.size(), lines) << "every launcher reports it";
}

TEST(EvidenceTest, ALauncherNeedsTheTokenAndAJob) {
  CoordinatorFixture fixture(SpecOf(2));
  EXPECT_THAT(fixture.Step(ReportEvidence{{1}, fixture.job(), "", {}}),
              EffectsAre(Answers(1, StatusCode::kNotFound)));
  fixture.Step(CreateJob{{2}, fixture.spec(), "secret"});
  EXPECT_THAT(fixture.Step(ReportEvidence{{3}, fixture.job(), "guess", {}}),
              EffectsAre(Answers(3, StatusCode::kPermissionDenied)));
  EXPECT_THAT(fixture.Step(ReportEvidence{{4}, fixture.job(), "secret", {}}),
              EffectsAre(Answers(4, StatusCode::kOk)));
}

TEST(EvidenceTest, AnArrivedWorkerThatDiesMakesRoom) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Step(
      ReportEvidence{{1},
                     fixture.job(),
                     "",
                     CoordinatorFixture::DeathOf(1, "exited with code 1")});
  EXPECT_EQ(fixture.View().missing, 2);
  protocol::Hello next = fixture.HelloOf(1);
  next.incarnation = 77;
  EXPECT_THAT(fixture.Hello(5, next), Includes(Sends(5, Welcome(2))));
}

// --- Hints ------------------------------------------------------------------

TEST(EvidenceTest, AHintAgainstOneThatLivesBreaksTheLink) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  EXPECT_THAT(fixture.Says(1, CoordinatorFixture::ResetBy(2, "ECONNRESET")),
              NoEffects());
  EXPECT_THAT(fixture.Wait(0.9), NoEffects());
  EXPECT_THAT(
      fixture.Wait(0.1),
      FailsJob(
          3, AllOf(StartsWith(
                       "w-1 (rank 0, host a, pid 101) and w-2 (rank 1, host a, "
                       "pid 102) cannot reach each other, though both live"),
                   HasSubstr("reset their data connection: ECONNRESET"))));
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLink);
  EXPECT_EQ(fixture.View().cause.workers,
            (std::vector<WorkerName>{W(1), W(2)}));
}

TEST(EvidenceTest, ALinkThatBothEndsFindResetIsBroken) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(1, CoordinatorFixture::ResetBy(2));
  EXPECT_THAT(fixture.Says(2, CoordinatorFixture::ResetBy(1)), NoEffects());
  EXPECT_THAT(fixture.Wait(0.05), NoEffects());
  fixture.Wait(0.05);
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLink);
}

TEST(EvidenceTest, AnAccusedThatIsHeardIsAwaitedNoLonger) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(1, CoordinatorFixture::ResetBy(2));
  EXPECT_THAT(fixture.Wait(0.5), NoEffects());
  fixture.Says(2, protocol::Heartbeat{});
  fixture.Wait(0.1);
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLink);
}

// One link is broken at both ends because of the death of a third, which has
// not been heard of since.
TEST(EvidenceTest, OneThatIsNotHeardIsAwaitedBesideABrokenLink) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(1, CoordinatorFixture::ResetBy(3));
  fixture.Says(1, CoordinatorFixture::ResetBy(2));
  fixture.Says(2, CoordinatorFixture::ResetBy(1));
  EXPECT_THAT(fixture.WaitWithHeartbeats(0.8, {1, 2}), NoEffects());
  fixture.Closes(3, "reset");
  fixture.WaitWithHeartbeats(1, {1, 2});
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kStreamLost);
  EXPECT_EQ(fixture.View().cause.workers, std::vector<WorkerName>{W(3)});
}

TEST(EvidenceTest, AHintIsOvertakenByProof) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(1, CoordinatorFixture::ResetBy(2));
  fixture.Wait(0.5);
  fixture.Says(3, CoordinatorFixture::DeathOf(2, "signal 11"));
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kProcessDied);
}

TEST(EvidenceTest, AHintAgainstASuspectWaitsForItsOwnWindow) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(1, CoordinatorFixture::ResetBy(2));
  fixture.Wait(0.9);
  fixture.Closes(2, "reset");
  EXPECT_THAT(fixture.Wait(0.5), NoEffects());
  fixture.Wait(0.5);
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kStreamLost);
}

// Survivors of a death close their links, and then report each other.
TEST(EvidenceTest, AHintAgainstOneThatLivesWaitsForASuspectsWindow) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(1, CoordinatorFixture::ResetBy(3));
  fixture.Wait(0.2);
  fixture.Closes(2, "reset");
  EXPECT_THAT(fixture.Wait(0.9), NoEffects());
  fixture.Wait(0.2);
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kStreamLost);
  EXPECT_EQ(fixture.View().cause.workers, std::vector<WorkerName>{W(2)});
}

// A transfer with it has failed, so it has left too early.
TEST(EvidenceTest, AHintAgainstOneThatLeavesEndsTheEpoch) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, CoordinatorFixture::ResetBy(2));
  fixture.Says(2, protocol::Leave{});
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLeft);
  EXPECT_EQ(fixture.View().cause.workers, std::vector<WorkerName>{W(2)});
}

// --- A closed local socket --------------------------------------------------

protocol::Evidence SocketClosed(int i) {
  return {.subject = W(i),
          .generation = {1},
          .kind = EvidenceKind::kSocketClosed,
          .detail = "nothing listens"};
}

TEST(SocketClosedTest, WithABrokenStreamTheWorkerIsLostAtOnce) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.Closes(2, "reset"), NoEffects());
  fixture.Says(1, SocketClosed(2));
  EXPECT_EQ(fixture.View().state, JobState::kEpochEnded);
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kStreamLost);
  EXPECT_THAT(
      fixture.View().cause.message,
      HasSubstr("w-2 (rank 1, host a, pid 102) lost its stream (reset), "
                "and another worker on its host finds its local socket "
                "closed"));
}

TEST(SocketClosedTest, InEitherOrder) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.Says(1, SocketClosed(2)), NoEffects());
  fixture.Closes(2, "reset");
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kStreamLost);
  EXPECT_EQ(fixture.View().cause.workers, std::vector<WorkerName>{W(2)});
}

TEST(SocketClosedTest, AWorkerWhoseStreamLivesIsNotLost) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(1, SocketClosed(2));
  EXPECT_THAT(fixture.WaitWithHeartbeats(15, {1, 2}), NoEffects());
  EXPECT_THAT(fixture.Closes(2, "reset"), NoEffects()) << "it may resume";
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
}

TEST(SocketClosedTest, OfAnotherLifeIsNothing) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Closes(2, "reset");
  protocol::Evidence evidence = SocketClosed(2);
  evidence.generation = {2};
  EXPECT_THAT(fixture.Says(1, evidence), NoEffects());
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
}

// It closes its socket when it leaves, and others may dial it afterwards.
TEST(SocketClosedTest, OfOneThatLeftInOrderIsNothing) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(2, protocol::Leave{.steps = 5});
  EXPECT_THAT(fixture.Says(1, SocketClosed(2)), NoEffects());
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
}

// A restarted coordinator knows no streams: they are all broken.
TEST(SocketClosedTest, AWorkerThatMayResumeAfterARestartIsAwaited) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Restart();
  fixture.Resume(21, 1);
  EXPECT_THAT(fixture.Says(21, SocketClosed(2)), NoEffects());
  EXPECT_EQ(fixture.ViewOf(2).state, WorkerState::kSuspect);
}

// --- Links ------------------------------------------------------------------

// A broken link: both ends report it, and both are alive.
TEST(EvidenceTest, ASilentLinkIsNamedOnceTheAccusedIsHeard) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(1, protocol::Evidence{.subject = W(3),
                                     .generation = {1},
                                     .kind = EvidenceKind::kPeerSilent,
                                     .detail = "nothing came for 10s"});
  // Worker 1 closed its links because of that, and a third worker reports it.
  fixture.Says(2, CoordinatorFixture::ResetBy(1));
  EXPECT_THAT(fixture.WaitWithHeartbeats(2, {1, 2}), NoEffects());
  EXPECT_THAT(fixture.Says(3, protocol::Heartbeat{}), NoEffects());
  EXPECT_THAT(
      fixture.WaitWithHeartbeats(2, {1, 2, 3}),
      FailsJob(2,
               AllOf(HasSubstr("w-1 (rank 0, host a, pid 101) and w-3 (rank "
                               "2, host a, pid 103) cannot reach each other"),
                     HasSubstr("is silent on their data connection: nothing "
                               "came for 10s"))));
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLink);
  EXPECT_EQ(fixture.View().cause.workers,
            (std::vector<WorkerName>{W(1), W(3)}));
}

// A stopped worker is silent to its peers and to the coordinator.
TEST(EvidenceTest, ASilentPeerThatIsStoppedIsNamedByItsLease) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.WaitWithHeartbeats(2, {1, 2});
  fixture.Says(1, protocol::Evidence{.subject = W(3),
                                     .generation = {1},
                                     .kind = EvidenceKind::kPeerSilent});
  fixture.Says(2, CoordinatorFixture::ResetBy(1));
  EXPECT_THAT(fixture.WaitWithHeartbeats(7, {1, 2}), NoEffects());
  EXPECT_THAT(
      fixture.WaitWithHeartbeats(2, {1, 2}),
      FailsJob(1, HasSubstr("w-3 (rank 2, host a, pid 103) fell silent")));
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLeaseExpired);
  EXPECT_EQ(fixture.View().cause.workers, std::vector<WorkerName>{W(3)});
}

// Whatever progress the ends of a broken link report, they are not stuck.
TEST(EvidenceTest, ACutLinkEvictsNobody) {
  JobSpec spec = SpecOf(3);
  spec.on_stuck = OnStuck::kEvict;
  spec.timeouts.progress = absl::Seconds(4);
  spec.timeouts.resume = absl::Seconds(3);
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  for (const uint64_t session : {1, 2, 3}) {
    fixture.Says(session, Stands(5, Phase::kTransfer));
  }
  EXPECT_THAT(fixture.WaitWithHeartbeats(2, {1, 2, 3}), NoEffects());
  EXPECT_EQ(spec.timeouts.LinkSilence(), absl::Seconds(2));
  fixture.Says(1, protocol::Evidence{.subject = W(3),
                                     .generation = {1},
                                     .kind = EvidenceKind::kPeerSilent});
  fixture.Says(3, protocol::Evidence{.subject = W(1),
                                     .generation = {1},
                                     .kind = EvidenceKind::kPeerSilent});
  fixture.WaitWithHeartbeats(6, {1, 2, 3});
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLink);
  EXPECT_EQ(fixture.View().cause.workers,
            (std::vector<WorkerName>{W(1), W(3)}));
}

// --- How old a position is ---------------------------------------------------

TEST(PositionsTest, ADeathSaysHowOldTheWordIs) {
  CoordinatorFixture fixture;
  fixture.RunAll();
  fixture.Says(2, Stands(12, Phase::kCompute));
  fixture.Pass(0.8);
  EXPECT_THAT(
      fixture.Step(ReportEvidence{
          {1}, fixture.job(), "", CoordinatorFixture::DeathOf(2, "killed")}),
      Includes(Sends(EpochEndedForGood(
          1, HasSubstr("died: killed, last reported at step 12 "
                       "while computing, 800ms ago")))));
}

// Nothing is known of it, least of all step 0.
TEST(PositionsTest, ARestartForgetsThem) {
  CoordinatorFixture fixture;
  fixture.RunAll();
  fixture.Says(2, Stands(12, Phase::kCompute));
  fixture.Restart();
  fixture.Resume(11, 1);
  EXPECT_THAT(
      fixture.Step(ReportEvidence{
          {1}, fixture.job(), "", CoordinatorFixture::DeathOf(2, "killed")}),
      Includes(Sends(EpochEndedForGood(
          1, HasSubstr("died: killed, at a step that it has not said since "
                       "the coordinator restarted")))));
}

TEST(PositionsTest, SurvivorsSayWhereTheyStood) {
  CoordinatorFixture fixture;
  fixture.RunAll();
  fixture.Pass(0.5);
  fixture.Step(ReportEvidence{
      {1}, fixture.job(), "", CoordinatorFixture::DeathOf(2, "signal 9")});
  fixture.Says(1, protocol::EpochReport{{5, Phase::kTransfer}, ""});
  EXPECT_EQ(fixture.View().step, 5u);
  EXPECT_EQ(fixture.View().events.back().text,
            "w-1 stands at step 5 while waiting for transfers");
}

// --- How a process died ------------------------------------------------------

TEST(ProofTest, ALaunchersWordIsAddedToThatOfASurvivor) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  protocol::Evidence pidfd =
      CoordinatorFixture::DeathOf(2, "the process has ended");
  pidfd.generation = {1};
  fixture.Says(1, pidfd);
  EXPECT_THAT(fixture.View().cause.message,
              HasSubstr("died: the process has ended"));
  const Event report = ReportEvidence{
      {1},
      fixture.job(),
      "",
      CoordinatorFixture::DeathOf(2, "process 102 killed by signal 9")};
  fixture.Step(report);
  fixture.Step(report);
  EXPECT_THAT(fixture.View().cause.message,
              AllOf(HasSubstr("died: the process has ended"),
                    EndsWith(" (w-2: process 102 killed by signal 9)")));
  EXPECT_THAT(fixture.View().events.back().text,
              HasSubstr("killed by signal 9"));

  fixture.Restart();
  EXPECT_THAT(fixture.View().cause.message,
              EndsWith(" (w-2: process 102 killed by signal 9)"))
      << "it is journaled";
}

TEST(ProofTest, ALaunchersWordIsAddedAfterTheEndOfTheJob) {
  CoordinatorFixture fixture(SpecOf(2));  // no restarts
  fixture.RunAll();
  protocol::Evidence pidfd =
      CoordinatorFixture::DeathOf(2, "the process has ended");
  pidfd.generation = {1};
  fixture.Says(1, pidfd);
  ASSERT_EQ(fixture.View().state, JobState::kFailed);
  fixture.Step(
      ReportEvidence{{1},
                     fixture.job(),
                     "",
                     CoordinatorFixture::DeathOf(2, "killed by signal 9")});
  EXPECT_THAT(fixture.View().cause.message,
              EndsWith(" (w-2: killed by signal 9)"));
}

TEST(ProofTest, AJobThatDoesNotFormAgainNamesTheSignal) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Step(
      ReportEvidence{{1},
                     fixture.job(),
                     "",
                     CoordinatorFixture::DeathOf(2, "killed by signal 9")});
  fixture.JoinsAgain(1);
  EXPECT_THAT(fixture.WaitWithHeartbeats(61, {1}),
              Includes(Sends(
                  1, Refused(StatusCode::kDeadlineExceeded,
                             AllOf(HasSubstr("1 of 2 workers is missing: w-2"),
                                   HasSubstr("killed by signal 9"))))));
}

}  // namespace
}  // namespace lockstep::core
