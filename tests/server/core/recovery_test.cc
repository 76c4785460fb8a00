// From the end of an epoch to the state that the next one begins with:
// positions, the decision, and who holds the state.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/recovery_tracker.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using protocol::CauseKind;
using protocol::EpochReport;
using protocol::Phase;
using protocol::RecoveryDecision;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- The decision -----------------------------------------------------------

class DecisionTest : public testing::Test {
 protected:
  static EpochReport At(uint64_t step, Phase phase, std::string verdict = "",
                        bool holds_state = true) {
    return {{step, phase}, std::move(verdict), holds_state};
  }

  RecoveryTracker Three(std::map<WorkerName, Departure> left = {}) {
    return RecoveryTracker(
        std::vector<protocol::Member>{{W(0)}, {W(1)}, {W(2)}}, left);
  }
};

TEST_F(DecisionTest, WaitsForAllMembers) {
  RecoveryTracker tracker = Three();
  EXPECT_THAT(tracker.Awaited(), ElementsAre(W(0), W(1), W(2)));
  tracker.Report(W(1), At(5, Phase::kCompute));
  tracker.Report(W(1), At(9, Phase::kCompute));  // repeated: no effect
  tracker.Report(W(7), At(9, Phase::kCompute));  // no member
  tracker.Forget(W(2));
  EXPECT_THAT(tracker.Awaited(), ElementsAre(W(0)));
  EXPECT_FALSE(tracker.settled());
  tracker.Report(W(0), At(5, Phase::kIdle));
  EXPECT_TRUE(tracker.settled());
  EXPECT_EQ(tracker.Decide(), (RecoveryDecision{5, "", {0, 1}}));
}

TEST_F(DecisionTest, ALostMemberThatComesBackCounts) {
  RecoveryTracker tracker = Three();
  for (const int i : {0, 1, 2}) tracker.Forget(W(i));
  EXPECT_FALSE(tracker.any_reported());
  tracker.Report(W(2), At(4, Phase::kIdle));
  EXPECT_EQ(tracker.Decide(), (RecoveryDecision{4, "", {2}}));
}

TEST_F(DecisionTest, NobodyPassedTheVerdict) {
  RecoveryTracker tracker = Three();
  tracker.Report(W(0), At(5, Phase::kVerdict, "v4"));
  tracker.Report(W(1), At(5, Phase::kTransfer, "v4"));
  tracker.Report(W(2), At(5, Phase::kVerdict, "v4"));
  EXPECT_EQ(tracker.Decide(), (RecoveryDecision{5, "", {0, 1, 2}}));
}

TEST_F(DecisionTest, WhoIsBehindGetsTheVerdict) {
  RecoveryTracker tracker = Three();
  tracker.Report(W(0), At(5, Phase::kVerdict, "v4"));
  tracker.Report(W(1), At(6, Phase::kIdle, "v5"));
  tracker.Forget(W(2));
  EXPECT_EQ(tracker.Decide(), (RecoveryDecision{6, "v5", {0, 1}}));
}

// The verdict that a rank ahead has is of the step before, from step 1 on:
// that it is not empty says nothing.
TEST_F(DecisionTest, AVerdictAloneIsNoReasonToRollForward) {
  RecoveryTracker tracker = Three();
  for (const int i : {0, 1, 2}) tracker.Report(W(i), At(5, Phase::kIdle, "v4"));
  EXPECT_EQ(tracker.Decide().verdict, "");
}

TEST_F(DecisionTest, WhoCannotFollowIsANewcomer) {
  RecoveryTracker tracker = Three();
  tracker.Report(W(0), At(5, Phase::kTransfer, "v4"));  // no verdict to pass
  tracker.Report(W(1), At(6, Phase::kIdle, "v5"));
  tracker.Report(W(2), At(3, Phase::kVerdict, "v2"));  // too far behind
  EXPECT_EQ(tracker.Decide(), (RecoveryDecision{6, "", {1}}));
}

