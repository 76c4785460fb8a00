// Lost members: by proof, silence, failure or leaving; and the other members'
// error.

#include <algorithm>
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
using testing::Not;
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

// --- Silence ----------------------------------------------------------------

TEST(LeaseTest, SilenceEndsTheEpochAndSaysForHowLong) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.WaitWithHeartbeats(9, {1}), NoEffects());
  EXPECT_THAT(
      fixture.WaitWithHeartbeats(2, {1}),
      Includes(
          Sends(1, EpochEndedForGood(
                       1, StartsWith(
                              "w-2 (rank 1, host a, pid 102) fell silent: "
                              "nothing was heard of it for 10s, last "
                              "reported at step 0 between steps, 10s ago"))),
          Sends(2, EpochEndedForGood(1))));
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLeaseExpired);
}

TEST(LeaseTest, AllWhoFellSilentTogetherAreNamedInOneCause) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.WaitWithHeartbeats(11, {1});
  EXPECT_EQ(fixture.View().cause.workers,
            (std::vector<WorkerName>{W(2), W(3)}));
}

TEST(LeaseTest, EveryMessageRenewsIt) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  for (uint64_t step = 0; step < 30; ++step) {
    EXPECT_THAT(fixture.Says(1, Stands(step, Phase::kCompute)), NoEffects());
    EXPECT_THAT(fixture.Says(2, protocol::Heartbeat{}, EpochId{77}),
                NoEffects());
    EXPECT_THAT(fixture.Wait(1), NoEffects());
  }
}

TEST(LeaseTest, AShortLeaseCountsEvenForASuspect) {
  JobSpec spec = SpecOf(2);
  spec.timeouts.lease = absl::Milliseconds(500);
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  fixture.Closes(2);
  fixture.Says(1, protocol::Heartbeat{});
  fixture.Wait(0.3);
  fixture.Says(1, protocol::Heartbeat{});
  fixture.Wait(0.2);
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLeaseExpired);
}

// Their machine slept, or was cut off: heartbeats come just before the end of a
// second lease.
TEST(LeaseTest, AllWorkersGetASecondOneIfAllFallSilent) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.WaitWithHeartbeats(3, {1, 2, 3});
  EXPECT_THAT(fixture.Wait(18), NoEffects());
  for (const uint64_t session : {1, 2, 3}) {
    fixture.Says(session, protocol::Heartbeat{});
  }
  EXPECT_THAT(fixture.WaitWithHeartbeats(15, {1, 2, 3}), NoEffects());
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
}

TEST(LeaseTest, AllAreLostIfAllStaySilent) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.WaitWithHeartbeats(3, {1, 2, 3});
  fixture.Wait(21);
  EXPECT_EQ(fixture.View().cause.workers,
            (std::vector<WorkerName>{W(1), W(2), W(3)}));
}

// One goes on just after its lease: the others are lost.
TEST(LeaseTest, ASecondOneIsNotForThoseWhoStaySilent) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.WaitWithHeartbeats(3, {1, 2, 3});
  fixture.Wait(12);
  fixture.WaitWithHeartbeats(9, {2});
  EXPECT_EQ(fixture.View().cause.workers,
            (std::vector<WorkerName>{W(1), W(3)}));
}

// After a stop of the coordinator all workers look silent; none is lost.
// --- Proof of life ----------------------------------------------------------

// All three ranks train; the control link of worker 3 is cut.
class CutControlLinkTest : public testing::Test {
 protected:
  CutControlLinkTest() {
    fixture_.RunAll();
    for (const uint64_t session : {1, 2, 3}) {
      fixture_.Says(session, Stands(1, Phase::kCompute));
    }
  }
  // Workers 1 and 2 report four steps a second.
  void TrainFor(int seconds) {
    for (int quarter = 0; quarter < 4 * seconds; ++quarter) {
      fixture_.Wait(0.25);
      step_ += 1;
      for (const uint64_t session : {1, 2}) {
        fixture_.Says(session, Stands(step_, Phase::kCompute));
      }
    }
  }
  int LinesWith(const std::string& text) const {
    const std::vector<EventView> events = fixture_.View().events;
    return static_cast<int>(
        std::count_if(events.begin(), events.end(), [&](const EventView& line) {
          return line.text.find(text) != std::string::npos;
        }));
  }

