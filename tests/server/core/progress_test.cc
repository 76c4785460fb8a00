// Who is stuck, who waits for whom, and what an operator sees.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/scene.h"

namespace lockstep::core {
namespace {

using protocol::Phase;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> Waits(const JobView& view) {
  std::vector<std::string> lines;
  for (const WaitView& wait : view.waits) {
    lines.push_back(absl::StrCat(wait.waiter.value, " waits for ",
                                 wait.waited_for.value, ", which ", wait.why));
  }
  return lines;
}

TEST(StallTest, TheOneThatWaitsForNobodyIsNamedOnce) {
  Scene scene(SpecOf(4));
  scene.RunAll();
  scene.Says(1, Stands(412, Phase::kVerdict));
  scene.Says(2, Stands(412, Phase::kTransfer));
  scene.Says(
      3, {protocol::Progress{.position = {412, Phase::kCompute},
                             .submitted = 3,
                             .missing = {"layers.7.weight", "layers.7.bias"}}});
  scene.Says(4, Stands(412, Phase::kVerdict));
  EXPECT_EQ(scene.WaitWithHeartbeats(61, {1, 2, 3, 4}), "");

  EXPECT_THAT(
      scene.View().stalls,
      ElementsAre(
          "step 412: w-3 (rank 2, host a, pid 103) has not submitted "
          "layers.7.weight and layers.7.bias for 1m1s; w-1, w-2 and w-4 "
          "wait"));
  EXPECT_THAT(
      Waits(scene.View()),
      ElementsAre("w-1 waits for w-3, which has not submitted layers.7.weight "
                  "and layers.7.bias",
                  "w-1 waits for w-2, which is at step 412 while waiting for "
                  "transfers",
                  "w-2 waits for w-3, which has not submitted layers.7.weight "
                  "and layers.7.bias",
                  "w-4 waits for w-3, which has not submitted layers.7.weight "
                  "and layers.7.bias",
                  "w-4 waits for w-2, which is at step 412 while waiting for "
                  "transfers"));
  int told = 0;
  for (const EventView& event : scene.View().events) {
    if (event.text.find("layers.7.weight") != std::string::npos) ++told;
  }
  EXPECT_EQ(told, 2) << "as late and as stuck, and not once for each patience "
                        "that passes";
}

TEST(StallTest, ItGoesOnAndNobodyIsStuckAnyMore) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, Stands(3, Phase::kTransfer));
  scene.Says(2, Stands(3, Phase::kCompute));
  scene.WaitWithHeartbeats(31, {1, 2});
  ASSERT_EQ(scene.View().stalls.size(), 1u);
  scene.Says(2, Stands(3, Phase::kTransfer));
  EXPECT_THAT(scene.View().events.back().text, HasSubstr("w-2 (rank 1"));
  EXPECT_THAT(scene.View().events.back().text, HasSubstr("goes on"));
  EXPECT_EQ(scene.View().stalls.size(), 1u)
      << "now w-1 waits for nobody and still does not move";
  EXPECT_THAT(scene.View().stalls[0], HasSubstr("w-1 (rank 0"));
}

TEST(StallTest, SubmittingParametersIsProgress) {
  Scene scene(SpecOf(1));
  scene.RunAll();
  for (uint32_t submitted = 0; submitted < 10; ++submitted) {
    scene.Says(1, protocol::Progress{.position = {1, Phase::kCompute},
                                     .submitted = submitted});
    scene.WaitWithHeartbeats(20, {1});
  }
  EXPECT_THAT(scene.View().stalls, IsEmpty());
}

TEST(StallTest, BusyIsNotStuckUntilItsTimeIsUp) {
  Scene scene(SpecOf(1));
  scene.RunAll();
  scene.Says(1, protocol::Busy{"validation", absl::Seconds(100)});
  scene.WaitWithHeartbeats(99, {1});
  EXPECT_THAT(scene.View().stalls, IsEmpty());
  EXPECT_EQ(scene.ViewOf(1).busy, "validation");
  scene.WaitWithHeartbeats(2, {1});
  EXPECT_EQ(scene.View().stalls.size(), 1u);
  EXPECT_EQ(scene.ViewOf(1).busy, "");
}