TEST_F(DecisionTest, ANewcomerWithoutStateHoldsNone) {
  RecoveryTracker tracker = Three();
  tracker.Report(W(0), At(5, Phase::kIdle));
  tracker.Report(W(1), At(5, Phase::kIdle, "", /*holds_state=*/false));
  tracker.Forget(W(2));
  EXPECT_EQ(tracker.Decide(), (RecoveryDecision{5, "", {0}}));
}

TEST_F(DecisionTest, ALeaverHasPassed) {
  RecoveryTracker tracker = Three({{W(1), Departure{6, "v5", {}}}});
  tracker.Report(W(0), At(5, Phase::kVerdict, "v4"));
  tracker.Report(W(2), At(5, Phase::kVerdict, "v4"));
  EXPECT_EQ(tracker.Decide(), (RecoveryDecision{6, "v5", {0, 2}}));
}

TEST_F(DecisionTest, OneThatLeavesWhenTheEpochEndsHasPassedToo) {
  RecoveryTracker tracker = Three();
  tracker.Report(W(0), At(5, Phase::kVerdict, "v4"));
  tracker.Leave(W(1), {6, "v5", {}});
  tracker.Forget(W(2));
  EXPECT_EQ(tracker.Decide(), (RecoveryDecision{6, "v5", {0}}));
}

TEST_F(DecisionTest, ALeaverWithoutAVerdictCannotBeFollowed) {
  RecoveryTracker tracker = Three({{W(1), Departure{6, "", {}}}});
  tracker.Report(W(0), At(5, Phase::kVerdict, "v4"));
  tracker.Forget(W(2));
  EXPECT_EQ(tracker.Decide(), (RecoveryDecision{5, "", {0}}));
}

// --- In a job ---------------------------------------------------------------

class RecoveryOfAJobTest : public testing::Test {
 protected:
  RecoveryOfAJobTest() {
    fixture_.RunAll();
    fixture_.Step(ReportEvidence{
        {1}, fixture_.job(), "", CoordinatorFixture::DeathOf(3, "signal 9")});
  }

  static EpochReport At(uint64_t step, Phase phase,
                        const std::string& verdict = "") {
    return {{step, phase}, verdict, /*holds_state=*/true};
  }
  // A new incarnation of worker i.
  EffectList Joins(int i, std::optional<protocol::HeldState> held) {
    protocol::Hello hello = fixture_.HelloOf(i);
    hello.incarnation = 500 + i;
    hello.held = held;
    return fixture_.Hello(i + 10, hello);
  }
  const DurableJob& durable() const { return fixture_.durable_job(); }

  CoordinatorFixture fixture_{RestartingSpec(3)};
};

TEST_F(RecoveryOfAJobTest, AllThatReportedLearnTheDecision) {
  EXPECT_THAT(fixture_.Says(1, At(6, Phase::kIdle, "v5")), NoEffects());
  EXPECT_THAT(fixture_.Says(2, At(5, Phase::kVerdict)),
              EffectsAre(Persists(RecoveryDecided(1)),
                         Sends(1, Any<RecoveryDecision>()),
                         Sends(2, Any<RecoveryDecision>())));
  EXPECT_EQ(durable().recovery, (RecoveryDecision{6, "v5", {0, 1}}));
  EXPECT_EQ(durable().steps, 6u);
  EXPECT_EQ(fixture_.View().events.back().text,
            "epoch 1 is settled: roll forward to step 6");
}

TEST_F(RecoveryOfAJobTest, TheNextEpochKnowsWhoHoldsTheState) {
  fixture_.Says(1, At(5, Phase::kCompute));
  fixture_.Says(2, At(5, Phase::kCompute));
  Joins(3, std::nullopt);
  Joins(1, protocol::HeldState{{1}, 5});
  Joins(2, protocol::HeldState{{1}, 5});
  EXPECT_EQ(durable().epoch, EpochId{2});
  EXPECT_EQ(durable().first_step, 5u);
  EXPECT_THAT(durable().holders, ElementsAre(0, 1));
  EXPECT_FALSE(durable().recovery);
}

