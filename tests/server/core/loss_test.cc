// How members are lost: by proof, by silence, by failing, by leaving; and what
// the others are told.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/scene.h"

namespace lockstep::core {
namespace {

using protocol::CauseKind;
using protocol::EvidenceKind;
using protocol::Phase;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// --- Proof ------------------------------------------------------------------

TEST(EvidenceTest, ProofEndsTheEpochAtOnce) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  scene.Says(2, Stands(412, Phase::kTransfer));
  EXPECT_EQ(scene.Says(1, Scene::DeathOf(2, "killed by signal 9")),
            "close 2: ABORTED: w-2 was reported dead: killed by signal 9\n"
            "persist 7: epoch 1 ends\n"
            "persist 8: job failed\n"
            "1 <- ended 1 for good: w-2 (rank 1, host a, pid 102) died: killed "
            "by signal 9, at step 412 while waiting for transfers\n"
            "3 <- ended 1 for good: w-2 (rank 1, host a, pid 102) died: killed "
            "by signal 9, at step 412 while waiting for transfers");
  EXPECT_EQ(scene.View().cause.workers, std::vector<WorkerName>{W(2)});
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kProcessDied);
}

TEST(EvidenceTest, ProofOfAnotherLifeIsNothing) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  protocol::Evidence evidence = Scene::DeathOf(2, "signal 9");
  evidence.generation = {7};
  EXPECT_EQ(scene.Says(1, evidence), "");
  EXPECT_EQ(scene.Says(1, Scene::DeathOf(9, "signal 9")), "");
  EXPECT_EQ(scene.View().state, JobState::kRunning);
}

// A second launch of the job: its workers bear the names of the members, are
// refused, and exit.
TEST(EvidenceTest, ProofOfAnotherProcessIsNotedAndNothingElse) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  using protocol::ProcessInfo;
  const ProcessInfo member = Scene::ProcessOf(2);
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
      EXPECT_EQ(scene.Step(ReportEvidence{{1}, scene.job(), "", evidence}),
                "answer 1: OK");
      EXPECT_EQ(scene.Says(1, evidence), "");
      const std::string noted = scene.View().events.back().text;
      EXPECT_THAT(noted, AllOf(HasSubstr("evidence about w-2 has no effect"),
                               HasSubstr(absl::StrCat("pid ", process.pid)),
                               HasSubstr("exited with code 1"),
                               HasSubstr("host a, pid 102")));
    }
  }
  EXPECT_EQ(scene.View().state, JobState::kRunning);
  EXPECT_EQ(scene.WaitWithHeartbeats(15, {1, 2}), "");
}

TEST(EvidenceTest, ALauncherThatKnowsNoGenerationProvesByTheProcess) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  EXPECT_THAT(scene.Step(ReportEvidence{
                  {1}, scene.job(), "", Scene::DeathOf(2, "signal 9")}),
              HasSubstr("1 <- ended 1 for good: w-2 (rank 1"));
}

TEST(EvidenceTest, OfAWorkerThatDoesNotTellItsStartTimeThereIsNoProof) {
  Scene scene(SpecOf(2));
  protocol::Hello hello = scene.HelloOf(1);
  hello.process.start_time = 0;
  scene.Hello(1, hello);
  protocol::Evidence evidence = Scene::DeathOf(1, "signal 9");
  evidence.process = hello.process;
  scene.Step(ReportEvidence{{1}, scene.job(), "", evidence});
  EXPECT_EQ(scene.View().missing, 1) << "w-1 is still there";
}

TEST(EvidenceTest, AHintAboutAnotherGenerationIsNothing) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  for (const uint64_t generation : {0, 2}) {
    protocol::Evidence evidence = Scene::ResetBy(2);
    evidence.generation = {generation};
    EXPECT_EQ(scene.Says(1, evidence), "");
  }
  EXPECT_EQ(scene.WaitWithHeartbeats(5, {1, 2}), "");
}

TEST(EvidenceTest, TheEndOfWhoLeftInOrderIsNothing) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, protocol::Leave{.steps = 5});
  const size_t lines = scene.View().events.size();
  EXPECT_EQ(scene.Says(2, Scene::DeathOf(1, "exited with code 0")), "");
  EXPECT_EQ(scene.View().state, JobState::kRunning);
  EXPECT_EQ(scene.View().events.size(), lines) << "every launcher reports it";
}

