// A coordinator dies and another replays its records.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/scene.h"

namespace lockstep::core {
namespace {

using protocol::Phase;
using testing::AllOf;
using testing::HasSubstr;

// What worker i says first on a new stream once it has accepted the plan ...
protocol::Hello Holding(const Scene& scene, int i) {
  protocol::Hello hello = scene.HelloOf(i);
  hello.generation = {1};
  hello.resume =
      protocol::ResumeState{.epoch = scene.epoch(),
                            .revision = scene.durable_job().revision,
                            .plan_digest = scene.durable_job().plan_digest};
  return hello;
}

// ... and once it was started.
protocol::Hello Running(const Scene& scene, int i) {
  protocol::Hello hello = Holding(scene, i);
  hello.resume->position = {12, Phase::kCompute};
  hello.resume->started = true;
  return hello;
}

TEST(RestartTest, WorkersThatTrainedThroughItResumeAndNothingIsLost) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Restart();
  EXPECT_EQ(scene.Hello(11, Running(scene, 1)),
            "11 <- welcome back, generation 1, say what you registered\n"
            "11 <- formed 1: rank 0 of w-1 w-2\n"
            "11 <- start");
  EXPECT_EQ(scene.View().state, JobState::kRunning);
  EXPECT_EQ(scene.Hello(12, Running(scene, 2)),
            "12 <- welcome back, generation 1, say what you registered\n"
            "12 <- formed 1: rank 1 of w-1 w-2\n"
            "12 <- start");
  EXPECT_EQ(scene.ViewOf(2).state, WorkerState::kReady);
  EXPECT_EQ(scene.WaitWithHeartbeats(60, {11, 12}), "");
  scene.Says(11, protocol::Leave{.steps = 20});
  scene.Says(12, protocol::Leave{.steps = 20});
  EXPECT_EQ(scene.View().state, JobState::kCompleted);
}

TEST(RestartTest, WhoLeftInOrderBeforeItHasLeft) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  scene.Says(1, protocol::Leave{.steps = 20});
  scene.Says(3, protocol::Leave{.steps = 20});
  scene.Restart();
  scene.Hello(12, Running(scene, 2));
  EXPECT_EQ(scene.ViewOf(1).state, WorkerState::kLeft);
  EXPECT_EQ(scene.WaitWithHeartbeats(60, {12}), "") << "nobody is missed";
  EXPECT_EQ(scene.ViewOf(3).state, WorkerState::kLeft);
  scene.Says(12, protocol::Leave{.steps = 20});
  EXPECT_EQ(scene.View().state, JobState::kCompleted);
}

TEST(RestartTest, TheLastHadLeftAndTheEndWasNotRecorded) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, protocol::Leave{.steps = 20});
  scene.Says(2, protocol::Leave{.steps = 20});
  scene.Restart(/*forgotten=*/1);
  EXPECT_THAT(scene.Step(Wake{}), HasSubstr("job completed"));
}

TEST(RestartTest, WhoLeftBeforeItIsMissedByWhoGoesOn) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, protocol::Leave{.steps = 20});
  scene.Restart();
  scene.Hello(12, Running(scene, 2));
  EXPECT_THAT(scene.Says(12, Stands(20, protocol::Phase::kTransfer)),
              HasSubstr("w-1 (rank 0, host a, pid 101) left after 20 steps, "
                        "but w-2 goes on"));
}

TEST(RestartTest, OfARunningEpochThePlanIsCompiledAgainQuietly) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  const JobView before = scene.View();
  const size_t records = scene.records().size();
  scene.Restart();
  scene.Hello(11, Running(scene, 1));
  scene.Hello(12, Running(scene, 2));
  EXPECT_TRUE(scene.View().parameters.empty());
  const std::vector<Parameter> parameters = {ParameterNamed("weight"),
                                             ParameterNamed("bias")};
  EXPECT_EQ(scene.Register(11, parameters), "");
  EXPECT_EQ(scene.Register(12, parameters), "");
  EXPECT_EQ(scene.View().parameters, before.parameters);
  EXPECT_EQ(scene.View().buckets, before.buckets);
  EXPECT_EQ(scene.View().state, JobState::kRunning);
  EXPECT_EQ(scene.records().size(), records);
}