TEST_F(RecoveryOfAJobTest, AFalseClaimIsThatOfANewcomer) {
  fixture_.Says(1, At(5, Phase::kCompute));
  fixture_.Says(2, At(5, Phase::kCompute));
  Joins(3, protocol::HeldState{{1}, 5});  // it did not report
  EXPECT_THAT(fixture_.View().events.back().text, HasSubstr("joins"));
  Joins(1, protocol::HeldState{{1}, 7});   // after other steps
  Joins(2, protocol::HeldState{{77}, 5});  // of another epoch
  EXPECT_EQ(durable().epoch, EpochId{2});
  EXPECT_THAT(durable().holders, IsEmpty());
}

// Two members on one host expire milliseconds apart.
TEST_F(RecoveryOfAJobTest, NoEpochFormsBeforeAllAreSettled) {
  fixture_.Says(1, At(5, Phase::kCompute));
  EXPECT_EQ(durable().recovery, std::nullopt) << "worker 2 may still report";
  fixture_.Step(ReportEvidence{
      {2}, fixture_.job(), "", CoordinatorFixture::DeathOf(2, "signal 9")});
  EXPECT_EQ(durable().recovery, (RecoveryDecision{5, "", {0}}));
}

// The leases of two dead workers end milliseconds apart.
TEST(LeasesOfOneHostTest, AreSettledTogether) {
  JobSpec spec = RestartingSpec(3);
  spec.elastic = {.axis = "data"};
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  fixture.Says(2, protocol::Heartbeat{});
  fixture.Pass(0.005);
  fixture.Says(3, protocol::Heartbeat{});
  fixture.WaitWithHeartbeats(9, {1});
  fixture.Wait(0.9951);  // now the lease of worker 2 has ended
  ASSERT_EQ(fixture.ViewOf(2).state, WorkerState::kLost);
  ASSERT_EQ(fixture.ViewOf(3).state, WorkerState::kJoining);
  fixture.Says(1, EpochReport{{5, Phase::kCompute}, "", true}, {1});
  EXPECT_EQ(fixture.durable_job().recovery, std::nullopt)
      << "worker 3 may still report";
  fixture.Wait(0.006);
  EXPECT_EQ(fixture.durable_job().recovery, (RecoveryDecision{5, "", {0}}));
  protocol::Hello again = fixture.HelloOf(1);
  again.incarnation = 501;
  again.held = protocol::HeldState{{1}, 5};
  fixture.Hello(11, again);
  EXPECT_EQ(fixture.epoch(), EpochId{2});
  EXPECT_EQ(fixture.durable_job().members.size(), 1u);
}

// Progress is as old as the network makes it, and a worker that leaves
// unfinished may say anything.
TEST_F(RecoveryOfAJobTest, NeitherProgressNorAnUncleanLeaveDecides) {
  CoordinatorFixture fixture(RestartingSpec(3));
  fixture.RunAll();
  fixture.Says(1, Stands(9, Phase::kIdle));
  fixture.Says(3, protocol::Leave{.clean = false, .steps = 12});
  fixture.Says(1, At(5, Phase::kCompute), {1});
  fixture.Says(2, At(5, Phase::kCompute), {1});
  EXPECT_EQ(fixture.durable_job().recovery, (RecoveryDecision{5, "", {0, 1}}));
  EXPECT_EQ(fixture.durable_job().steps, 5u);
}

// A survivor has a descriptor of its process.
TEST_F(RecoveryOfAJobTest, ASurvivorsProofOfASecondDeathSettlesItAtOnce) {
  fixture_.Says(1, At(5, Phase::kCompute));
  protocol::Evidence proof = CoordinatorFixture::DeathOf(2, "ended");
  proof.generation = {1};
  fixture_.Says(1, proof, {1});
  EXPECT_EQ(durable().recovery, (RecoveryDecision{5, "", {0}}));
}