TEST(StallTest, AfterBusyPatienceBeginsAnew) {
  Scene scene(SpecOf(1));
  scene.RunAll();
  scene.Says(1, protocol::Busy{"loading", absl::Seconds(100)});
  scene.WaitWithHeartbeats(90, {1});
  scene.Says(1, protocol::Busy{});
  scene.WaitWithHeartbeats(29, {1});
  EXPECT_THAT(scene.View().stalls, IsEmpty());
  scene.WaitWithHeartbeats(2, {1});
  EXPECT_EQ(scene.View().stalls.size(), 1u);
}

TEST(StallTest, BeforeStartTheStageSaysWhatIsLacking) {
  Scene scene(SpecOf(3));
  scene.JoinAll();
  scene.Register(1, {ParameterNamed("a")});
  scene.Register(3, {ParameterNamed("a")});
  scene.WaitWithHeartbeats(31, {1, 2, 3});
  EXPECT_THAT(scene.View().stalls,
              ElementsAre("w-2 (rank 1, host a, pid 102) has not registered "
                          "its parameters for 31s; w-1 and w-3 wait"));
  scene.Register(2, {ParameterNamed("a")});
  scene.Ack(1);
  EXPECT_THAT(Waits(scene.View()),
              ElementsAre("w-1 waits for w-2, which has not acknowledged the "
                          "plan",
                          "w-1 waits for w-3, which has not acknowledged the "
                          "plan"));
  scene.Ack(2);
  scene.Ack(3);
  scene.Publish(2, 1);
  EXPECT_THAT(Waits(scene.View())[0],
              HasSubstr("w-2 waits for w-1, which has not published its "
                        "handles"));
  scene.Publish(1, 0);
  scene.Publish(3, 2);
  scene.Says(1, protocol::Connected{});
  EXPECT_THAT(Waits(scene.View())[0],
              HasSubstr("w-1 waits for w-2, which has not connected its data "
                        "plane"));
}

TEST(StallTest, OnlyMembersOfAGroupAreWaitedForInATransfer) {
  JobSpec spec = SpecOf(4);
  spec.mesh.axes = {{"data", 2}, {"pipe", 2}};
  Scene scene(spec);
  scene.JoinAll();
  Parameter over_data = ParameterNamed("a");
  over_data.axes = {"data"};  // groups {0,2} and {1,3}
  for (int i : {1, 2, 3, 4}) scene.Register(i, {over_data});
  for (int i : {1, 2, 3, 4}) scene.Ack(i);
  for (int i : {1, 2, 3, 4}) scene.Publish(i, i - 1);
  for (int i : {1, 2, 3, 4}) scene.Says(i, protocol::Connected{});
  scene.Says(1, Stands(0, Phase::kTransfer));
  EXPECT_THAT(Waits(scene.View()),
              ElementsAre("w-1 waits for w-3, which is at step 0 between "
                          "steps"));
}

TEST(StallTest, EvictingEndsTheEpochWithTheSentence) {
  JobSpec spec = SpecOf(2);
  spec.on_stuck = OnStuck::kEvict;
  Scene scene(spec);
  scene.RunAll();
  scene.Says(1, Stands(3, Phase::kTransfer));
  scene.Says(2, Stands(3, Phase::kCompute));
  EXPECT_THAT(scene.WaitWithHeartbeats(31, {1, 2}),
              AllOf(HasSubstr("1 <- ended 1 for good: w-2 (rank 1, host a, pid "
                              "102) was evicted: "),
                    HasSubstr("has been computing for 30s; w-1 waits")));
  EXPECT_EQ(scene.View().cause.workers, std::vector<WorkerName>{W(2)});
}

// --- Pipelines ---

protocol::Progress Awaits(int sender, const std::string& task = "F1") {
  return {.position = {3, Phase::kCompute}, .task = task, .awaits = sender};
}

TEST(PipelineStallTest, WhoWaitsForAMessageIsNotToBlame) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  scene.Says(1, Awaits(1));
  scene.Says(2, Awaits(2));
  scene.Says(3, Stands(3, Phase::kIdle));
  scene.WaitWithHeartbeats(31, {1, 2, 3});
  EXPECT_THAT(scene.View().stalls,
              ElementsAre("step 3: w-3 (rank 2, host a, pid 103) has been "
                          "between steps for 31s; w-2 waits"));
  EXPECT_THAT(
      Waits(scene.View()),
      ElementsAre("w-1 waits for w-2, which has been at the F1 of its "
                  "pipeline's run",
                  "w-2 waits for w-3, which is at step 3 between steps"));
}