  CoordinatorFixture fixture_{RestartingSpec(3)};
  uint64_t step_ = 1;
};

// The control lease of 10 s ended a healthy epoch.
TEST_F(CutControlLinkTest, EndsNothingWhileStepsGoOn) {
  TrainFor(15);
  EXPECT_EQ(fixture_.View().state, JobState::kRunning);
  EXPECT_EQ(LinesWith("w-3 (rank 2, host a, pid 103) is not heard, but takes "
                      "part in steps"),
            1);
  fixture_.Resume(23, 3);
  EXPECT_EQ(fixture_.View().state, JobState::kRunning);
}

// The deadline of a minute passes: the member cannot say that it goes on.
TEST_F(CutControlLinkTest, NorIsTheMemberCalledStuck) {
  TrainFor(70);
  EXPECT_TRUE(fixture_.View().stalls.empty());
  EXPECT_EQ(fixture_.View().state, JobState::kRunning);
}

TEST_F(CutControlLinkTest, NorIfItsStreamBreaks) {
  fixture_.Closes(3, "reset");
  TrainFor(15);
  EXPECT_EQ(fixture_.View().state, JobState::kRunning);
  EXPECT_EQ(fixture_.ViewOf(3).state, WorkerState::kSuspect);
  fixture_.Resume(23, 3);
  EXPECT_EQ(fixture_.ViewOf(3).state, WorkerState::kReady);
}

TEST_F(CutControlLinkTest, OneThatDiesMeanwhileIsLostALeaseAfterTheLastStep) {
  TrainFor(15);
  EXPECT_THAT(fixture_.WaitWithHeartbeats(9, {1, 2}), NoEffects());
  fixture_.WaitWithHeartbeats(2, {1, 2});
  EXPECT_EQ(fixture_.View().cause.kind, CauseKind::kLeaseExpired);
  EXPECT_EQ(fixture_.View().cause.workers, std::vector<WorkerName>{W(3)});
}

// Survivors pass the verdict that it had entered, and say so afterwards.
TEST_F(CutControlLinkTest, AStepReportedJustAfterADeathProvesNothing) {
  fixture_.Closes(3, "reset");
  fixture_.Pass(0.2);
  fixture_.Says(1, Stands(2, Phase::kCompute));
  fixture_.Wait(0.9);
  EXPECT_EQ(fixture_.View().cause.kind, CauseKind::kStreamLost);
}

// What survivors report first after a restart may have passed long ago.
TEST_F(CutControlLinkTest, AfterARestartFirstReportsProveNothing) {
  fixture_.Restart();
  for (const int i : {1, 2}) {
    fixture_.Resume(20 + i, i);
    fixture_.Says(20 + i, Stands(9, Phase::kVerdict));
  }
  fixture_.WaitWithHeartbeats(11, {21, 22});
  EXPECT_EQ(fixture_.View().state, JobState::kEpochEnded);
  EXPECT_EQ(fixture_.View().cause.workers, std::vector<WorkerName>{W(3)});
}

TEST(LeaseTest, LeasesBeginAnewWhenTheCoordinatorItselfWasStopped) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.WaitWithHeartbeats(3, {1, 2});
  fixture.Pass(60);
  EXPECT_THAT(fixture.Step(TimerExpired{}), NoEffects());
  EXPECT_THAT(fixture.WaitWithHeartbeats(9, {1}), NoEffects());
  EXPECT_THAT(
      fixture.Wait(1),
      FailsJob(1, HasSubstr("w-2 (rank 1, host a, pid 102) fell silent")));
}

// After a stop of any length, a worker with four heartbeats for each lease is
// not lost.
TEST(LeaseTest, NoStopOfAnyLengthLosesAHealthyWorker) {
  for (int tenths = 0; tenths <= 300; ++tenths) {
    CoordinatorFixture fixture(SpecOf(2));
    fixture.RunAll();
    for (int beat = 0; beat < 3; ++beat) {
      fixture.Wait(2.4);
      for (const uint64_t session : {1, 2}) {
        fixture.Says(session, protocol::Heartbeat{});
      }
    }
    fixture.Wait(2.3);  // their next heartbeats are due
    fixture.Pass(tenths / 10.0);
    EXPECT_THAT(fixture.Step(TimerExpired{}), NoEffects())
        << "stopped for " << tenths / 10.0;
  }
}

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