TEST_F(RecoveryOfAJobTest, ProofOfAnEarlierEpochIsNothing) {
  fixture_.Says(1, At(5, Phase::kCompute));
  protocol::Evidence proof = CoordinatorFixture::DeathOf(2, "ended");
  proof.generation = {1};
  EXPECT_THAT(fixture_.Says(1, proof, {0}), NoEffects());
  EXPECT_EQ(durable().recovery, std::nullopt);
}

TEST_F(RecoveryOfAJobTest, AWorkerThatKeepsNoStateIsNotAwaited) {
  fixture_.Says(1, At(5, Phase::kCompute));
  Joins(2, std::nullopt);
  EXPECT_EQ(durable().recovery, (RecoveryDecision{5, "", {0}}));
}

TEST_F(RecoveryOfAJobTest, ARestartedCoordinatorRepeatsItsDecision) {
  fixture_.Says(1, At(5, Phase::kCompute));
  fixture_.Says(2, At(5, Phase::kCompute));
  fixture_.Restart();
  EXPECT_THAT(fixture_.Resume(21, 1),
              Includes(Sends(21, Any<protocol::EpochEnded>()),
                       Sends(21, Any<RecoveryDecision>())));
}

TEST_F(RecoveryOfAJobTest, ARestartedCoordinatorTakesReportsAgain) {
  fixture_.Says(1, At(5, Phase::kCompute));
  fixture_.Restart();
  fixture_.Resume(21, 1);
  fixture_.Says(21, At(5, Phase::kCompute), {1});
  EXPECT_EQ(durable().recovery, std::nullopt);
  fixture_.Resume(22, 2);
  fixture_.Says(22, At(5, Phase::kVerdict), {1});
  EXPECT_EQ(durable().recovery, (RecoveryDecision{5, "", {0, 1}}))
      << "worker 3 was known to be dead";
}

TEST_F(RecoveryOfAJobTest, ARestartedCoordinatorAwaitsReportsForALease) {
  fixture_.Restart();
  fixture_.Resume(21, 1);
  fixture_.Says(21, At(5, Phase::kCompute), {1});
  fixture_.WaitWithHeartbeats(5, {21});
  EXPECT_EQ(durable().recovery, std::nullopt) << "worker 2 may come";
  fixture_.WaitWithHeartbeats(15, {21});
  EXPECT_EQ(durable().recovery, (RecoveryDecision{5, "", {0}}));
}

// A rank died in the last step, which another one had passed.
TEST_F(RecoveryOfAJobTest, CompletesOnceAllThatHoldTheLastStateHaveLeft) {
  fixture_.Says(1, At(6, Phase::kIdle, "v5"));
  fixture_.Says(2, At(5, Phase::kVerdict));
  fixture_.Says(1, protocol::Leave{.clean = true, .steps = 6}, {1});
  EXPECT_EQ(fixture_.View().state, JobState::kEpochEnded);
  fixture_.Says(2, protocol::Leave{.clean = true, .steps = 6}, {1});
  EXPECT_EQ(fixture_.View().state, JobState::kCompleted);
}

TEST_F(RecoveryOfAJobTest, DoesNotCompleteIfOneLeavesUnfinished) {
  fixture_.Says(1, At(5, Phase::kIdle));
  fixture_.Says(2, At(5, Phase::kVerdict));
  fixture_.Says(1, protocol::Leave{.clean = false, .steps = 5}, {1});
  fixture_.Says(2, protocol::Leave{.clean = true, .steps = 5}, {1});
  EXPECT_EQ(fixture_.View().state, JobState::kEpochEnded);
}

TEST_F(RecoveryOfAJobTest, ALateReportDoesNotChangeTheDecision) {
  fixture_.Says(1, At(5, Phase::kCompute));
  fixture_.Step(ReportEvidence{
      {2}, fixture_.job(), "", CoordinatorFixture::DeathOf(2, "signal 9")});
  const auto decided = durable().recovery;
  fixture_.Says(1, At(9, Phase::kCompute));
  EXPECT_EQ(durable().recovery, decided);
}

// --- Members that live and do not go on -------------------------------------