TEST(RestartTest, OfARunningEpochAnotherPlanEndsIt) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Restart();
  scene.Hello(11, Running(scene, 1));
  scene.Hello(12, Running(scene, 2));
  scene.Register(11, {ParameterNamed("weight")});
  EXPECT_THAT(scene.Register(12, {ParameterNamed("weight")}),
              HasSubstr("the adopted one is"));
}

TEST(RestartTest, AnEpochIsNotStartedByWhoWasStartedInAFormerOne) {
  Scene scene(RestartingSpec(2));
  scene.RunAll();
  protocol::Hello late = Running(scene, 1);
  scene.Says(1, protocol::LocalFailure{.call = "f"});
  late.resume->epoch = {7};
  for (const int i : {1, 2}) scene.Says(i, protocol::Leave{.clean = false});
  scene.Hello(3, [&] {
    protocol::Hello again = scene.HelloOf(1);
    again.life = 98;
    return again;
  }());
  scene.Hello(4, [&] {
    protocol::Hello again = scene.HelloOf(2);
    again.life = 99;
    return again;
  }());
  ASSERT_EQ(scene.epoch(), EpochId{2});
  scene.Restart();
  late.generation = {2};
  late.life = 98;
  EXPECT_THAT(scene.Hello(13, late), testing::Not(HasSubstr("start")));
}

TEST(RestartTest, MembersThatDoNotComeBackWithinALeaseAreLost) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Pass(1000);
  scene.Restart();
  scene.Hello(11, Running(scene, 1));
  EXPECT_EQ(scene.WaitWithHeartbeats(9, {11}), "") << "leases begin anew";
  EXPECT_THAT(scene.WaitWithHeartbeats(2, {11}),
              HasSubstr("11 <- ended 1 for good: w-2 (rank 1, host a, pid 102) "
                        "fell silent"));
}

TEST(RestartTest, TheNameOfAMemberThatHasNotResumedYetIsTaken) {
  Scene scene(RestartingSpec(2));
  scene.RunAll();
  scene.Restart();
  scene.Hello(11, Running(scene, 1));
  protocol::Hello newcomer = scene.HelloOf(2);
  newcomer.life = 99;
  EXPECT_THAT(scene.Hello(12, newcomer), HasSubstr("refused ALREADY_EXISTS"));
  scene.WaitWithHeartbeats(11, {11});  // the lease
  EXPECT_THAT(scene.Hello(13, newcomer),
              HasSubstr("13 <- welcome, generation 2"));
}

TEST(RestartTest, WhileRegisteringEveryoneSaysItAgain) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  scene.Register(1, {ParameterNamed("a")});
  scene.Restart();
  EXPECT_EQ(scene.Resume(11, 1),
            "11 <- welcome back, generation 1, say what you registered\n"
            "11 <- formed 1: rank 0 of w-1 w-2");
  scene.Resume(12, 2);
  scene.Register(11, {ParameterNamed("a")});
  EXPECT_THAT(scene.Register(12, {ParameterNamed("a")}),
              HasSubstr("11 <- plan ready\n12 <- plan ready"));
}

// The plan's bytes are not journaled: members that were not started yet say
// everything again, in whatever order they come back, and the plan is compiled
// again.
TEST(RestartTest, WhileConnectingThePlanIsCompiledAgain) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  scene.RegisterAll();
  scene.Ack(1);
  const size_t records = scene.records().size();
  const protocol::PublishHandles handles = scene.HandlesOf(0);
  scene.Restart();
  scene.Hello(11, Holding(scene, 1));
  scene.Register(11, {ParameterNamed("weight"), ParameterNamed("bias")});
  EXPECT_EQ(scene.Ack(11), "");
  EXPECT_EQ(scene.Says(11, handles), "");
  EXPECT_EQ(scene.Says(11, protocol::Connected{}), "");
  EXPECT_EQ(scene.Says(11, protocol::Heartbeat{}), "");
  EXPECT_EQ(scene.Resume(12, 2),
            "12 <- welcome back, generation 1, say what you registered\n"
            "12 <- formed 1: rank 1 of w-1 w-2")
      << "no plan to fetch yet";
  EXPECT_EQ(
      scene.Register(12, {ParameterNamed("weight"), ParameterNamed("bias")}),
      "11 <- plan ready\n12 <- plan ready");
  EXPECT_EQ(scene.records().size(), records) << "it is adopted already";
  scene.Ack(12);
  EXPECT_THAT(scene.Publish(12, 1), HasSubstr("12 <- handles of 0: h0 h1"));
  EXPECT_EQ(scene.Says(12, protocol::Connected{}), "11 <- start\n12 <- start");
}

