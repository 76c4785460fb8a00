// A coordinator crashes and another replays its records.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"

namespace lockstep::core {
namespace {

using protocol::Phase;
using testing::AllOf;
using testing::HasSubstr;

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
  fixture.Restart();
  EXPECT_EQ(fixture.Hello(11, Running(fixture, 1)),
            "11 <- welcome back, generation 1, say what you registered\n"
            "11 <- formed 1: rank 0 of w-1 w-2\n"
            "11 <- start");
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_EQ(fixture.Hello(12, Running(fixture, 2)),
            "12 <- welcome back, generation 1, say what you registered\n"
            "12 <- formed 1: rank 1 of w-1 w-2\n"
            "12 <- start");
  EXPECT_EQ(fixture.ViewOf(2).state, WorkerState::kReady);
  EXPECT_EQ(fixture.WaitWithHeartbeats(60, {11, 12}), "");
  fixture.Says(11, protocol::Leave{.steps = 20});
  fixture.Says(12, protocol::Leave{.steps = 20});
  EXPECT_EQ(fixture.View().state, JobState::kCompleted);
}

TEST(RestartTest, WhoLeftInOrderBeforeItHasLeft) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{.steps = 20});
  fixture.Says(3, protocol::Leave{.steps = 20});
  fixture.Restart();
  fixture.Hello(12, Running(fixture, 2));
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kLeft);
  EXPECT_EQ(fixture.WaitWithHeartbeats(60, {12}), "") << "nobody is missed";
  EXPECT_EQ(fixture.ViewOf(3).state, WorkerState::kLeft);
  fixture.Says(12, protocol::Leave{.steps = 20});
  EXPECT_EQ(fixture.View().state, JobState::kCompleted);
}

TEST(RestartTest, TheLastHadLeftAndTheEndWasNotRecorded) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{.steps = 20});
  fixture.Says(2, protocol::Leave{.steps = 20});
  fixture.Restart(/*forgotten=*/1);
  EXPECT_THAT(fixture.Step(TimerExpired{}), HasSubstr("job completed"));
}

TEST(RestartTest, WhoLeftBeforeItIsMissedByWhoGoesOn) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::Leave{.steps = 20});
  fixture.Restart();
  fixture.Hello(12, Running(fixture, 2));
  EXPECT_THAT(fixture.Says(12, Stands(20, protocol::Phase::kTransfer)),
              HasSubstr("w-1 (rank 0, host a, pid 101) left after 20 steps, "
                        "but w-2 goes on"));
}

TEST(RestartTest, OfARunningEpochThePlanIsCompiledAgainQuietly) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  const JobView before = fixture.View();
  const size_t records = fixture.records().size();
  fixture.Restart();
  fixture.Hello(11, Running(fixture, 1));
  fixture.Hello(12, Running(fixture, 2));
  EXPECT_TRUE(fixture.View().parameters.empty());
  const std::vector<Parameter> parameters = {ParameterNamed("weight"),
                                             ParameterNamed("bias")};
  EXPECT_EQ(fixture.Register(11, parameters), "");
  EXPECT_EQ(fixture.Register(12, parameters), "");
  EXPECT_EQ(fixture.View().parameters, before.parameters);
  EXPECT_EQ(fixture.View().buckets, before.buckets);
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_EQ(fixture.records().size(), records);
}

TEST(RestartTest, OfARunningEpochAnotherPlanEndsIt) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Restart();
  fixture.Hello(11, Running(fixture, 1));
  fixture.Hello(12, Running(fixture, 2));
  fixture.Register(11, {ParameterNamed("weight")});
  EXPECT_THAT(fixture.Register(12, {ParameterNamed("weight")}),
              HasSubstr("the adopted one is"));
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
  EXPECT_THAT(fixture.Hello(13, late), testing::Not(HasSubstr("start")));
}

TEST(RestartTest, MembersThatDoNotComeBackWithinALeaseAreLost) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Pass(1000);
  fixture.Restart();
  fixture.Hello(11, Running(fixture, 1));
  EXPECT_EQ(fixture.WaitWithHeartbeats(9, {11}), "") << "leases begin anew";
  EXPECT_THAT(fixture.WaitWithHeartbeats(2, {11}),
              HasSubstr("11 <- ended 1 for good: w-2 (rank 1, host a, pid 102) "
                        "fell silent"));
}