// --- The next epoch ---------------------------------------------------------

TEST(RestartBudgetTest, AnEpochEndsAndAnotherForms) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.Says(1, protocol::LocalFailure{.call = "f"}),
              EffectsAre(Persists(6, EpochFinished(1)),
                         Sends(1, EpochEnded(1,
                                             "w-1 (rank 0, host a, pid 101): f "
                                             "failed at step 0: UNKNOWN: ")),
                         Sends(2, EpochEnded(1,
                                             "w-1 (rank 0, host a, pid 101): f "
                                             "failed at step 0: UNKNOWN: "))));
  EXPECT_EQ(fixture.View().state, JobState::kEpochEnded);
  for (int i : {1, 2}) {
    protocol::Hello again = fixture.HelloOf(i);
    again.generation = {1};
    fixture.Hello(i, again);
  }
  fixture.ConnectAll();
  EXPECT_EQ(fixture.epoch(), EpochId{2});
}

TEST(RestartBudgetTest, WhenItIsSpentTheJobFails) {
  CoordinatorFixture fixture(RestartingSpec(1, /*max_restarts=*/2));
  fixture.RunAll();
  for (int incarnation = 0; incarnation < 2; ++incarnation) {
    EXPECT_THAT(fixture.Says(1, protocol::LocalFailure{.call = "f"}),
                EffectsAre(Persists(EpochFinished(1 + incarnation)),
                           Sends(1, EpochEnded(1 + incarnation))));
    protocol::Hello again = fixture.HelloOf(1);
    again.generation = {1};
    fixture.Hello(1, again);
  }
  EXPECT_THAT(
      fixture.Says(1, protocol::LocalFailure{.call = "f"}),
      FailsJob(1,
               HasSubstr("; the job does not form again: 2 restarts within "
                         "10m were used up (limits.max_restarts)"),
               /*epoch=*/3));
}

TEST(RestartBudgetTest, RestartsBeforeTheWindowAreForgotten) {
  CoordinatorFixture fixture(RestartingSpec(1, /*max_restarts=*/1));
  fixture.RunAll();
  for (int incarnation = 0; incarnation < 4; ++incarnation) {
    fixture.Says(1, protocol::LocalFailure{.call = "f"});
    EXPECT_EQ(fixture.View().state, JobState::kEpochEnded);
    protocol::Hello again = fixture.HelloOf(1);
    again.generation = {1};
    fixture.Hello(1, again);
    fixture.WaitWithHeartbeats(601, {1});
  }
}

TEST(RestartBudgetTest, AStepThatFailsThreeTimesFailsTheJobWithAllCauses) {
  CoordinatorFixture fixture(RestartingSpec(1));
  fixture.JoinAll();
  EffectList requested;
  for (const char* call : {"first", "second", "third"}) {
    fixture.ConnectAll();
    fixture.Says(1, Stands(8, Phase::kCompute));
    requested =
        fixture.Says(1, protocol::LocalFailure{.step = 8, .call = call});
    protocol::Hello again = fixture.HelloOf(1);
    again.generation = {1};
    fixture.Hello(1, again);
  }
  EXPECT_THAT(requested, FailsJob(1,
                                  AllOf(HasSubstr("step 8 failed 3 times"),
                                        HasSubstr("first failed"),
                                        HasSubstr("second failed")),
                                  /*epoch=*/3));
}

// --- Steps are counted over all epochs of a job ------------------------------

protocol::EpochFormed FormedIn(const CoordinatorFixture& fixture) {
  for (const Effect& effect : fixture.effects()) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    const auto* formed =
        std::get_if<protocol::EpochFormed>(&send->message.body);
    if (formed != nullptr) return *formed;
  }
  ADD_FAILURE() << "no epoch formed";
  return {};
}

EffectList JoinsAgain(CoordinatorFixture& fixture, int i) {
  protocol::Hello again = fixture.HelloOf(i);
  again.generation = {1};
  return fixture.Hello(i, again);
}

// --- Links that keep breaking -----------------------------------------------

