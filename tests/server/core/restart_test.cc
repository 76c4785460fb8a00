// A coordinator crashes and another replays its records.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using protocol::Phase;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The Hello of worker i on a new stream after it has accepted the plan ...
protocol::Hello Holding(const CoordinatorFixture& fixture, int i) {
  protocol::Hello hello = fixture.HelloOf(i);
  hello.generation = {1};
  hello.resume =
      protocol::ResumeState{.epoch = fixture.epoch(),
                            .revision = fixture.durable_job().revision,
                            .plan_digest = fixture.durable_job().plan_digest};
  return hello;
}

// ... and after Start.
protocol::Hello Running(const CoordinatorFixture& fixture, int i) {
  protocol::Hello hello = Holding(fixture, i);
  hello.resume->position = {12, Phase::kCompute};
  hello.resume->started = true;
  return hello;
}

TEST(RestartTest, WorkersThatTrainedThroughItResumeAndNothingIsLost) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  const protocol::PlanPart plan = fixture.PlanAsPart();
  fixture.Restart();
  EXPECT_THAT(
      fixture.Hello(11, Running(fixture, 1)),
      EffectsAre(Sends(11, WelcomeBack(1)),
                 Sends(11, EpochFormed(1, 0, {"w-1", "w-2"})),
                 Sends(11, Start()), Sends(11, PlanWanted(plan.digest))));
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_THAT(fixture.Hello(12, Running(fixture, 2)),
              EffectsAre(Sends(12, WelcomeBack(1)),
                         Sends(12, EpochFormed(1, 1, {"w-1", "w-2"})),
                         Sends(12, Start())))
      << "one member is enough";
  EXPECT_EQ(fixture.ViewOf(2).state, WorkerState::kReady);
  EXPECT_THAT(fixture.Says(11, plan), NoEffects());
  EXPECT_THAT(fixture.WaitWithHeartbeats(60, {11, 12}), NoEffects());
  fixture.Says(11, protocol::Leave{.steps = 20});
  fixture.Says(12, protocol::Leave{.steps = 20});
  EXPECT_EQ(fixture.View().state, JobState::kCompleted);
}

TEST(RestartTest, WhoLeftInOrderBeforeItHasLeft) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  const protocol::PlanPart plan = fixture.PlanAsPart();
  fixture.Says(1, protocol::Leave{.steps = 20});
  fixture.Says(3, protocol::Leave{.steps = 20});
  fixture.Restart();
  fixture.Hello(12, Running(fixture, 2));
  fixture.Says(12, plan);
  EXPECT_EQ(fixture.View().parameters.size(), 2u);
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kLeft);
  EXPECT_THAT(fixture.WaitWithHeartbeats(60, {12}), NoEffects())
      << "nobody is missed";
  EXPECT_EQ(fixture.ViewOf(3).state, WorkerState::kLeft);
  fixture.Says(12, protocol::Leave{.steps = 20});
  EXPECT_EQ(fixture.View().state, JobState::kCompleted);
}

// One that has left resumes no more, so it is not waited for.
TEST(RestartTest, WhoLeftBeforeItIsNotExpectedToHaveThePlan) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  const std::string digest = fixture.PlanAsPart().digest;
  fixture.Says(1, protocol::Leave{.steps = 20});
  fixture.Restart();
  EXPECT_THAT(fixture.Hello(12, Running(fixture, 2)),
              Includes(Sends(12, PlanWanted(digest))));
  EXPECT_THAT(fixture.Says(12, protocol::PlanPart{.digest = digest}),
              EffectsAre(Sends(12, RegistrationWanted())));
}

TEST(RestartTest, TheLastHadLeftAndTheEndWasNotRecorded) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{.steps = 20});
  fixture.Says(2, protocol::Leave{.steps = 20});
  fixture.Restart(/*forgotten=*/1);
  EXPECT_THAT(fixture.Step(TimerExpired{}),
              Includes(Persists(JobEnded(record::JobOutcome::kCompleted))));
}