TEST(EvidenceTest, ALauncherNeedsTheTokenAndAJob) {
  Scene scene(SpecOf(2));
  EXPECT_THAT(scene.Step(ReportEvidence{{1}, scene.job(), "", {}}),
              HasSubstr("answer 1: NOT_FOUND"));
  scene.Step(CreateJob{{2}, scene.spec(), "secret"});
  EXPECT_THAT(scene.Step(ReportEvidence{{3}, scene.job(), "guess", {}}),
              HasSubstr("answer 3: PERMISSION_DENIED"));
  EXPECT_EQ(scene.Step(ReportEvidence{{4}, scene.job(), "secret", {}}),
            "answer 4: OK");
}

TEST(EvidenceTest, AnArrivedWorkerThatDiesMakesRoom) {
  Scene scene(SpecOf(2));
  scene.Hello(1);
  scene.Step(ReportEvidence{
      {1}, scene.job(), "", Scene::DeathOf(1, "exited with code 1")});
  EXPECT_EQ(scene.View().missing, 2);
  protocol::Hello next = scene.HelloOf(1);
  next.life = 77;
  EXPECT_THAT(scene.Hello(5, next), HasSubstr("5 <- welcome, generation 2"));
}

// --- Hints ------------------------------------------------------------------

TEST(EvidenceTest, AHintAgainstOneThatLivesBreaksTheLink) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  EXPECT_EQ(scene.Says(1, Scene::ResetBy(2, "ECONNRESET")), "");
  EXPECT_EQ(scene.Wait(0.9), "");
  EXPECT_THAT(scene.Wait(0.1),
              AllOf(HasSubstr("3 <- ended 1 for good: w-1 (rank 0, host a, pid "
                              "101) and w-2 (rank 1, host a, pid 102) cannot "
                              "reach each other, though both live"),
                    HasSubstr("reset their data connection: ECONNRESET")));
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kLink);
  EXPECT_EQ(scene.View().cause.workers, (std::vector<WorkerName>{W(1), W(2)}));
}

TEST(EvidenceTest, AHintIsOvertakenByProof) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  scene.Says(1, Scene::ResetBy(2));
  scene.Wait(0.5);
  scene.Says(3, Scene::DeathOf(2, "signal 11"));
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kProcessDied);
}

TEST(EvidenceTest, AHintAgainstASuspectWaitsForItsOwnWindow) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  scene.Says(1, Scene::ResetBy(2));
  scene.Wait(0.9);
  scene.Closes(2, "reset");
  EXPECT_EQ(scene.Wait(0.5), "");
  scene.Wait(0.5);
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kStreamLost);
}

// Survivors of a death cut their links, and then accuse one another.
TEST(EvidenceTest, AHintAgainstOneThatLivesWaitsForASuspectsWindow) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  scene.Says(1, Scene::ResetBy(3));
  scene.Wait(0.2);
  scene.Closes(2, "reset");
  EXPECT_EQ(scene.Wait(0.9), "");
  scene.Wait(0.2);
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kStreamLost);
  EXPECT_EQ(scene.View().cause.workers, std::vector<WorkerName>{W(2)});
}

// A transfer with it has failed, so it has left too early.
TEST(EvidenceTest, AHintAgainstOneThatLeavesEndsTheEpoch) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, Scene::ResetBy(2));
  scene.Says(2, protocol::Leave{});
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kLeft);
  EXPECT_EQ(scene.View().cause.workers, std::vector<WorkerName>{W(2)});
}