TEST(PipelineStallTest, WhoComputesIsNamedWithItsTask) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, Awaits(1));
  scene.Says(2, Awaits(-1, "backward of stage 1, micro-batch 7"));
  scene.WaitWithHeartbeats(31, {1, 2});
  EXPECT_THAT(scene.View().stalls,
              ElementsAre("step 3: w-2 (rank 1, host a, pid 102) has been at "
                          "the backward of stage 1, micro-batch 7 of its "
                          "pipeline's run for 31s; w-1 waits"));
}

TEST(PipelineStallTest, TheNextTaskIsProgress) {
  Scene scene(SpecOf(1));
  scene.RunAll();
  for (int task = 0; task < 10; ++task) {
    scene.Says(1, Awaits(-1, absl::StrCat("F", task)));
    scene.WaitWithHeartbeats(20, {1});
  }
  EXPECT_THAT(scene.View().stalls, IsEmpty());
}

// A message of a rank that is further was sent: what it says of who waits is
// old.
TEST(PipelineStallTest, NobodyWaitsForAMessageOfWhoIsFurther) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, Awaits(1));
  scene.Says(2, Stands(3, Phase::kTransfer));
  scene.WaitWithHeartbeats(31, {1, 2});
  EXPECT_THAT(scene.View().stalls, ElementsAre(HasSubstr("w-1 (rank 0")));
}

TEST(PipelineStallTest, RanksThatWaitInACircleAreNamedAndWhoWaitsForThemIsNot) {
  Scene scene(SpecOf(5));
  scene.RunAll();
  scene.Says(1, Awaits(1));
  scene.Says(2, Awaits(2));
  scene.Says(3, Awaits(1));
  scene.Says(4, Awaits(3));  // itself, which cannot be
  scene.Says(5, Awaits(77));
  scene.WaitWithHeartbeats(31, {1, 2, 3, 4, 5});
  EXPECT_THAT(scene.View().stalls,
              ElementsAre(HasSubstr("w-2 (rank 1"), HasSubstr("w-3 (rank 2"),
                          HasSubstr("w-4 (rank 3"), HasSubstr("w-5 (rank 4")));
}

// --- A GradientSync that is gone ---

protocol::Progress Withdrawn(uint64_t step) {
  return {.position = {step, Phase::kIdle}, .withdrawn = true};
}

TEST(WithdrawalTest, EndsTheEpochOnceAnotherRankGoesFurther) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  EXPECT_EQ(scene.Says(1, Withdrawn(3)), "");
  EXPECT_EQ(scene.Says(2, Stands(3, Phase::kIdle)), "");
  EXPECT_EQ(scene.Says(2, Stands(3, Phase::kCompute)), "")
      << "it may yet stop too";
  EXPECT_THAT(scene.Says(2, Stands(3, Phase::kTransfer)),
              HasSubstr("w-1 (rank 0, host a, pid 101) destroyed its "
                        "GradientSync after 3 steps, but w-2 goes on"));
}

TEST(WithdrawalTest, OfEveryRankEndsNothing) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  EXPECT_EQ(scene.Says(1, Withdrawn(3)), "");
  EXPECT_EQ(scene.Says(2, Withdrawn(3)), "");
}

TEST(WithdrawalTest, WhoMeetsABrokenLinkWithItMissesIt) {
  for (const bool link_first : {false, true}) {
    Scene scene(SpecOf(2));
    scene.RunAll();
    scene.Says(2, Stands(3, Phase::kCompute));
    std::string said;
    if (link_first) said = scene.Says(2, Scene::ResetBy(1));
    said += scene.Says(1, Withdrawn(3));
    if (!link_first) said += scene.Says(2, Scene::ResetBy(1));
    EXPECT_THAT(said, HasSubstr("w-1 (rank 0, host a, pid 101) destroyed its "
                                "GradientSync after 3 steps"));
  }
}

// So with one that has left in order, before the others.
TEST(LeaverTest, WhoMeetsABrokenLinkWithItMissesIt) {
  for (const bool link_first : {false, true}) {
    Scene scene(SpecOf(2));
    scene.RunAll();
    scene.Says(2, Stands(3, Phase::kCompute));
    std::string said;
    if (link_first) said = scene.Says(2, Scene::ResetBy(1));
    said += scene.Says(1, protocol::Leave{.steps = 3});
    if (!link_first) said += scene.Says(2, Scene::ResetBy(1));
    EXPECT_THAT(said, HasSubstr("w-1 (rank 0, host a, pid 101) left after 3 "
                                "steps, but w-2 goes on"));
  }
}