// The worker's Left was lost with the coordinator: Leave must not fail.
TEST(RestartTest, WhoLeftBeforeTheJobsEndIsToldSoAfterIt) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{.steps = 20});
  fixture.Says(2, protocol::Leave{.steps = 20});
  ASSERT_EQ(fixture.View().state, JobState::kCompleted);
  fixture.Restart();
  protocol::Hello hello = Running(fixture, 2);
  hello.resume->leaving = true;
  EXPECT_THAT(fixture.Hello(12, hello), Includes(Sends(12, Left())));
}

TEST(RestartTest, WhoLeftBeforeItIsMissedByWhoGoesOn) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{.steps = 20});
  fixture.Restart();
  fixture.Hello(12, Running(fixture, 2));
  EXPECT_THAT(
      fixture.Says(12, Stands(20, protocol::Phase::kTransfer)),
      FailsJob(12, HasSubstr("w-1 (rank 0, host a, pid 101) left after 20 "
                             "steps, but w-2 goes on")));
}

TEST(RestartTest, AnEpochIsNotStartedByWhoWasStartedInAFormerOne) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  protocol::Hello late = Running(fixture, 1);
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  late.resume->epoch = {7};
  for (const int i : {1, 2}) fixture.Says(i, protocol::Leave{.clean = false});
  fixture.Hello(3, [&] {
    protocol::Hello again = fixture.HelloOf(1);
    again.incarnation = 98;
    return again;
  }());
  fixture.Hello(4, [&] {
    protocol::Hello again = fixture.HelloOf(2);
    again.incarnation = 99;
    return again;
  }());
  ASSERT_EQ(fixture.epoch(), EpochId{2});
  fixture.Restart();
  late.generation = {2};
  late.incarnation = 98;
  EXPECT_THAT(fixture.Hello(13, late), Not(Includes(Sends(Start()))));
}

TEST(RestartTest, MembersThatDoNotComeBackWithinALeaseAreLost) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  const protocol::PlanPart plan = fixture.PlanAsPart();
  fixture.Pass(1000);
  fixture.Restart();
  fixture.Hello(11, Running(fixture, 1));
  fixture.Says(11, plan);
  EXPECT_THAT(fixture.WaitWithHeartbeats(9, {11}), NoEffects())
      << "leases begin anew";
  EXPECT_THAT(
      fixture.WaitWithHeartbeats(2, {11}),
      FailsJob(11, StartsWith("w-2 (rank 1, host a, pid 102) fell silent")));
}

TEST(RestartTest, WhoTakesTheNameOfAMemberThatHasNotResumedYetTriesAgain) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Restart();
  fixture.Hello(11, Running(fixture, 1));
  protocol::Hello newcomer = fixture.HelloOf(2);
  newcomer.incarnation = 99;
  EXPECT_THAT(
      fixture.Hello(12, newcomer),
      EffectsAre(Closes(
          12, StatusCode::kUnavailable,
          HasSubstr("waits for generation 1 of w-2 (host a, pid 102)"))));
  fixture.WaitWithHeartbeats(11, {11});  // the lease
  EXPECT_THAT(fixture.Hello(13, newcomer), Includes(Sends(13, Welcome(2))));
}

TEST(RestartTest, WhileRegisteringEveryoneSaysItAgain) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.Register(1, {ParameterNamed("a")});
  fixture.Restart();
  EXPECT_THAT(fixture.Resume(11, 1),
              EffectsAre(Sends(11, WelcomeBack(1)),
                         Sends(11, EpochFormed(1, 0, {"w-1", "w-2"}))));
  fixture.Resume(12, 2);
  fixture.Register(11, {ParameterNamed("a")});
  EXPECT_THAT(fixture.Register(12, {ParameterNamed("a")}),
              Includes(Sends(11, PlanReady()), Sends(12, PlanReady())));
}