// A cut link: both ends say so, and both are heard.
TEST(EvidenceTest, ASilentLinkIsNamedOnceTheAccusedIsHeard) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  scene.Says(1, protocol::Evidence{.subject = W(3),
                                   .generation = {1},
                                   .kind = EvidenceKind::kPeerSilent,
                                   .detail = "nothing came for 10s"});
  // It cut its links because of that, and a third says what it saw.
  scene.Says(2, Scene::ResetBy(1));
  EXPECT_EQ(scene.WaitWithHeartbeats(2, {1, 2}), "");
  EXPECT_EQ(scene.Says(3, protocol::Heartbeat{}), "");
  EXPECT_THAT(scene.WaitWithHeartbeats(2, {1, 2, 3}),
              AllOf(HasSubstr("w-1 (rank 0, host a, pid 101) and w-3 (rank 2, "
                              "host a, pid 103) cannot reach each other"),
                    HasSubstr("is silent on their data connection: nothing "
                              "came for 10s")));
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kLink);
  EXPECT_EQ(scene.View().cause.workers, (std::vector<WorkerName>{W(1), W(3)}));
}

// A stopped worker is silent to its peers and to the coordinator.
TEST(EvidenceTest, ASilentPeerThatIsStoppedIsNamedByItsLease) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  scene.WaitWithHeartbeats(2, {1, 2});
  scene.Says(1, protocol::Evidence{.subject = W(3),
                                   .generation = {1},
                                   .kind = EvidenceKind::kPeerSilent});
  scene.Says(2, Scene::ResetBy(1));
  EXPECT_EQ(scene.WaitWithHeartbeats(7, {1, 2}), "");
  EXPECT_THAT(scene.WaitWithHeartbeats(2, {1, 2}),
              HasSubstr("w-3 (rank 2, host a, pid 103) fell silent"));
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kLeaseExpired);
  EXPECT_EQ(scene.View().cause.workers, std::vector<WorkerName>{W(3)});
}

// Whatever the ends of a cut link say of where they are, they are not stuck.
TEST(EvidenceTest, ACutLinkEvictsNobody) {
  JobSpec spec = SpecOf(3);
  spec.on_stuck = OnStuck::kEvict;
  spec.timeouts.progress = absl::Seconds(4);
  spec.timeouts.resume = absl::Seconds(3);
  Scene scene(spec);
  scene.RunAll();
  for (const uint64_t session : {1, 2, 3}) {
    scene.Says(session, Stands(5, Phase::kTransfer));
  }
  EXPECT_EQ(scene.WaitWithHeartbeats(2, {1, 2, 3}), "");
  EXPECT_EQ(spec.timeouts.LinkSilence(), absl::Seconds(2));
  scene.Says(1, protocol::Evidence{.subject = W(3),
                                   .generation = {1},
                                   .kind = EvidenceKind::kPeerSilent});
  scene.Says(3, protocol::Evidence{.subject = W(1),
                                   .generation = {1},
                                   .kind = EvidenceKind::kPeerSilent});
  scene.WaitWithHeartbeats(6, {1, 2, 3});
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kLink);
  EXPECT_EQ(scene.View().cause.workers, (std::vector<WorkerName>{W(1), W(3)}));
}

// --- Silence ----------------------------------------------------------------

TEST(LeaseTest, SilenceEndsTheEpochAndSaysForHowLong) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  EXPECT_EQ(scene.WaitWithHeartbeats(9, {1}), "");
  EXPECT_THAT(
      scene.WaitWithHeartbeats(2, {1}),
      AllOf(HasSubstr("1 <- ended 1 for good: w-2 (rank 1, host a, pid "
                      "102) fell silent: nothing was heard of it for "
                      "10s, last heard at step 0 between steps, 10s ago"),
            HasSubstr("2 <- ended 1 for good")));
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kLeaseExpired);
}

TEST(LeaseTest, AllWhoFellSilentTogetherAreNamedInOneCause) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  scene.WaitWithHeartbeats(11, {1});
  EXPECT_EQ(scene.View().cause.workers, (std::vector<WorkerName>{W(2), W(3)}));
}

TEST(LeaseTest, EveryMessageRenewsIt) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  for (uint64_t step = 0; step < 30; ++step) {
    EXPECT_EQ(scene.Says(1, Stands(step, Phase::kCompute)), "");
    EXPECT_EQ(scene.Says(2, protocol::Heartbeat{}, EpochId{77}), "");
    EXPECT_EQ(scene.Wait(1), "");
  }
}

TEST(LeaseTest, AShortLeaseCountsEvenForASuspect) {
  JobSpec spec = SpecOf(2);
  spec.timeouts.lease = absl::Milliseconds(500);
  Scene scene(spec);
  scene.RunAll();
  scene.Closes(2);
  scene.Wait(0.5);
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kLeaseExpired);
}

