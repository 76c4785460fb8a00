// Plans are compiled beside the state machine: what goes on meanwhile.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/asking.h"

namespace lockstep::core {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(CompilationTest, OtherJobsGoOnMeanwhile) {
  Scene scene;
  scene.HoldCompilations();
  scene.JoinAll();
  scene.RegisterAll();
  ASSERT_EQ(scene.compilations(), 1u);
  protocol::Hello other = scene.HelloOf(7);
  other.spec->name = "other";
  EXPECT_THAT(scene.Step(Received{{7}, {{"other"}, {}, {1}, other}}),
              HasSubstr("7 <- welcome, generation 1"));
  EXPECT_THAT(scene.FinishCompilations(), AllOf(HasSubstr("1 <- plan ready"),
                                                HasSubstr("2 <- plan ready")));
}

TEST(CompilationTest, ARankThatRegistersAgainMeanwhileIsToldThePlanOnce) {
  Scene scene;
  scene.HoldCompilations();
  scene.JoinAll();
  scene.RegisterAll();
  scene.Closes(2);
  EXPECT_THAT(scene.Resume(12, 2), Not(HasSubstr("plan ready")));
  scene.Register(12, {ParameterNamed("weight"), ParameterNamed("bias")});
  EXPECT_EQ(scene.compilations(), 1u);
  EXPECT_THAT(scene.FinishCompilations(), AllOf(HasSubstr("1 <- plan ready"),
                                                HasSubstr("12 <- plan ready")));
}

TEST(CompilationTest, AnEpochThatEndedMeanwhileIgnoresIt) {
  Scene scene(RestartingSpec(2));
  scene.HoldCompilations();
  scene.JoinAll();
  scene.RegisterAll();
  scene.Says(1, protocol::LocalFailure{.call = "f"});
  EXPECT_EQ(scene.FinishCompilations(),
            "persist 5: epoch 1 ends\n"
            "1 <- ended 1: w-1 (rank 0, host a, pid 101): f failed at step 0: "
            "UNKNOWN: \n"
            "2 <- ended 1: w-1 (rank 0, host a, pid 101): f failed at step 0: "
            "UNKNOWN: ");
  EXPECT_TRUE(scene.durable_job().plan_digest.empty());
}

// An old result must not be taken for that of the epoch that lives now.
TEST(CompilationTest, TheNextEpochWaitsForItsOwn) {
  Scene scene(RestartingSpec(1));
  scene.HoldCompilations();
  scene.JoinAll();
  scene.RegisterAll();
  scene.Says(1, protocol::LocalFailure{.call = "f"});
  protocol::Hello again = scene.HelloOf(1);
  again.generation = {1};
  scene.Hello(1, again);
  scene.Register(1, {ParameterNamed("other")});
  ASSERT_EQ(scene.compilations(), 2u);
  scene.FinishCompilations();
  const auto plan =
      scene.core().FindPlan(scene.job(), scene.durable_job().plan_digest);
  ASSERT_NE(plan, nullptr);
  ASSERT_EQ(plan->parameters.size(), 1u);
  EXPECT_EQ(plan->parameters[0].name, "other");
}

TEST(CompilationTest, NobodyIsStuckMeanwhile) {
  JobSpec spec = SpecOf(2);
  spec.on_stuck = OnStuck::kEvict;
  spec.timeouts.progress = absl::Seconds(4);
  Scene scene(spec);
  scene.HoldCompilations();
  scene.JoinAll();
  scene.RegisterAll();
  EXPECT_EQ(scene.WaitWithHeartbeats(14, {1, 2}), "");
  EXPECT_THAT(scene.View().stalls, IsEmpty());
  scene.FinishCompilations();
  EXPECT_EQ(scene.WaitWithHeartbeats(3, {1, 2}), "");
}

TEST(CompilationTest, ACoordinatorThatDiesMeanwhileCompilesAgain) {
  Scene scene;
  scene.HoldCompilations();
  scene.JoinAll();
  scene.RegisterAll();
  scene.Restart();
  for (const int i : {1, 2}) {
    scene.Resume(10 + i, i);
    scene.Register(10 + i, {ParameterNamed("weight"), ParameterNamed("bias")});
  }
  EXPECT_THAT(scene.FinishCompilations(), AllOf(HasSubstr("11 <- plan ready"),
                                                HasSubstr("12 <- plan ready")));
}

// In any order of registration, and again after a restart: the plan that is
// compiled again has the same input.
TEST(CompilationTest, TheInputHasTheFactsOfEachRanksTransport) {
  const auto chunk = [](const std::string& place) {
    return protocol::RegisterChunk{
        .last = true,
        .parameters = {ParameterNamed("weight")},
        .transport = {.place = place, .pairs_in_one_place = true}};
  };
  const auto transports = [](const Scene& scene) {
    return std::get<plan::PlanInput>(scene.held_input()).transports;
  };
  const std::vector<TransportFacts> told = {
      {.place = "a", .pairs_in_one_place = true},
      {.place = "b", .pairs_in_one_place = true}};
  Scene scene;
  scene.HoldCompilations();
  scene.JoinAll();
  scene.Says(2, chunk("b"));
  scene.Says(1, chunk("a"));
  ASSERT_EQ(scene.compilations(), 1u);
  EXPECT_EQ(transports(scene), told);
  scene.FinishCompilations();

  scene.Restart();
  for (const int i : {1, 2}) scene.Resume(10 + i, i);
  scene.Says(11, chunk("a"));
  scene.Says(12, chunk("b"));
  ASSERT_EQ(scene.compilations(), 1u);
  EXPECT_EQ(transports(scene), told);
}

TEST(CompilationTest, NothingIsKnownOfATransportThatARankDidNotTell) {
  Scene scene;
  scene.HoldCompilations();
  scene.JoinAll();
  // Facts come with the last chunk only.
  scene.Says(1, protocol::RegisterChunk{
                    .index = 0, .transport = {.pairs_in_one_place = true}});
  scene.Says(1, protocol::RegisterChunk{.index = 1, .last = true});
  scene.Says(2, protocol::RegisterChunk{
                    .last = true, .transport = {.pairs_in_one_place = true}});
  ASSERT_EQ(scene.compilations(), 1u);
  EXPECT_EQ(std::get<plan::PlanInput>(scene.held_input()).transports,
            (std::vector<TransportFacts>{{}, {.pairs_in_one_place = true}}));
}

TEST(CompilationTest, StepsRunWhileARevisionIsCompiled) {
  JobSpec spec = SpecOf(2);
  spec.buckets = {.first_bytes_max = 1, .bytes_max = 1};
  Scene scene(spec);
  scene.RunAll();
  scene.HoldCompilations();
  Asks(scene, JobCommand::kRebuild);
  scene.Says(1, protocol::ReadyOrder{{2}, {0, 1}});
  ASSERT_EQ(scene.compilations(), 1u);
  EXPECT_THAT(Asks(scene, JobCommand::kRebuild), HasSubstr("it is compiled"));
  EXPECT_EQ(scene.Says(1, Stands(3, protocol::Phase::kCompute)), "");
  EXPECT_THAT(scene.FinishCompilations(), HasSubstr("1 <- plan ready"));
  EXPECT_EQ(scene.durable_job().revision, Revision{2});
}

}  // namespace
}  // namespace lockstep::core