TEST(RestartTest, TheNameOfAMemberThatHasNotResumedYetIsTaken) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Restart();
  fixture.Hello(11, Running(fixture, 1));
  protocol::Hello newcomer = fixture.HelloOf(2);
  newcomer.incarnation = 99;
  EXPECT_THAT(fixture.Hello(12, newcomer), HasSubstr("refused ALREADY_EXISTS"));
  fixture.WaitWithHeartbeats(11, {11});  // the lease
  EXPECT_THAT(fixture.Hello(13, newcomer),
              HasSubstr("13 <- welcome, generation 2"));
}

TEST(RestartTest, WhileRegisteringEveryoneSaysItAgain) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.Register(1, {ParameterNamed("a")});
  fixture.Restart();
  EXPECT_EQ(fixture.Resume(11, 1),
            "11 <- welcome back, generation 1, say what you registered\n"
            "11 <- formed 1: rank 0 of w-1 w-2");
  fixture.Resume(12, 2);
  fixture.Register(11, {ParameterNamed("a")});
  EXPECT_THAT(fixture.Register(12, {ParameterNamed("a")}),
              HasSubstr("11 <- plan ready\n12 <- plan ready"));
}

// The plan's bytes are not journaled: members that were not started yet
// register again, in any order, and the plan is compiled again.
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
  EXPECT_EQ(fixture.Ack(11), "");
  EXPECT_EQ(fixture.Says(11, handles), "");
  EXPECT_EQ(fixture.Says(11, protocol::Connected{}), "");
  EXPECT_EQ(fixture.Says(11, protocol::Heartbeat{}), "");
  EXPECT_EQ(fixture.Resume(12, 2),
            "12 <- welcome back, generation 1, say what you registered\n"
            "12 <- formed 1: rank 1 of w-1 w-2")
      << "no plan to fetch yet";
  EXPECT_EQ(
      fixture.Register(12, {ParameterNamed("weight"), ParameterNamed("bias")}),
      "11 <- plan ready\n12 <- plan ready");
  EXPECT_EQ(fixture.records().size(), records) << "it is adopted already";
  fixture.Ack(12);
  EXPECT_THAT(fixture.Publish(12, 1), HasSubstr("12 <- handles of 0: h0 h1"));
  EXPECT_EQ(fixture.Says(12, protocol::Connected{}),
            "11 <- start\n12 <- start");
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
              HasSubstr("11 <- start\n12 <- start"));
}

TEST(RestartTest, AnEpochThatEndedUnheardIsTold) {
  JobSpec spec = SpecOf(2);
  spec.limits.max_restarts = 1;
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  fixture.Restart();
  EXPECT_THAT(fixture.Hello(12, Running(fixture, 2)),
              HasSubstr("12 <- welcome back, generation 1\n12 <- ended 1: w-1 "
                        "(rank 0"));
  EXPECT_EQ(fixture.View().state, JobState::kEpochEnded);
  protocol::Hello again = fixture.HelloOf(2);
  again.generation = {1};
  fixture.Hello(12, again);
  again = fixture.HelloOf(1);
  again.incarnation = 99;
  EXPECT_THAT(fixture.Hello(13, again),
              AllOf(HasSubstr("13 <- welcome, generation 2"),
                    HasSubstr("epoch 2 begins: w-1 w-2")));
}

TEST(RestartTest, AJobThatEndedStaysEnded) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  fixture.Restart();
  EXPECT_THAT(fixture.Hello(11), HasSubstr("refused FAILED_PRECONDITION: job "
                                           "digits is over: it failed: w-1"));
  EXPECT_EQ(fixture.View().state, JobState::kFailed);
}

TEST(RestartTest, AFormingJobFormsOn) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Restart();
  EXPECT_EQ(fixture.Resume(11, 1), "11 <- welcome back, generation 1");
  EXPECT_THAT(fixture.Hello(12, fixture.HelloOf(2)),
              HasSubstr("epoch 1 begins: w-1 w-2"));
}

TEST(RestartTest, AHelloWhoseWelcomeWasLostWithTheCoordinatorIsTheSameLife) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Restart();
  EXPECT_EQ(fixture.Hello(11, fixture.HelloOf(1)),
            "persist 3: w-1 is generation 1\n"
            "11 <- welcome back, generation 1");
  fixture.Hello(12, fixture.HelloOf(2));
  fixture.Restart();
  EXPECT_EQ(fixture.Hello(22, fixture.HelloOf(2)),
            "persist 6: w-2 is generation 1\n"
            "22 <- welcome back, generation 1, say what you registered\n"
            "22 <- formed 1: rank 1 of w-1 w-2");
}

TEST(RestartTest, TheNewTermIsOnEveryMessage) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Restart();
  fixture.Resume(11, 1);
  EXPECT_EQ(std::get<Send>(fixture.effects().front()).message.term,
            LeaderTerm{2});
}

}  // namespace
}  // namespace lockstep::core