// A coordinator that was stopped finds everybody silent; it was not they.
TEST(LeaseTest, LeasesBeginAnewWhenTheCoordinatorItselfWasStopped) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.WaitWithHeartbeats(3, {1, 2});
  scene.Pass(60);
  EXPECT_EQ(scene.Step(Wake{}), "");
  EXPECT_EQ(scene.WaitWithHeartbeats(9, {1}), "");
  EXPECT_THAT(scene.Wait(1), HasSubstr("w-2 (rank 1, host a, pid 102) fell "
                                       "silent"));
}

// However short the stop: it is never the reason why a worker is lost that
// heartbeats four times a lease.
TEST(LeaseTest, NoStopOfAnyLengthLosesAHealthyWorker) {
  for (int tenths = 0; tenths <= 300; ++tenths) {
    Scene scene(SpecOf(2));
    scene.RunAll();
    for (int beat = 0; beat < 3; ++beat) {
      scene.Wait(2.4);
      for (const uint64_t session : {1, 2}) {
        scene.Says(session, protocol::Heartbeat{});
      }
    }
    scene.Wait(2.3);  // their next words are about to be sent
    scene.Pass(tenths / 10.0);
    EXPECT_EQ(scene.Step(Wake{}), "") << "stopped for " << tenths / 10.0;
  }
}

// --- Failing ----------------------------------------------------------------

TEST(LocalFailureTest, AllGetRankCallAndMessage) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  const std::string said = scene.Says(
      2, protocol::LocalFailure{.step = 7,
                                .call = "GradientSync::Submit",
                                .code = absl::StatusCode::kInvalidArgument,
                                .message = "w was submitted twice"});
  const std::string message =
      "ended 1 for good: w-2 (rank 1, host a, pid 102): GradientSync::Submit "
      "failed at step 7: INVALID_ARGUMENT: w was submitted twice";
  EXPECT_THAT(
      said, AllOf(HasSubstr("1 <- " + message), HasSubstr("2 <- " + message)));
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kLocalFailure);
}

// Each rank finds it out, and one is the first to say so: nobody's fault.
TEST(LocalFailureTest, RanksThatDifferBlameNobody) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  const std::string said =
      scene.Says(2, protocol::LocalFailure{.step = 7,
                                           .code = absl::StatusCode::kAborted,
                                           .message = "ranks differ in x"});
  EXPECT_THAT(said, AllOf(HasSubstr("1 <- ended 1 for good: ranks differ in x"),
                          HasSubstr("w-2"), Not(HasSubstr("failed at"))));
  EXPECT_TRUE(scene.View().cause.workers.empty());
}

// --- Leaving ----------------------------------------------------------------

TEST(LeaveTest, WithoutFinishingEndsTheEpochWithTheReason) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  EXPECT_EQ(
      scene.Says(1, protocol::Leave{.clean = false, .reason = "an exception"}),
      "1 <- left\nclose 1: OK\n"
      "persist 6: epoch 1 ends\npersist 7: job failed\n"
      "2 <- ended 1 for good: w-1 (rank 0, host a, pid 101) left without "
      "finishing: an exception, at step 0 between steps");
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kLeft);
}

TEST(LeaveTest, InOrderAndAMomentBeforeTheOthersEndsNothing) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  scene.Says(2, Stands(19, Phase::kVerdict));
  scene.Says(1, protocol::Leave{.steps = 20});
  scene.Says(3, Stands(19, Phase::kVerdict));
  scene.Says(2, Stands(20, Phase::kIdle));
  EXPECT_EQ(scene.View().state, JobState::kRunning);
  scene.Says(2, protocol::Leave{.steps = 20});
  scene.Closes(1);
  scene.Closes(2);
  scene.Says(3, protocol::Leave{.steps = 20});
  EXPECT_EQ(scene.View().state, JobState::kCompleted);
}