// Worker 3 has died; the progress lease is 20 s, the join deadline 100 s.
class HungMemberTest : public testing::Test {
 protected:
  static JobSpec Spec(OnStuck on_stuck) {
    JobSpec spec = RestartingSpec(3);
    spec.on_stuck = on_stuck;
    spec.timeouts.progress = absl::Seconds(20);
    spec.timeouts.join = absl::Seconds(100);
    spec.elastic = {.axis = "data"};
    return spec;
  }
  explicit HungMemberTest(OnStuck on_stuck = OnStuck::kEvict)
      : fixture_(Spec(on_stuck)) {
    fixture_.RunAll();
    fixture_.Step(ReportEvidence{
        {1}, fixture_.job(), "", CoordinatorFixture::DeathOf(3, "signal 9")});
  }
  void Reports(int i) {
    fixture_.Says(i, EpochReport{{5, Phase::kCompute}, "", true}, {1});
  }
  void JoinsAgain(int i) {
    protocol::Hello hello = fixture_.HelloOf(i);
    hello.incarnation = 500 + i;
    hello.held = protocol::HeldState{{1}, 5};
    fixture_.Hello(i + 10, hello);
  }
  const DurableJob& durable() const { return fixture_.durable_job(); }

  CoordinatorFixture fixture_;
};

TEST_F(HungMemberTest, OneThatDoesNotReportIsPresumedLost) {
  Reports(1);
  fixture_.WaitWithHeartbeats(19, {1, 2});
  EXPECT_EQ(durable().recovery, std::nullopt);
  fixture_.WaitWithHeartbeats(2, {1, 2});
  EXPECT_EQ(durable().recovery, (RecoveryDecision{5, "", {0}}));
  EXPECT_EQ(fixture_.ViewOf(2).state, WorkerState::kLost);
}

TEST_F(HungMemberTest, OneThatDoesNotJoinAgainIsPresumedLost) {
  Reports(1);
  Reports(2);
  fixture_.WaitWithHeartbeats(10, {1, 2});
  JoinsAgain(1);
  fixture_.WaitWithHeartbeats(9, {2, 11});
  EXPECT_EQ(durable().epoch, EpochId{1});
  fixture_.WaitWithHeartbeats(2, {2, 11});
  EXPECT_EQ(durable().epoch, EpochId{2});
  EXPECT_EQ(durable().members.size(), 1u);
}

// The session is gone, and the process may hang.
TEST_F(HungMemberTest, NorIsOneAwaitedThatLeftToReturn) {
  Reports(1);
  Reports(2);
  fixture_.Says(2, protocol::Leave{.clean = false, .steps = 5, .returns = true},
                {1});
  JoinsAgain(1);
  fixture_.WaitWithHeartbeats(19, {11});
  EXPECT_EQ(durable().epoch, EpochId{1});
  fixture_.WaitWithHeartbeats(2, {11});
  EXPECT_EQ(durable().epoch, EpochId{2});
}

TEST_F(HungMemberTest, ANewcomerLearnsForWhomARankIsKeptAndHowLong) {
  Reports(1);
  Reports(2);
  fixture_.Says(2, protocol::Leave{.clean = false, .steps = 5, .returns = true},
                {1});
  JoinsAgain(1);
  fixture_.Hello(4);
  fixture_.WaitWithHeartbeats(4, {4, 11});
  EXPECT_THAT(
      fixture_.Hello(5),
      Refuses(5, absl::StatusCode::kFailedPrecondition,
              testing::AllOf(HasSubstr("2 of 3 are held, by w-1 and w-4"),
                             HasSubstr("a rank is kept for w-2, which "
                                       "left to join again 4s ago, "
                                       "for 16s more"))));
}

TEST_F(HungMemberTest, OneThatIsBusyIsAwaitedAsLongAsItSays) {
  Reports(1);
  fixture_.Says(2, protocol::Busy{"loads data", absl::Seconds(40)}, {1});
  fixture_.WaitWithHeartbeats(39, {1, 2});
  EXPECT_EQ(durable().recovery, std::nullopt);
  EXPECT_THAT(fixture_.Stalls(),
              testing::Not(testing::Contains(HasSubstr("w-2"))));
  fixture_.WaitWithHeartbeats(2, {1, 2});
  EXPECT_EQ(durable().recovery, (RecoveryDecision{5, "", {0}}));
}