TEST(RestartTest, AMemberThatMissedStartIsToldByThoseThatDidNot) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  const protocol::PublishHandles handles = scene.HandlesOf(0);
  scene.Restart();
  scene.Hello(11, Holding(scene, 1));
  scene.Register(11, {ParameterNamed("weight"), ParameterNamed("bias")});
  scene.Ack(11);
  scene.Says(11, handles);
  scene.Says(11, protocol::Connected{});
  EXPECT_THAT(scene.Hello(12, Running(scene, 2)),
              HasSubstr("11 <- start\n12 <- start"));
}

TEST(RestartTest, AnEpochThatEndedUnheardIsTold) {
  JobSpec spec = SpecOf(2);
  spec.limits.max_restarts = 1;
  Scene scene(spec);
  scene.RunAll();
  scene.Says(1, protocol::LocalFailure{.call = "f"});
  scene.Restart();
  EXPECT_THAT(scene.Hello(12, Running(scene, 2)),
              HasSubstr("12 <- welcome back, generation 1\n12 <- ended 1: w-1 "
                        "(rank 0"));
  EXPECT_EQ(scene.View().state, JobState::kEpochEnded);
  protocol::Hello again = scene.HelloOf(2);
  again.generation = {1};
  scene.Hello(12, again);
  again = scene.HelloOf(1);
  again.life = 99;
  EXPECT_THAT(scene.Hello(13, again),
              AllOf(HasSubstr("13 <- welcome, generation 2"),
                    HasSubstr("epoch 2 begins: w-1 w-2")));
}

TEST(RestartTest, AJobThatEndedStaysEnded) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, protocol::LocalFailure{.call = "f"});
  scene.Restart();
  EXPECT_THAT(scene.Hello(11), HasSubstr("refused FAILED_PRECONDITION: job "
                                         "digits is over: it failed: w-1"));
  EXPECT_EQ(scene.View().state, JobState::kFailed);
}

TEST(RestartTest, AFormingJobFormsOn) {
  Scene scene(SpecOf(2));
  scene.Hello(1);
  scene.Restart();
  EXPECT_EQ(scene.Resume(11, 1), "11 <- welcome back, generation 1");
  EXPECT_THAT(scene.Hello(12, scene.HelloOf(2)),
              HasSubstr("epoch 1 begins: w-1 w-2"));
}

TEST(RestartTest, AHelloWhoseWelcomeWasLostWithTheCoordinatorIsTheSameLife) {
  Scene scene(SpecOf(2));
  scene.Hello(1);
  scene.Restart();
  EXPECT_EQ(scene.Hello(11, scene.HelloOf(1)),
            "persist 3: w-1 is generation 1\n"
            "11 <- welcome back, generation 1");
  scene.Hello(12, scene.HelloOf(2));
  scene.Restart();
  EXPECT_EQ(scene.Hello(22, scene.HelloOf(2)),
            "persist 6: w-2 is generation 1\n"
            "22 <- welcome back, generation 1, say what you registered\n"
            "22 <- formed 1: rank 1 of w-1 w-2");
}

TEST(RestartTest, TheNewTermIsOnEveryMessage) {
  Scene scene(SpecOf(2));
  scene.Hello(1);
  scene.Restart();
  scene.Resume(11, 1);
  EXPECT_EQ(std::get<Send>(scene.effects().front()).message.term,
            LeaderTerm{2});
}

}  // namespace
}  // namespace lockstep::core