// Members that were not started yet register again, in any order, and the plan
// is compiled again: none is asked for it.
TEST(RestartTest, WhileConnectingThePlanIsCompiledAgain) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.RegisterAll();
  fixture.Ack(1);
  const size_t records = fixture.records().size();
  const protocol::PublishHandles handles = fixture.HandlesOf(0);
  fixture.Restart();
  fixture.Hello(11, Holding(fixture, 1));
  fixture.Register(11, {ParameterNamed("weight"), ParameterNamed("bias")});
  EXPECT_THAT(fixture.Ack(11), NoEffects());
  EXPECT_THAT(fixture.Says(11, handles), NoEffects());
  EXPECT_THAT(fixture.Says(11, protocol::Connected{}), NoEffects());
  EXPECT_THAT(fixture.Says(11, protocol::Heartbeat{}), NoEffects());
  EXPECT_THAT(fixture.Resume(12, 2),
              EffectsAre(Sends(12, WelcomeBack(1)),
                         Sends(12, EpochFormed(1, 1, {"w-1", "w-2"}))))
      << "no plan to fetch yet";
  EXPECT_THAT(
      fixture.Register(12, {ParameterNamed("weight"), ParameterNamed("bias")}),
      EffectsAre(Sends(11, PlanReady()), Sends(12, PlanReady())));
  EXPECT_EQ(fixture.records().size(), records) << "it is adopted already";
  fixture.Ack(12);
  EXPECT_THAT(fixture.Publish(12, 1),
              Includes(Sends(12, GroupHandles(0, {"h0", "h1"}))));
  EXPECT_THAT(fixture.Says(12, protocol::Connected{}),
              EffectsAre(Sends(11, Start()), Sends(12, Start())));
}

TEST(RestartTest, AMemberThatMissedStartIsToldByThoseThatDidNot) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  const protocol::PublishHandles handles = fixture.HandlesOf(0);
  fixture.Restart();
  fixture.Hello(11, Holding(fixture, 1));
  fixture.Register(11, {ParameterNamed("weight"), ParameterNamed("bias")});
  fixture.Ack(11);
  fixture.Says(11, handles);
  fixture.Says(11, protocol::Connected{});
  EXPECT_THAT(fixture.Hello(12, Running(fixture, 2)),
              Includes(Sends(11, Start()), Sends(12, Start())));
}

TEST(RestartTest, AnEpochThatEndedUnheardIsTold) {
  JobSpec spec = SpecOf(2);
  spec.limits.max_restarts = 1;
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  fixture.Restart();
  EXPECT_THAT(fixture.Hello(12, Running(fixture, 2)),
              Includes(Sends(12, WelcomeBack(1)),
                       Sends(12, EpochEnded(1, StartsWith("w-1 (rank 0")))));
  EXPECT_EQ(fixture.View().state, JobState::kEpochEnded);
  protocol::Hello again = fixture.HelloOf(2);
  again.generation = {1};
  fixture.Hello(12, again);
  again = fixture.HelloOf(1);
  again.incarnation = 99;
  EXPECT_THAT(
      fixture.Hello(13, again),
      Includes(Sends(13, Welcome(2)), Persists(EpochBegan(2, {"w-1", "w-2"}))));
}

TEST(RestartTest, AJobThatEndedStaysEnded) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  fixture.Restart();
  EXPECT_THAT(fixture.Hello(11),
              Refuses(11, StatusCode::kFailedPrecondition,
                      StartsWith("job digits is over: it failed: w-1")));
  EXPECT_EQ(fixture.View().state, JobState::kFailed);
}

TEST(RestartTest, AFormingJobFormsOn) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Restart();
  EXPECT_THAT(fixture.Resume(11, 1), EffectsAre(Sends(11, WelcomeBack(1))));
  EXPECT_THAT(fixture.Hello(12, fixture.HelloOf(2)),
              Includes(Persists(EpochBegan(1, {"w-1", "w-2"}))));
}

TEST(RestartTest, AHelloWhoseWelcomeWasLostWithTheCoordinatorIsTheSameLife) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Restart();
  EXPECT_THAT(fixture.Hello(11, fixture.HelloOf(1)),
              EffectsAre(Persists(3, GenerationAssigned("w-1", 1)),
                         Sends(11, WelcomeBack(1))));
  fixture.Hello(12, fixture.HelloOf(2));
  fixture.Restart();
  EXPECT_THAT(fixture.Hello(22, fixture.HelloOf(2)),
              EffectsAre(Persists(6, GenerationAssigned("w-2", 1)),
                         Sends(22, WelcomeBack(1)),
                         Sends(22, EpochFormed(1, 1, {"w-1", "w-2"}))));
}