class ReportedHungMemberTest : public HungMemberTest {
 protected:
  ReportedHungMemberTest() : HungMemberTest(OnStuck::kReport) {}
};

TEST_F(ReportedHungMemberTest, IsNamedAndAwaited) {
  Reports(1);
  fixture_.WaitWithHeartbeats(19, {1, 2});
  EXPECT_THAT(fixture_.Stalls(), IsEmpty());
  JoinsAgain(1);
  fixture_.WaitWithHeartbeats(30, {2, 11});
  EXPECT_EQ(durable().recovery, std::nullopt);
  const JobView view = fixture_.View();
  ASSERT_EQ(view.stalls.size(), 1u);
  EXPECT_EQ(view.stalls[0].worker, W(2));
  EXPECT_EQ(view.stalls[0].text,
            "epoch 1 ended 49s ago, and w-2 (host a, pid 102) has not joined "
            "again");
}

// --- Members that left after the last step ----------------------------------

// Two have left after the last step, and the third sees their connections
// close.
class LastLeaverTest : public testing::Test {
 protected:
  LastLeaverTest() {
    fixture_.RunAll();
    fixture_.Says(1, protocol::Leave{.clean = true, .steps = 6});
    fixture_.Says(2, protocol::Leave{.clean = true, .steps = 6});
  }
  void Dies(int i) {
    fixture_.Step(ReportEvidence{
        {2}, fixture_.job(), "", CoordinatorFixture::DeathOf(i, "signal 9")});
  }

  CoordinatorFixture fixture_{RestartingSpec(3)};
};

TEST_F(LastLeaverTest, CompletesTheJobThoughItMissedTheOthers) {
  fixture_.Says(3, CoordinatorFixture::ResetBy(1));
  EXPECT_EQ(fixture_.View().cause.kind, CauseKind::kLeft);
  EXPECT_EQ(fixture_.View().state, JobState::kEpochEnded);
  fixture_.Says(3, protocol::Leave{.clean = true, .steps = 6}, {1});
  EXPECT_EQ(fixture_.View().state, JobState::kCompleted);
}

TEST_F(LastLeaverTest, CompletesTheJobThoughItDiesInTheLastStep) {
  fixture_.Says(3, Stands(5, Phase::kVerdict));
  fixture_.Says(3, CoordinatorFixture::ResetBy(1));
  EXPECT_EQ(fixture_.View().state, JobState::kEpochEnded);
  Dies(3);
  EXPECT_EQ(fixture_.View().state, JobState::kCompleted);
}

TEST_F(LastLeaverTest, DoesNotCompleteTheJobIfItWantedMore) {
  fixture_.Says(3, Stands(6, Phase::kTransfer));
  EXPECT_EQ(fixture_.View().cause.kind, CauseKind::kLeft);
  Dies(3);
  EXPECT_EQ(fixture_.View().state, JobState::kEpochEnded);
}

// What it reports when it has quiesced counts, and not the progress known
// before.
TEST_F(LastLeaverTest, DoesNotCompleteTheJobIfItReportsThatItWantedMore) {
  fixture_.Says(3, CoordinatorFixture::ResetBy(1));
  fixture_.Says(
      3, EpochReport{.position = {6, Phase::kTransfer}, .holds_state = true});
  Dies(3);
  EXPECT_EQ(fixture_.View().state, JobState::kEpochEnded);
}

// A rank whose evidence had no effect here has ended its epoch alone.
TEST(ReportOfALiveEpochTest, EndsIt) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Says(1, EpochReport{{5, Phase::kCompute}, "", true});
  EXPECT_EQ(fixture.View().state, JobState::kEpochEnded);
  EXPECT_THAT(fixture.View().cause.message,
              HasSubstr("w-1 (rank 0, host a, pid 101) has ended the epoch"));
}

}  // namespace
}  // namespace lockstep::core