// It leaves because of a link, which is another's fault.
TEST(LeaverTest, WhoAccusesAnotherIsNotMissed) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  for (const int i : {1, 2, 3}) scene.Says(i, Stands(3, Phase::kCompute));
  scene.Says(1, Scene::ResetBy(3));
  scene.Says(2, Scene::ResetBy(1));
  EXPECT_THAT(scene.Says(1, protocol::Leave{.steps = 3}),
              Not(HasSubstr("goes on")));
}

// --- Stragglers -------------------------------------------------------------

protocol::Progress Computes(uint64_t step, const std::string& missing) {
  return {.position = {step, Phase::kCompute},
          .submitted = 3,
          .missing = {missing}};
}

TEST(LagTest, WhoIsLateIsNamedInDescribeAndInOneEvent) {
  Scene scene(SpecOf(7));
  scene.RunAll();
  for (uint64_t i = 1; i <= 7; ++i) {
    scene.Says(i, Computes(412, "layers.7.weight"));
  }
  for (uint64_t i : {1, 2, 3, 5, 6, 7}) {
    scene.Says(i, Stands(412, Phase::kTransfer));
  }
  scene.Pass(1.9);
  EXPECT_THAT(scene.View().stalls, IsEmpty());
  scene.Wait(0.2);
  const std::string sentence =
      "step 412: w-4 (rank 3, host a, pid 104) has not submitted "
      "layers.7.weight for 2s; 6 ranks wait";
  EXPECT_EQ(scene.View().events.back().text, sentence);
  scene.Wait(0.1);
  EXPECT_THAT(scene.View().stalls,
              ElementsAre("step 412: w-4 (rank 3, host a, pid 104) has not "
                          "submitted layers.7.weight for 2.2s; 6 ranks wait"));
  scene.WaitWithHeartbeats(5, {1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(scene.View().events.back().text, sentence) << "said once";
  scene.Says(4, Stands(412, Phase::kTransfer));
  EXPECT_THAT(scene.View().stalls, IsEmpty());
}

TEST(LagTest, LagsAreKeptByRankAndByTheGradientThatCameLast) {
  Scene scene(SpecOf(3));
  scene.RunAll();
  for (uint64_t step = 1; step <= 40; ++step) {
    for (uint64_t i : {1, 2, 3}) scene.Says(i, Computes(step, "head"));
    scene.Says(1, Stands(step, Phase::kTransfer));
    scene.Says(2, Stands(step, Phase::kTransfer));
    scene.Says(3, Computes(step, step % 4 == 0 ? "tail" : "stem"));
    scene.Wait(0.5);
    scene.Says(3, Stands(step, Phase::kTransfer));
    scene.Wait(0.25);
  }
  EXPECT_EQ(scene.ViewOf(1).lag_seconds, 0);
  EXPECT_NEAR(scene.ViewOf(3).lag_seconds, 0.5, 0.01);
  const std::vector<LagView> lags = scene.View().lags;
  ASSERT_EQ(lags.size(), 2u);
  EXPECT_EQ(lags[0].worker, W(3));
  EXPECT_EQ(lags[0].parameter, "stem");
  EXPECT_NEAR(lags[0].seconds, 15, 1e-6);
  EXPECT_EQ(lags[1].parameter, "tail");
  EXPECT_NEAR(lags[1].seconds, 5, 1e-6);
}

TEST(LagTest, OfVeryManySomeAreNamedAndTheOthersCounted) {
  Scene scene(SpecOf(1000));
  scene.RunAll();
  scene.Says(1, Stands(3, Phase::kTransfer));
  const size_t before = scene.View().events.size();
  scene.Wait(2.1);
  EXPECT_EQ(scene.View().events.back().text, "and 991 more ranks are late");
  EXPECT_LE(scene.View().events.size(), before + 9);
  EXPECT_EQ(scene.View().stalls.size(), 9u);
}

TEST(LagTest, ABusyRankIsNotLate) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(2, protocol::Busy{"validation", absl::Seconds(100)});
  scene.Says(1, Stands(3, Phase::kTransfer));
  scene.Wait(5);
  EXPECT_THAT(scene.View().stalls, IsEmpty());
}

TEST(LagTest, ARankThatIsLateInEveryStepIsNamedOnceAMinute) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  for (uint64_t step = 1; step <= 40; ++step) {
    scene.Says(1, Stands(step, Phase::kTransfer));
    scene.Wait(3);
    scene.Says(2, Stands(step, Phase::kTransfer));
  }
  int told = 0;
  for (const EventView& event : scene.View().events) {
    if (event.text.find("w-1 waits") != std::string::npos) ++told;
  }
  EXPECT_EQ(told, 2) << "in two minutes";
}