TEST(RestartTest, TheNewTermIsOnEveryMessage) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Restart();
  fixture.Resume(11, 1);
  EXPECT_EQ(std::get<Send>(fixture.effects().front()).message.term,
            LeaderTerm{2});
}

// --- The plan of a running epoch ---------------------------------------------

// A running job whose coordinator has restarted; workers resume on streams 11,
// 12, ...
class PlanRecallTest : public testing::Test {
 protected:
  explicit PlanRecallTest(int world = 2) : f_(SpecOf(world)) {
    f_.RunAll();
    plan_ = f_.PlanAsPart();
    before_ = f_.View();
    records_ = f_.records().size();
    f_.Restart();
  }
  EffectList Resumes(int i) { return f_.Hello(10 + i, Running(f_, i)); }
  void AllResume() {
    for (int i = 1; i <= f_.world(); ++i) Resumes(i);
  }
  EffectMatcher Wants(int i) const {
    return Sends(10 + i, PlanWanted(plan_.digest));
  }
  static EffectMatcher WantsRegistration(int i) {
    return Sends(10 + i, RegistrationWanted());
  }
  EffectList GivesBack(int i) { return f_.Says(10 + i, plan_); }
  EffectList HasNone(int i) {
    return f_.Says(10 + i, protocol::PlanPart{.digest = plan_.digest});
  }
  EffectList Registers(int i) {
    return f_.Register(10 + i,
                       {ParameterNamed("weight"), ParameterNamed("bias")});
  }
  void ExpectThePlanIsHere() {
    EXPECT_EQ(f_.View().parameters, before_.parameters);
    EXPECT_EQ(f_.View().buckets, before_.buckets);
    EXPECT_EQ(f_.View().state, JobState::kRunning);
    EXPECT_NE(f_.core().FindPlan(f_.job(), plan_.digest), nullptr);
    EXPECT_EQ(f_.records().size(), records_);
  }
  std::string LastLine() const { return f_.View().events.back().text; }
  // The answer is not the plan: the next member is asked, and the job's events
  // have the reason.
  void ExpectNotBelieved(const protocol::PlanPart& part,
                         const std::string& reason) {
    AllResume();
    EXPECT_THAT(f_.Says(11, part), EffectsAre(Wants(2)));
    EXPECT_THAT(LastLine(), AllOf(StartsWith("w-1 (rank 0, host a, pid 101) "
                                             "was asked for plan "),
                                  HasSubstr(reason)));
    EXPECT_TRUE(f_.View().parameters.empty());
    EXPECT_THAT(GivesBack(1), NoEffects()) << "it is too late";
    EXPECT_TRUE(f_.View().parameters.empty());
    EXPECT_THAT(GivesBack(2), NoEffects());
    ExpectThePlanIsHere();
  }

  CoordinatorFixture f_;
  protocol::PlanPart plan_;
  JobView before_;
  size_t records_ = 0;
};

TEST_F(PlanRecallTest, OneMemberGivesItBackAndNobodyRegisters) {
  EXPECT_THAT(Resumes(1), Includes(Wants(1)));
  EXPECT_THAT(Resumes(2), Not(Includes(Sends(Any<protocol::PlanWanted>()))));
  EXPECT_TRUE(f_.View().parameters.empty());
  EXPECT_THAT(GivesBack(1), NoEffects());
  ExpectThePlanIsHere();
  EXPECT_THAT(LastLine(), HasSubstr("w-1 (rank 0, host a, pid 101) has sent "
                                    "the plan again"));
  // A later stream is asked for nothing.
  f_.Closes(11);
  EXPECT_THAT(f_.Hello(21, Running(f_, 1)),
              EffectsAre(Sends(21, WelcomeBack(1)),
                         Sends(21, EpochFormed(1, 0, {"w-1", "w-2"})),
                         Sends(21, PlanReady()), Sends(21, Start())));
}

TEST_F(PlanRecallTest, ItMayHaveManyParts) {
  AllResume();
  for (size_t at = 0; at < plan_.data.size(); at += 100) {
    EXPECT_TRUE(f_.View().parameters.empty());
    protocol::PlanPart part = plan_;
    part.offset = at;
    part.data = plan_.data.substr(at, 100);
    EXPECT_THAT(f_.Says(11, part), NoEffects());
  }
  ExpectThePlanIsHere();
}