TEST(LinkHistoryTest, TheMemberWithMostBadLinksGoesAtTheThirdEnd) {
  LinkHistory links(absl::Minutes(10));
  EXPECT_EQ(links.Add(At(0), W(1), W(2)), std::nullopt);
  EXPECT_EQ(links.Add(At(20), W(1), W(3)), std::nullopt);
  EXPECT_EQ(links.Add(At(40), W(4), W(5)), W(1));
  EXPECT_EQ(links.Add(At(60), W(1), W(2)), std::nullopt) << "it begins anew";
}

TEST(LinkHistoryTest, OfTwoTheOneThatWasAccusedLastGoes) {
  LinkHistory links(absl::Minutes(10));
  links.Add(At(0), W(1), W(2));
  links.Add(At(20), W(1), W(2));
  EXPECT_EQ(links.Add(At(40), W(2), W(1)), W(1));
}

TEST(LinkHistoryTest, EndsBeforeTheWindowAreForgotten) {
  LinkHistory links(absl::Minutes(10));
  links.Add(At(0), W(1), W(2));
  links.Add(At(20), W(1), W(2));
  EXPECT_EQ(links.Add(At(600), W(1), W(2)), std::nullopt);
  EXPECT_EQ(links.Add(At(610), W(1), W(2)), W(2));
}

class BadLinksTest : public testing::Test {
 protected:
  // Ends an epoch because `reporter` cannot reach worker `accused`.
  void Break(int reporter, int accused) {
    fixture_.ConnectAll();
    fixture_.Says(reporter, Stands(8, Phase::kTransfer));
    fixture_.Says(reporter, CoordinatorFixture::ResetBy(accused));
    last_ = fixture_.Wait(1.1);
    ASSERT_EQ(fixture_.View().cause.kind, CauseKind::kLink);
  }
  void AllJoinAgain() {
    for (const int i : {1, 2, 3}) JoinsAgain(fixture_, i);
  }

  CoordinatorFixture fixture_{RestartingSpec(3)};
  EffectList last_;
};

// Though all three ends were in step 8, the job forms again without it.
TEST_F(BadLinksTest, AfterThreeEndsTheWorstMemberIsToldThatItIsOver) {
  fixture_.JoinAll();
  Break(1, 2);
  AllJoinAgain();
  Break(3, 2);
  AllJoinAgain();
  Break(2, 1);
  EXPECT_EQ(fixture_.View().state, JobState::kEpochEnded);
  EXPECT_EQ(fixture_.ViewOf(2).state, WorkerState::kLost);
  EXPECT_EQ(fixture_.ViewOf(1).state, WorkerState::kJoining);
  EXPECT_THAT(
      last_,
      Includes(Sends(
          2, EpochEndedForGood(3, HasSubstr("w-2 (rank 1, host a, pid 102) has "
                                            "the most bad links, and goes")))));
  protocol::Hello replacement = fixture_.HelloOf(2);
  replacement.incarnation = 77;
  EXPECT_THAT(fixture_.Hello(32, replacement), Includes(Sends(32, Welcome(2))));
}

TEST_F(BadLinksTest, TwoEndsLoseNobody) {
  fixture_.JoinAll();
  Break(1, 2);
  AllJoinAgain();
  Break(3, 2);
  for (const int i : {1, 2, 3}) {
    EXPECT_EQ(fixture_.ViewOf(i).state, WorkerState::kJoining);
  }
}

// Each epoch commits five steps more than the one before, and fails.
TEST(GlobalStepsTest, FailuresAtFiveTenAndFifteenAreNotTheSame) {
  CoordinatorFixture fixture(RestartingSpec(1));
  fixture.JoinAll();
  for (const uint64_t step : {5, 10, 15, 20}) {
    EXPECT_EQ(FormedIn(fixture).first_step, step - 5);
    fixture.ConnectAll();
    fixture.Says(1, Stands(step, Phase::kCompute));
    EXPECT_THAT(
        fixture.Says(1, protocol::LocalFailure{.step = step, .call = "f"}),
        Not(Includes(Sends(AnyEpochEndedForGood()))));
    JoinsAgain(fixture, 1);
  }
}