TEST(ViewTest, ShowsWorkersByRankWithTheirCoordinates) {
  JobSpec spec = SpecOf(4);
  spec.mesh.axes = {{"data", 2}, {"pipe", 2}};
  Scene scene(spec);
  scene.RunAll();
  scene.Says(4, protocol::Progress{.position = {9, Phase::kTransfer},
                                   .step_seconds = 0.25,
                                   .exposed_seconds = 0.0625,
                                   .overlap = Overlap::kInline});
  scene.Says(4, protocol::Progress{.position = {9, Phase::kVerdict},
                                   .memory = "registered"});
  scene.Pass(3);
  const JobView view = scene.View();
  ASSERT_EQ(view.workers.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(view.workers[rank].rank, rank);
    EXPECT_EQ(view.workers[rank].state, WorkerState::kReady);
    EXPECT_EQ(view.workers[rank].name, W(rank + 1));
  }
  EXPECT_THAT(view.workers[3].coordinates, ElementsAre(1, 1));
  EXPECT_EQ(view.workers[3].step_seconds, 0.25);
  EXPECT_EQ(view.workers[3].exposed_seconds, 0.0625)
      << "until the next step has passed";
  EXPECT_EQ(view.workers[3].overlap, Overlap::kInline);
  EXPECT_EQ(view.workers[3].memory, "registered");
  EXPECT_EQ(view.workers[3].silent_for, absl::Seconds(3));
  EXPECT_EQ(view.workers[3].no_progress_for, absl::Seconds(3));
  EXPECT_EQ(view.spec, spec);
  EXPECT_EQ(view.epoch, EpochId{1});
}

TEST(ViewTest, KeepsTheNewestHundredEventsOldestFirst) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  for (int i = 0; i < 200; ++i) {
    scene.Closes(1 + (i == 0 ? 0 : 100 + i - 1), absl::StrCat("break ", i));
    scene.Resume(1 + 100 + i, 1);
  }
  const JobView view = scene.View();
  ASSERT_EQ(view.events.size(), 100u);
  EXPECT_THAT(view.events.back().text, HasSubstr("w-1 (rank 0"));
  EXPECT_THAT(view.events[98].text, HasSubstr("break 199"));
}

TEST(ViewTest, SumsUpEveryJob) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  scene.Says(1, Stands(31, Phase::kCompute));
  scene.Step(CreateJob{{1}, SpecOf(3, "other"), ""});
  const std::vector<JobSummary> jobs = scene.core().Jobs();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0], (JobSummary{.name = {"digits"},
                                 .state = JobState::kRunning,
                                 .epoch = {1},
                                 .ready = 2,
                                 .world_size = 2,
                                 .step = 31}));
  EXPECT_EQ(jobs[1].state, JobState::kForming);
  EXPECT_TRUE(absl::IsNotFound(
      scene.core().Describe({"nothing"}, scene.now()).status()));
}

TEST(JobsTest, NoneSeesAnother) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  JobSpec other = SpecOf(2, "letters");
  for (int i : {1, 2}) {
    protocol::Hello hello = scene.HelloOf(i);
    hello.spec = other;
    scene.Step(Received{{static_cast<uint64_t>(10 + i)},
                        {{"letters"}, {}, {}, hello}});
  }
  EXPECT_EQ(scene.core().Jobs()[1].state, JobState::kSealed);
  scene.Step(StopJob{{1}, {"letters"}, "", ""});
  EXPECT_EQ(scene.View().state, JobState::kRunning);
  EXPECT_EQ(scene.WaitWithHeartbeats(30, {1, 2}), "");
}

}  // namespace
}  // namespace lockstep::core