TEST_F(PlanRecallTest, OtherBytesAreNotBelieved) {
  protocol::PlanPart forged = plan_;
  forged.data[forged.data.size() / 2] ^= 1;
  ExpectNotBelieved(forged, "sent another: ");
}

TEST_F(PlanRecallTest, NorAnotherDigest) {
  protocol::PlanPart other = plan_;
  other.digest = "feed";
  ExpectNotBelieved(other, "of plan feed");
}

TEST_F(PlanRecallTest, NorMoreBytesThanThePlanHas) {
  protocol::PlanPart longer = plan_;
  longer.data += " ";
  ExpectNotBelieved(longer, "were due");
}

TEST_F(PlanRecallTest, NorAnotherTotal) {
  protocol::PlanPart longer = plan_;
  longer.total_bytes = 1 << 30;
  ExpectNotBelieved(longer, "of the 1073741824");
}

TEST_F(PlanRecallTest, NorAPartThatDoesNotFollow) {
  protocol::PlanPart second = plan_;
  second.offset = 10;
  second.data = plan_.data.substr(10);
  ExpectNotBelieved(second, "were due");
}

TEST_F(PlanRecallTest, NorAPartWithoutData) {
  protocol::PlanPart empty = plan_;
  empty.data.clear();
  ExpectNotBelieved(empty, "sent 0 bytes");
}

TEST_F(PlanRecallTest, OneThatHasItNoMoreSaysSo) {
  ExpectNotBelieved({.digest = plan_.digest}, "does not have it any more");
}

TEST_F(PlanRecallTest, OneThatLosesItsStreamIsNotWaitedFor) {
  AllResume();
  protocol::PlanPart first = plan_;
  first.data = plan_.data.substr(0, 10);
  f_.Says(11, first);
  EXPECT_THAT(f_.Closes(11), EffectsAre(Wants(2)));
  EXPECT_THAT(LastLine(), HasSubstr("lost its stream"));
  GivesBack(2);
  ExpectThePlanIsHere();
}

TEST_F(PlanRecallTest, OnANewStreamItIsAskedAgain) {
  Resumes(1);
  EXPECT_THAT(f_.Hello(21, Running(f_, 1)),
              Includes(Sends(21, PlanWanted(plan_.digest))))
      << "the end of the former stream is not heard yet";
  f_.Closes(21);
  EXPECT_THAT(f_.Hello(31, Running(f_, 1)),
              Includes(Sends(31, PlanWanted(plan_.digest))));
  f_.Says(31, plan_);
  ExpectThePlanIsHere();
}

TEST_F(PlanRecallTest, OneThatLeavesIsNotWaitedFor) {
  AllResume();
  EXPECT_THAT(f_.Says(11, protocol::Leave{.steps = 20}), Includes(Wants(2)));
  GivesBack(2);
  EXPECT_EQ(f_.View().parameters, before_.parameters);
}

// It has sent Leave, and its answer was lost with the coordinator.
TEST_F(PlanRecallTest, OneThatIsLeavingIsAskedForNothing) {
  protocol::Hello leaver = Running(f_, 1);
  leaver.resume->leaving = true;
  const auto asks_nothing =
      AllOf(Not(Includes(Sends(Any<protocol::PlanWanted>()))),
            Not(Includes(Sends(RegistrationWanted()))));
  EXPECT_THAT(f_.Hello(11, leaver), asks_nothing);
  EXPECT_THAT(f_.Says(11, protocol::Leave{.steps = 12}), asks_nothing);
  leaver = Running(f_, 2);
  leaver.resume->leaving = true;
  EXPECT_THAT(f_.Hello(12, leaver), asks_nothing);
  EXPECT_THAT(LastLine(), Not(HasSubstr("register again")));
}