TEST(LeaveTest, WhoStaysMaySaveAndTestAsLongAsItLives) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, protocol::Leave{.steps = 20});
  scene.Says(2, Stands(20, Phase::kIdle));
  EXPECT_EQ(scene.WaitWithHeartbeats(300, {2}), "");
  EXPECT_EQ(scene.View().stalls.size(), 1u) << "but it is shown";
  scene.Says(2, protocol::Leave{.steps = 20});
  EXPECT_EQ(scene.View().state, JobState::kCompleted);
}

TEST(LeaveTest, WhoGoesOnWithoutTheLeaverEndsTheEpoch) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  scene.Says(1, protocol::Leave{.steps = 20});
  EXPECT_EQ(scene.Says(2, Stands(20, Phase::kCompute)), "");
  EXPECT_THAT(scene.Says(2, Stands(20, Phase::kTransfer)),
              HasSubstr("3 <- ended 1 for good: w-1 (rank 0, host a, pid 101) "
                        "left after 20 steps, but w-2 goes on: it is at step "
                        "20 while waiting for transfers"));
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kLeft);
}

TEST(LeaveTest, WhoLeavesInTheMiddleEndsTheEpochAtOnce) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(2, Stands(20, Phase::kTransfer));
  EXPECT_THAT(scene.Says(1, protocol::Leave{.steps = 20}),
              HasSubstr("2 <- ended 1 for good: w-1"));
}

TEST(LeaveTest, WhoComputesAStepThatCannotEndIsNotWaitedForForEver) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, protocol::Leave{.steps = 20});
  scene.Says(2, Stands(20, Phase::kCompute));
  EXPECT_EQ(scene.WaitWithHeartbeats(29, {2}), "");
  EXPECT_THAT(scene.WaitWithHeartbeats(2, {2}),
              HasSubstr("w-1 (rank 0, host a, pid 101) left after 20 steps"));
}

TEST(LeaveTest, BeforeAnybodyRegisteredIsNoHarm) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  scene.Says(1, protocol::Leave{});
  EXPECT_EQ(scene.View().state, JobState::kSealed);
  scene.Says(2, protocol::Leave{});
  EXPECT_EQ(scene.View().state, JobState::kCompleted);
}

TEST(LeaveTest, WhoRegistersWithOneThatLeftEndsTheEpoch) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  scene.Says(1, protocol::Leave{});
  EXPECT_THAT(scene.Register(2, {ParameterNamed("a")}),
              HasSubstr("2 <- ended 1 for good: w-1 (rank 0, host a, pid 101) "
                        "left after 0 steps, but w-2 goes on"));
}

TEST(LeaveTest, IsAnsweredAgainOnAnotherStream) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, protocol::Leave{.steps = 3});
  EXPECT_EQ(scene.Resume(5, 1),
            "5 <- welcome back, generation 1\n5 <- left\nclose 5: OK");
  scene.Says(2, protocol::Leave{.steps = 3});
  EXPECT_EQ(scene.Resume(6, 2),
            "6 <- welcome back, generation 1\n6 <- left\nclose 6: OK")
      << "also when the job is over";
}

TEST(LeaveTest, ADeathAfterALeaveIsADeath) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, protocol::Leave{.steps = 3});
  scene.Step(
      ReportEvidence{{1}, scene.job(), "", Scene::DeathOf(2, "signal 9")});
  EXPECT_EQ(scene.View().cause.kind, CauseKind::kProcessDied);
}

// --- Forming again ----------------------------------------------------------

TEST(RestartBudgetTest, AnEpochEndsAndAnotherForms) {
  Scene scene(RestartingSpec(2));
  scene.RunAll();
  EXPECT_EQ(scene.Says(1, protocol::LocalFailure{.call = "f"}),
            "persist 6: epoch 1 ends\n"
            "1 <- ended 1: w-1 (rank 0, host a, pid 101): f failed at step 0: "
            "UNKNOWN: \n"
            "2 <- ended 1: w-1 (rank 0, host a, pid 101): f failed at step 0: "
            "UNKNOWN: ");
  EXPECT_EQ(scene.View().state, JobState::kEpochEnded);
  for (int i : {1, 2}) {
    protocol::Hello again = scene.HelloOf(i);
    again.generation = {1};
    scene.Hello(i, again);
  }
  scene.ConnectAll();
  EXPECT_EQ(scene.epoch(), EpochId{2});
}

