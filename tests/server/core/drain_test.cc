// A job that an operator drains: its workers go, and it waits for others.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/asking.h"
#include "tests/server/core/scene.h"

namespace lockstep::core {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;

void Drain(Scene& scene) {
  Asks(scene, JobCommand::kDrain, "maintenance");
  scene.Says(1, LeavesBy(Command::kDrain, 8));
  scene.Says(2, LeavesBy(Command::kDrain, 8));
}

TEST(DrainTest, TheJobWaitsForWorkersWithoutADeadlineAndFormsAgain) {
  Scene scene(SpecOf(2));  // max_restarts 0: a drain is no restart
  scene.RunAll();
  Drain(scene);
  EXPECT_EQ(scene.View().state, JobState::kForming);
  EXPECT_EQ(scene.View().missing, 2);
  EXPECT_EQ(scene.View().cause.message,
            "epoch 1 ended: drained by an operator: maintenance");
  EXPECT_THAT(LinesOf(scene), Contains("all ranks drain after step 7"));
  EXPECT_EQ(scene.Wait(100000), "");

  for (int i = 1; i <= 2; ++i) {
    protocol::Hello hello = scene.HelloOf(i);
    hello.life += 1000;
    scene.Hello(10 + i, hello);
  }
  EXPECT_EQ(scene.View().state, JobState::kSealed);
  EXPECT_EQ(scene.epoch().value, 2u);
  EXPECT_THAT(scene.View().wanted.commands, testing::IsEmpty()) << "it is done";
}

TEST(DrainTest, WhoComesAgainMustBeFollowedInTime) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  Drain(scene);
  scene.Wait(1000);
  protocol::Hello hello = scene.HelloOf(1);
  hello.life += 1000;
  scene.Hello(11, hello);
  scene.WaitWithHeartbeats(70, {11});
  EXPECT_EQ(scene.View().state, JobState::kFailed);
}

TEST(DrainTest, StillWaitsAfterTheCoordinatorRestarted) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  Drain(scene);
  scene.Restart();
  EXPECT_EQ(scene.Wait(100000), "");
  scene.Step(Wake{});
  EXPECT_EQ(scene.View().state, JobState::kForming);
  EXPECT_EQ(scene.Wait(100000), "");
}

TEST(DrainTest, OfAJobThatDoesNotRunSendsAwayWhoHasArrived) {
  Scene scene(SpecOf(2));
  scene.Hello(1);
  EXPECT_THAT(Asks(scene, JobCommand::kDrain, "maintenance"),
              AllOf(HasSubstr("1 <- refused CANCELLED: drained by an operator: "
                              "maintenance"),
                    HasSubstr("close 1"), EndsWith("answer 7: OK")));
  EXPECT_EQ(scene.View().missing, 2);
  EXPECT_EQ(scene.Wait(100000), "");
}

TEST(DrainTest, OfAnEpochThatDoesNotTrainYetEndsIt) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  EXPECT_THAT(Asks(scene, JobCommand::kDrain),
              HasSubstr("1 <- ended 1: drained by an operator"));
  EXPECT_EQ(scene.View().state, JobState::kForming);
}

TEST(DrainTest, AnEpochThatEndsBeforeItTookEffectDrainsIt) {
  Scene scene(RestartingSpec(2));
  scene.RunAll();
  Asks(scene, JobCommand::kDrain);
  scene.Says(1, Scene::DeathOf(2, "signal 9"));
  EXPECT_EQ(scene.View().state, JobState::kForming);
  scene.Closes(1);
  scene.Wait(2);
  EXPECT_EQ(scene.Wait(100000), "");
}

TEST(DrainTest, ADeathBeforeItTookEffectIsNoFailureOfTheJob) {
  Scene scene(SpecOf(2));  // may not form again
  scene.RunAll();
  Asks(scene, JobCommand::kDrain);
  scene.Says(2, LeavesBy(Command::kDrain, 413));
  scene.Says(1, protocol::LocalFailure{.call = "f"});
  EXPECT_EQ(scene.View().state, JobState::kForming);
  EXPECT_THAT(scene.View().cause.message, EndsWith("; drained by an operator"));
}

TEST(DrainTest, IsDoneBeforeTheNextEpochBegins) {
  Scene scene(SpecOf(1));
  Asks(scene, JobCommand::kDrain);
  scene.RunAll();
  Asks(scene, JobCommand::kDrain);
  scene.Says(1, LeavesBy(Command::kDrain, 413));
  scene.Restart();
  EXPECT_THAT(scene.Hello(3, scene.HelloOf(3)), HasSubstr("wanted: \n"));
  size_t begun = 0, done = 0;
  const auto records = scene.records();
  for (size_t i = 0; i < records.size(); ++i) {
    if (std::get_if<record::EpochBegan>(&records[i].body)) begun = i;
    if (std::get_if<record::CommandsWanted>(&records[i].body)) done = i;
  }
  EXPECT_LT(done, begun) << "else a restart between them drains it again";
}

TEST(DrainTest, OfADrainedJobSendsAwayWhoHasComeSince) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  Asks(scene, JobCommand::kDrain);
  for (const int i : {1, 2}) scene.Says(i, LeavesBy(Command::kDrain, 413));
  protocol::Hello again = scene.HelloOf(1);
  again.life = 77;
  scene.Hello(3, again);
  EXPECT_THAT(Asks(scene, JobCommand::kDrain), HasSubstr("3 <- refused"));
  EXPECT_EQ(scene.Wait(100000), "") << "no deadline is left";
}

}  // namespace
}  // namespace lockstep::core