// Progress may be 0.1 s old; the reports of survivors are exact.
TEST(GlobalStepsTest, ReportsOfSurvivorsCount) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.JoinAll();
  for (const uint64_t step : {5, 10, 15, 20}) {
    fixture.ConnectAll();
    EXPECT_THAT(fixture.Says(2, protocol::Leave{.clean = false, .steps = 0}),
                Not(Includes(Sends(AnyEpochEndedForGood()))))
        << "before step " << step;
    fixture.Says(1, protocol::EpochReport{{step, Phase::kIdle}, ""});
    EXPECT_EQ(fixture.View().step, step);
    JoinsAgain(fixture, 1);
    fixture.Closes(2);
    protocol::Hello other = fixture.HelloOf(2);
    other.incarnation = 2000 + step;
    fixture.Hello(2, other);
    EXPECT_EQ(FormedIn(fixture).first_step, step);
  }
}

TEST(GlobalStepsTest, AStepThatFailsAgainAfterReportsIsTheSame) {
  CoordinatorFixture fixture(RestartingSpec(1));
  fixture.JoinAll();
  EffectList requested;
  for (int i = 0; i < 3; ++i) {
    fixture.ConnectAll();
    requested = fixture.Says(1, protocol::LocalFailure{.call = "f"});
    fixture.Says(1, protocol::EpochReport{{8, Phase::kTransfer}, ""});
    JoinsAgain(fixture, 1);
  }
  EXPECT_THAT(requested,
              FailsJob(1, HasSubstr("step 8 failed 3 times"), /*epoch=*/3));
}

TEST(GlobalStepsTest, SurviveTheCoordinator) {
  CoordinatorFixture fixture(RestartingSpec(1));
  fixture.RunAll();
  fixture.Says(1, Stands(7, Phase::kCompute));
  fixture.Says(1, protocol::LocalFailure{.step = 7, .call = "f"});
  fixture.Restart();
  JoinsAgain(fixture, 1);
  EXPECT_EQ(FormedIn(fixture).first_step, 7u);
  EXPECT_EQ(fixture.ViewOf(1).position.step, 7u);
}

TEST(GlobalStepsTest, AShortJobThatIsOverShowsItsSteps) {
  CoordinatorFixture fixture;
  fixture.RunAll();
  for (const uint64_t session : {1, 2}) {
    fixture.Says(session, protocol::Leave{.steps = 3});
  }
  EXPECT_EQ(fixture.View().state, JobState::kCompleted);
  EXPECT_EQ(fixture.View().step, 3u);
  EXPECT_EQ(fixture.core().Jobs()[0].step, 3u);
  fixture.Restart();
  fixture.Step(TimerExpired{});
  EXPECT_EQ(fixture.View().step, 3u);
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

// --- How a process died
// --------------------------------------------------------

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
  JoinsAgain(fixture, 1);
  EXPECT_THAT(fixture.WaitWithHeartbeats(61, {1}),
              Includes(Sends(
                  1, Refused(StatusCode::kDeadlineExceeded,
                             AllOf(HasSubstr("1 of 2 workers is missing: w-2"),
                                   HasSubstr("killed by signal 9"))))));
}

TEST(RestartBudgetTest, SurvivorsThatDoNotComeAgainMissTheDeadline) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  protocol::Hello again = fixture.HelloOf(1);
  again.generation = {1};
  fixture.Hello(1, again);
  const EffectList requested = fixture.WaitWithHeartbeats(61, {1, 2});
  const TextMatcher missing = HasSubstr("1 of 2 workers is missing: w-2");
  EXPECT_THAT(
      requested,
      EffectsAre(Persists(7, JobEnded(record::JobOutcome::kFailed)),
                 Sends(1, Refused(StatusCode::kDeadlineExceeded, missing)),
                 Closes(1, StatusCode::kDeadlineExceeded, missing),
                 Sends(2, EpochEndedForGood(0, missing))));
}

TEST(EpochReportTest, IsRememberedForPeople) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  fixture.Says(2, protocol::EpochReport{{7, Phase::kTransfer}, "verdict"});
  EXPECT_EQ(fixture.View().events.back().text,
            "w-2 stands at step 7 while waiting for transfers and has "
            "passed the verdict of step 6");
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