TEST(RestartBudgetTest, WhenItIsSpentTheJobFails) {
  Scene scene(RestartingSpec(1, /*max_restarts=*/2));
  scene.RunAll();
  for (int life = 0; life < 2; ++life) {
    EXPECT_THAT(scene.Says(1, protocol::LocalFailure{.call = "f"}),
                AllOf(HasSubstr("1 <- ended"), Not(HasSubstr("for good"))));
    protocol::Hello again = scene.HelloOf(1);
    again.generation = {1};
    scene.Hello(1, again);
  }
  EXPECT_THAT(scene.Says(1, protocol::LocalFailure{.call = "f"}),
              HasSubstr("; the job does not form again: 2 restarts within 10m "
                        "were used up (limits.max_restarts)"));
}

TEST(RestartBudgetTest, RestartsBeforeTheWindowAreForgotten) {
  Scene scene(RestartingSpec(1, /*max_restarts=*/1));
  scene.RunAll();
  for (int life = 0; life < 4; ++life) {
    scene.Says(1, protocol::LocalFailure{.call = "f"});
    EXPECT_EQ(scene.View().state, JobState::kEpochEnded);
    protocol::Hello again = scene.HelloOf(1);
    again.generation = {1};
    scene.Hello(1, again);
    scene.WaitWithHeartbeats(601, {1});
  }
}

TEST(RestartBudgetTest, AStepThatFailsThreeTimesFailsTheJobWithAllCauses) {
  Scene scene(RestartingSpec(1));
  scene.JoinAll();
  std::string said;
  for (const char* call : {"first", "second", "third"}) {
    scene.ConnectAll();
    scene.Says(1, Stands(8, Phase::kCompute));
    said = scene.Says(1, protocol::LocalFailure{.step = 8, .call = call});
    protocol::Hello again = scene.HelloOf(1);
    again.generation = {1};
    scene.Hello(1, again);
  }
  EXPECT_THAT(
      said, AllOf(HasSubstr("step 8 failed 3 times"), HasSubstr("first failed"),
                  HasSubstr("second failed"), HasSubstr("for good")));
}

// --- Steps are counted over the job's life -----------------------------------

protocol::EpochFormed FormedIn(const Scene& scene) {
  for (const Effect& effect : scene.effects()) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    const auto* formed =
        std::get_if<protocol::EpochFormed>(&send->message.body);
    if (formed != nullptr) return *formed;
  }
  ADD_FAILURE() << "no epoch formed";
  return {};
}

std::string JoinsAgain(Scene& scene, int i) {
  protocol::Hello again = scene.HelloOf(i);
  again.generation = {1};
  return scene.Hello(i, again);
}

// Each epoch does five steps more than the one before, and fails.
TEST(GlobalStepsTest, FailuresAtFiveTenAndFifteenAreNotTheSame) {
  Scene scene(RestartingSpec(1));
  scene.JoinAll();
  for (const uint64_t step : {5, 10, 15, 20}) {
    EXPECT_EQ(FormedIn(scene).first_step, step - 5);
    scene.ConnectAll();
    scene.Says(1, Stands(step, Phase::kCompute));
    EXPECT_THAT(
        scene.Says(1, protocol::LocalFailure{.step = step, .call = "f"}),
        Not(HasSubstr("for good")));
    JoinsAgain(scene, 1);
  }
}

// Progress may be a tenth of a second old; what survivors report is exact.
TEST(GlobalStepsTest, ReportsOfSurvivorsCount) {
  Scene scene(RestartingSpec(2));
  scene.JoinAll();
  for (const uint64_t step : {5, 10, 15, 20}) {
    scene.ConnectAll();
    EXPECT_THAT(scene.Says(2, protocol::Leave{.clean = false, .steps = 0}),
                Not(HasSubstr("for good")))
        << "before step " << step;
    scene.Says(1, protocol::EpochReport{{step, Phase::kIdle}, ""});
    EXPECT_EQ(scene.View().step, step);
    JoinsAgain(scene, 1);
    scene.Closes(2);
    protocol::Hello other = scene.HelloOf(2);
    other.life = 2000 + step;
    scene.Hello(2, other);
    EXPECT_EQ(FormedIn(scene).first_step, step);
  }
}