TEST_F(PlanRecallTest, OneThatDoesNotAnswerIsWaitedForALease) {
  AllResume();
  EXPECT_THAT(f_.WaitWithHeartbeats(9, {11, 12}), NoEffects());
  EXPECT_THAT(f_.WaitWithHeartbeats(2, {11, 12}), EffectsAre(Wants(2)));
  EXPECT_THAT(LastLine(), HasSubstr("within 10s"));
  GivesBack(2);
  ExpectThePlanIsHere();
}

TEST_F(PlanRecallTest,
       ItsDeadlineBeginsAnewWhenTheCoordinatorItselfWasStopped) {
  AllResume();
  f_.Pass(60);
  EXPECT_THAT(f_.Step(TimerExpired{}), NoEffects());
  EXPECT_THAT(f_.WaitWithHeartbeats(9, {11, 12}), NoEffects());
  GivesBack(1);
  ExpectThePlanIsHere();
}

TEST_F(PlanRecallTest, WhileItIsCheckedItsMemberMayGo) {
  f_.HoldCompilations();
  AllResume();
  GivesBack(1);
  ASSERT_EQ(f_.compilations(), 1u);
  EXPECT_THAT(f_.Closes(11), NoEffects());
  EXPECT_THAT(f_.Hello(21, Running(f_, 1)),
              Not(Includes(Sends(Any<protocol::PlanWanted>()))));
  f_.FinishCompilations();
  ExpectThePlanIsHere();
}

TEST_F(PlanRecallTest, IfNoMemberHasItAllRegisterAgain) {
  AllResume();
  EXPECT_THAT(HasNone(1), EffectsAre(Wants(2)));
  EXPECT_THAT(HasNone(2),
              EffectsAre(WantsRegistration(1), WantsRegistration(2)));
  EXPECT_THAT(LastLine(), AllOf(StartsWith("all members register again"),
                                HasSubstr("no member has it")));
  EXPECT_THAT(GivesBack(2), NoEffects()) << "it is too late";
  Registers(1);
  // On each new stream, once.
  f_.Closes(12);
  EXPECT_THAT(f_.Hello(12 + 10, Running(f_, 2)),
              Includes(Sends(22, RegistrationWanted())));
  f_.Closes(11);
  EXPECT_THAT(f_.Hello(21, Running(f_, 1)),
              Not(Includes(Sends(RegistrationWanted()))))
      << "it has registered";
  EXPECT_THAT(
      f_.Register(22, {ParameterNamed("weight"), ParameterNamed("bias")}),
      NoEffects());
  ExpectThePlanIsHere();
}

TEST_F(PlanRecallTest, AMemberWithAnotherPlanIsNotAsked) {
  protocol::Hello other = Running(f_, 1);
  other.resume->plan_digest = "feed";
  EXPECT_THAT(f_.Hello(11, other),
              AllOf(Not(Includes(Sends(Any<protocol::PlanWanted>()))),
                    Not(Includes(Sends(RegistrationWanted())))))
      << "the other member may have it";
  EXPECT_THAT(Resumes(2), Includes(Wants(2)));
  GivesBack(2);
  ExpectThePlanIsHere();
}

TEST_F(PlanRecallTest, AnotherPlanThatIsCompiledEndsTheEpoch) {
  AllResume();
  HasNone(1);
  HasNone(2);
  f_.Register(11, {ParameterNamed("weight")});
  EXPECT_THAT(f_.Register(12, {ParameterNamed("weight")}),
              FailsJob(12, HasSubstr("the adopted one is")));
}

// One that was not started registers without a request; another one knows that
// all were.
TEST_F(PlanRecallTest, OneThatMissedStartMayGiveItBack) {
  EXPECT_THAT(f_.Hello(11, Holding(f_, 1)),
              Not(Includes(Sends(Any<protocol::PlanWanted>()))));
  Registers(1);
  EXPECT_THAT(Resumes(2),
              AllOf(Includes(Sends(11, Start())), Includes(Wants(1))));
  GivesBack(1);
  ExpectThePlanIsHere();
}

class PlanRecallOfFourTest : public PlanRecallTest {
 protected:
  PlanRecallOfFourTest() : PlanRecallTest(4) {}
};