TEST(GlobalStepsTest, AStepThatFailsAgainAfterReportsIsTheSame) {
  Scene scene(RestartingSpec(1));
  scene.JoinAll();
  std::string said;
  for (int i = 0; i < 3; ++i) {
    scene.ConnectAll();
    said = scene.Says(1, protocol::LocalFailure{.call = "f"});
    scene.Says(1, protocol::EpochReport{{8, Phase::kTransfer}, ""});
    JoinsAgain(scene, 1);
  }
  EXPECT_THAT(said, HasSubstr("step 8 failed 3 times"));
}

TEST(GlobalStepsTest, SurviveTheCoordinator) {
  Scene scene(RestartingSpec(1));
  scene.RunAll();
  scene.Says(1, Stands(7, Phase::kCompute));
  scene.Says(1, protocol::LocalFailure{.step = 7, .call = "f"});
  scene.Restart();
  JoinsAgain(scene, 1);
  EXPECT_EQ(FormedIn(scene).first_step, 7u);
  EXPECT_EQ(scene.ViewOf(1).position.step, 7u);
}

TEST(GlobalStepsTest, AShortJobThatIsOverShowsItsSteps) {
  Scene scene;
  scene.RunAll();
  for (const uint64_t session : {1, 2}) {
    scene.Says(session, protocol::Leave{.steps = 3});
  }
  EXPECT_EQ(scene.View().state, JobState::kCompleted);
  EXPECT_EQ(scene.View().step, 3u);
  EXPECT_EQ(scene.core().Jobs()[0].step, 3u);
  scene.Restart();
  scene.Step(Wake{});
  EXPECT_EQ(scene.View().step, 3u);
}

// --- How old a position is ---------------------------------------------------

TEST(PositionsTest, ADeathSaysHowOldTheWordIs) {
  Scene scene;
  scene.RunAll();
  scene.Says(2, Stands(12, Phase::kCompute));
  scene.Pass(0.8);
  EXPECT_THAT(
      scene.Step(
          ReportEvidence{{1}, scene.job(), "", Scene::DeathOf(2, "killed")}),
      HasSubstr("died: killed, last heard at step 12 while computing, 800ms "
                "ago"));
}

TEST(PositionsTest, SurvivorsSayWhereTheyStood) {
  Scene scene;
  scene.RunAll();
  scene.Pass(0.5);
  scene.Step(
      ReportEvidence{{1}, scene.job(), "", Scene::DeathOf(2, "signal 9")});
  scene.Says(1, protocol::EpochReport{{5, Phase::kTransfer}, ""});
  EXPECT_EQ(scene.View().step, 5u);
  EXPECT_EQ(scene.View().events.back().text,
            "w-1 stands at step 5 while waiting for transfers");
}

// --- How a process died
// --------------------------------------------------------

TEST(ProofTest, ALaunchersWordIsAddedToThatOfASurvivor) {
  Scene scene(RestartingSpec(2));
  scene.RunAll();
  protocol::Evidence pidfd = Scene::DeathOf(2, "the process has ended");
  pidfd.generation = {1};
  scene.Says(1, pidfd);
  EXPECT_THAT(scene.View().cause.message,
              HasSubstr("died: the process has ended"));
  const Event report =
      ReportEvidence{{1},
                     scene.job(),
                     "",
                     Scene::DeathOf(2, "process 102 killed by signal 9")};
  scene.Step(report);
  scene.Step(report);
  EXPECT_THAT(scene.View().cause.message,
              AllOf(HasSubstr("died: the process has ended"),
                    EndsWith(" (w-2: process 102 killed by signal 9)")));
  EXPECT_THAT(scene.View().events.back().text, HasSubstr("killed by signal 9"));

  scene.Restart();
  EXPECT_THAT(scene.View().cause.message,
              EndsWith(" (w-2: process 102 killed by signal 9)"))
      << "it is journaled";
}