TEST_F(PlanRecallOfFourTest, AtMostThreeAreAsked) {
  AllResume();
  EXPECT_THAT(HasNone(1), EffectsAre(Wants(2)));
  EXPECT_THAT(HasNone(2), EffectsAre(Wants(3)));
  EXPECT_THAT(HasNone(3),
              EffectsAre(WantsRegistration(1), WantsRegistration(2),
                         WantsRegistration(3), WantsRegistration(4)));
  EXPECT_THAT(LastLine(), HasSubstr("3 members did not give it back"));
  for (const int i : {1, 2, 3, 4}) Registers(i);
  ExpectThePlanIsHere();
}

// A member whose streams break all the time does not use up the tries of those
// that would answer.
TEST_F(PlanRecallOfFourTest, OneThatLiedIsNotAskedOnItsNextStream) {
  AllResume();
  protocol::PlanPart forged = plan_;
  forged.data[0] ^= 1;
  EXPECT_THAT(f_.Says(11, forged), EffectsAre(Wants(2)));
  f_.Closes(11);
  f_.Hello(21, Running(f_, 1));
  EXPECT_THAT(f_.Closes(12), EffectsAre(Wants(3)));
  GivesBack(3);
  ExpectThePlanIsHere();
}

TEST_F(PlanRecallOfFourTest, ItsRevisionsFollow) {
  AllResume();
  GivesBack(1);
  EXPECT_THAT(f_.Says(12, protocol::PlanAck{{1}, "feed"}),
              FailsJob(12, HasSubstr("holds revision 1 of the plan")));
}

// --- A repaired journal -----------------------------------------------------

class RepairedTest : public testing::Test {
 protected:
  RepairedTest() {
    core_.Restore(*StateOf({.records = 40,
                            .epoch_floor = {1000},
                            .jobs = {{.spec = spec_, .epoch_floor = {1000}}}}));
  }
  Effects Hello(uint64_t session, const protocol::Hello& hello) {
    return core_.Step(now_, MessageReceived{{session}, {name_, {}, {}, hello}});
  }
  protocol::Hello NewWorker() const {
    return {.worker = {"w"}, .incarnation = 3, .spec = spec_};
  }
  protocol::Hello WorkerOfEpoch(uint64_t epoch) const {
    protocol::Hello hello = NewWorker();
    hello.incarnation = 2;
    hello.generation = {5};
    hello.secret = "s";
    hello.resume = protocol::ResumeState{.epoch = {epoch},
                                         .started = true,
                                         .rank = 0,
                                         .members_digest = "of others"};
    return hello;
  }

  const JobSpec spec_ = SpecOf(1);
  const JobName name_{spec_.name};
  const absl::Time now_ = At(1);
  Coordinator core_{{}};
};

TEST_F(RepairedTest, NewEpochsAreAboveAnyThatAWorkerMayReport) {
  Hello(1, NewWorker());
  EXPECT_EQ(core_.durable().jobs.at(name_).epoch, EpochId{1001});
}

TEST_F(RepairedTest, AWorkerOfALostEpochIsNotTakenForOneOfTheNewJob) {
  Hello(1, NewWorker());
  const Effects answer = Hello(2, WorkerOfEpoch(7));
  ASSERT_EQ(answer.size(), 2u) << "a warning of the job, and the end";
  const auto* closed = std::get_if<CloseSession>(&answer.back());
  ASSERT_NE(closed, nullptr);
  EXPECT_EQ(closed->status.code(), StatusCode::kUnavailable)
      << "it trains to its end";
  protocol::Hello leaver = WorkerOfEpoch(7);
  leaver.resume->leaving = true;
  const Effects left = Hello(3, leaver);
  EXPECT_TRUE(std::holds_alternative<protocol::Left>(
      std::get<Send>(left.at(0)).message.body));
}

// A worker cannot make this coordinator believe in a higher epoch.
TEST_F(RepairedTest, AWorkerThatReportsAHigherEpochChangesNothing) {
  Hello(1, NewWorker());
  const DurableState before = core_.durable();
  const Effects answer = Hello(2, WorkerOfEpoch(9999));
  EXPECT_TRUE(std::holds_alternative<CloseSession>(answer.back()));
  EXPECT_EQ(core_.durable(), before);
}

}  // namespace
}  // namespace lockstep::core