TEST(ProofTest, ALaunchersWordIsAddedAfterTheEndOfTheJob) {
  Scene scene(SpecOf(2));  // no restarts
  scene.RunAll();
  protocol::Evidence pidfd = Scene::DeathOf(2, "the process has ended");
  pidfd.generation = {1};
  scene.Says(1, pidfd);
  ASSERT_EQ(scene.View().state, JobState::kFailed);
  scene.Step(ReportEvidence{
      {1}, scene.job(), "", Scene::DeathOf(2, "killed by signal 9")});
  EXPECT_THAT(scene.View().cause.message,
              EndsWith(" (w-2: killed by signal 9)"));
}

TEST(ProofTest, AJobThatDoesNotFormAgainNamesTheSignal) {
  Scene scene(RestartingSpec(2));
  scene.RunAll();
  scene.Step(ReportEvidence{
      {1}, scene.job(), "", Scene::DeathOf(2, "killed by signal 9")});
  JoinsAgain(scene, 1);
  EXPECT_THAT(scene.WaitWithHeartbeats(61, {1}),
              AllOf(HasSubstr("1 of 2 workers is missing: w-2"),
                    HasSubstr("killed by signal 9")));
}

TEST(RestartBudgetTest, SurvivorsThatDoNotComeAgainMissTheDeadline) {
  Scene scene(RestartingSpec(2));
  scene.RunAll();
  scene.Says(1, protocol::LocalFailure{.call = "f"});
  protocol::Hello again = scene.HelloOf(1);
  again.generation = {1};
  scene.Hello(1, again);
  const std::string said = scene.WaitWithHeartbeats(61, {1, 2});
  EXPECT_THAT(said, AllOf(HasSubstr("1 <- refused DEADLINE_EXCEEDED"),
                          HasSubstr("1 of 2 workers is missing: w-2"),
                          HasSubstr("2 <- ended 0 for good")));
}

TEST(EpochReportTest, IsRememberedForPeople) {
  Scene scene(RestartingSpec(2));
  scene.RunAll();
  scene.Says(1, protocol::LocalFailure{.call = "f"});
  scene.Says(2, protocol::EpochReport{{7, Phase::kTransfer}, "verdict"});
  EXPECT_EQ(scene.View().events.back().text,
            "w-2 stands at step 7 while waiting for transfers and has "
            "passed the verdict of step 6");
}

// --- Operators --------------------------------------------------------------

TEST(StopTest, EndsTheEpochForAllWithTheReason) {
  Scene scene(RestartingSpec(2));
  scene.RunAll();
  EXPECT_EQ(scene.Step(StopJob{{5}, scene.job(), "", "maintenance"}),
            "persist 6: epoch 1 ends\npersist 7: job stopped\n"
            "1 <- ended 1 for good: stopped by an operator: maintenance\n"
            "2 <- ended 1 for good: stopped by an operator: maintenance\n"
            "answer 5: OK");
  EXPECT_EQ(scene.View().state, JobState::kStopped);
  EXPECT_THAT(scene.Step(StopJob{{6}, scene.job(), "", ""}),
              HasSubstr("answer 6: FAILED_PRECONDITION: job digits is over"));
}

TEST(StopTest, ReachesThoseThatStillWait) {
  Scene scene(SpecOf(2));
  scene.Hello(1);
  EXPECT_EQ(scene.Step(StopJob{{5}, scene.job(), "", ""}),
            "persist 3: job stopped\n"
            "1 <- ended 0 for good: stopped by an operator\nanswer 5: OK");
}

TEST(ShutdownTest, ClosesEveryStreamAndEndsNoJob) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  EXPECT_EQ(scene.Step(ShuttingDown{}),
            "close 1: UNAVAILABLE: coordinator is shutting down\n"
            "close 2: UNAVAILABLE: coordinator is shutting down");
  EXPECT_EQ(scene.View().state, JobState::kRunning);
  EXPECT_EQ(scene.core().NextWake(), absl::InfiniteFuture());
  EXPECT_EQ(scene.Closes(1), "");
  EXPECT_EQ(scene.Hello(7),
            "close 7: UNAVAILABLE: coordinator is shutting "
            "down");
  EXPECT_EQ(scene.Step(CreateJob{{1}, SpecOf(1, "other"), ""}),
            "answer 1: UNAVAILABLE: coordinator is shutting down");
}

}  // namespace
}  // namespace lockstep::core
