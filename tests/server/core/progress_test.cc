// Stuck ranks, the ranks they wait for, and the operator's view.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using protocol::Phase;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::vector<std::string> Waits(const JobView& view) {
  std::vector<std::string> lines;
  for (const WaitView& wait : view.waits) {
    lines.push_back(absl::StrCat(wait.waiter.value, " waits for ",
                                 wait.waited_for.value, ", which ", wait.why));
  }
  return lines;
}

TEST(StallTest, TheOneThatWaitsForNobodyIsNamedOnce) {
  CoordinatorFixture fixture(SpecOf(4));
  fixture.RunAll();
  fixture.Says(1, Stands(412, Phase::kVerdict));
  fixture.Says(2, Stands(412, Phase::kTransfer));
  fixture.Says(
      3, {protocol::Progress{.position = {412, Phase::kCompute},
                             .submitted = 3,
                             .missing = {"layers.7.weight", "layers.7.bias"}}});
  fixture.Says(4, Stands(412, Phase::kVerdict));
  EXPECT_THAT(fixture.WaitWithHeartbeats(61, {1, 2, 3, 4}), NoEffects());

  EXPECT_THAT(
      fixture.Stalls(),
      ElementsAre(
          "step 412: w-3 (rank 2, host a, pid 103) has not submitted "
          "layers.7.weight and layers.7.bias for 1m1s; w-1, w-2 and w-4 "
          "wait"));
  EXPECT_THAT(
      Waits(fixture.View()),
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
  for (const EventView& event : fixture.View().events) {
    if (event.text.find("layers.7.weight") != std::string::npos) ++told;
  }
  EXPECT_EQ(told, 2) << "as late and as stuck, and not once for each timeout "
                        "that passes";
}

TEST(StallTest, ItGoesOnAndNobodyIsStuckAnyMore) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, Stands(3, Phase::kTransfer));
  fixture.Says(2, Stands(3, Phase::kCompute));
  fixture.WaitWithHeartbeats(31, {1, 2});
  ASSERT_EQ(fixture.Stalls().size(), 1u);
  fixture.Says(2, Stands(3, Phase::kTransfer));
  EXPECT_THAT(fixture.View().events.back().text, HasSubstr("w-2 (rank 1"));
  EXPECT_THAT(fixture.View().events.back().text, HasSubstr("goes on"));
  EXPECT_EQ(fixture.Stalls().size(), 1u)
      << "now w-1 waits for nobody and still does not move";
  EXPECT_THAT(fixture.Stalls()[0], HasSubstr("w-1 (rank 0"));
}

TEST(StallTest, SubmittingParametersIsProgress) {
  CoordinatorFixture fixture(SpecOf(1));
  fixture.RunAll();
  for (uint32_t submitted = 0; submitted < 10; ++submitted) {
    fixture.Says(1, protocol::Progress{.position = {1, Phase::kCompute},
                                       .submitted = submitted});
    fixture.WaitWithHeartbeats(20, {1});
  }
  EXPECT_THAT(fixture.Stalls(), IsEmpty());
}

TEST(StallTest, CallsOfGroupsAreProgress) {
  CoordinatorFixture fixture(SpecOf(1));
  fixture.RunAll();
  for (uint64_t calls = 0; calls < 10; ++calls) {
    fixture.Says(1, protocol::Progress{.position = {0, Phase::kIdle},
                                       .groups = {{.calls = calls}}});
    fixture.WaitWithHeartbeats(20, {1});
  }
  EXPECT_THAT(fixture.Stalls(), IsEmpty());
}

// Ranks 2 and 3 are a group; rank 3 does not call.
TEST(StallTest, WhoWaitsInACollectiveIsNotAtFault) {
  JobSpec spec = SpecOf(4);
  spec.mesh = {{{"data", 2}, {"model", 2}}};
  spec.on_stuck = OnStuck::kEvict;
  CoordinatorFixture fixture(spec);
  const protocol::AxisGroupDeclaration model{{"model"}, {}};
  fixture.JoinAll();
  for (int worker = 1; worker <= 4; ++worker) {
    fixture.Says(worker,
                 protocol::RegisterChunk{.index = 0,
                                         .last = true,
                                         .parameters = {ParameterNamed("a")},
                                         .groups = {model}});
  }
  fixture.Connect();
  // Communicators 0, 1: the verdict's and the parameter's; 2: ranks 0, 1.
  const auto at = [](uint64_t calls, bool waits) {
    return protocol::Progress{.position = {5, Phase::kIdle},
                              .groups = {{3, calls, calls - (waits ? 1 : 0),
                                          waits ? "psum over model" : ""}}};
  };
  fixture.Says(1, Stands(5, Phase::kVerdict));
  fixture.Says(2, Stands(5, Phase::kVerdict));
  fixture.Says(3, at(7, true));
  fixture.Says(4, at(6, false));
  EXPECT_THAT(Waits(fixture.View()),
              testing::Contains("w-3 waits for w-4, which has not called psum "
                                "over model"));
  fixture.WaitWithHeartbeats(31, {1, 2, 3, 4});
  EXPECT_THAT(fixture.View().cause.message,
              AllOf(HasSubstr("w-4 (rank 3, host a, pid 104) was evicted: step "
                              "5: w-4 (rank 3, host a, pid 104) has not called "
                              "psum over model for"),
                    testing::Not(HasSubstr("w-3 (rank 2, host a, pid 103) was "
                                           "evicted"))));
}

TEST(StallTest, BusyIsNotStuckUntilItsTimeIsUp) {
  CoordinatorFixture fixture(SpecOf(1));
  fixture.RunAll();
  fixture.Says(1, protocol::Busy{"validation", absl::Seconds(100)});
  fixture.WaitWithHeartbeats(99, {1});
  EXPECT_THAT(fixture.Stalls(), IsEmpty());
  EXPECT_EQ(fixture.ViewOf(1).busy, "validation");
  fixture.WaitWithHeartbeats(2, {1});
  EXPECT_EQ(fixture.Stalls().size(), 1u);
  EXPECT_EQ(fixture.ViewOf(1).busy, "");
}

TEST(StallTest, AfterBusyPatienceBeginsAnew) {
  CoordinatorFixture fixture(SpecOf(1));
  fixture.RunAll();
  fixture.Says(1, protocol::Busy{"loading", absl::Seconds(100)});
  fixture.WaitWithHeartbeats(90, {1});
  fixture.Says(1, protocol::Busy{});
  fixture.WaitWithHeartbeats(29, {1});
  EXPECT_THAT(fixture.Stalls(), IsEmpty());
  fixture.WaitWithHeartbeats(2, {1});
  EXPECT_EQ(fixture.Stalls().size(), 1u);
}

TEST(StallTest, BeforeStartTheStageSaysWhatIsLacking) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.JoinAll();
  fixture.Register(1, {ParameterNamed("a")});
  fixture.Register(3, {ParameterNamed("a")});
  fixture.WaitWithHeartbeats(31, {1, 2, 3});
  EXPECT_THAT(fixture.Stalls(),
              ElementsAre("w-2 (rank 1, host a, pid 102) has not registered "
                          "its parameters for 31s; w-1 and w-3 wait"));
  fixture.Register(2, {ParameterNamed("a")});
  fixture.Ack(1);
  EXPECT_THAT(Waits(fixture.View()),
              ElementsAre("w-1 waits for w-2, which has not acknowledged the "
                          "plan",
                          "w-1 waits for w-3, which has not acknowledged the "
                          "plan"));
  fixture.Ack(2);
  fixture.Ack(3);
  fixture.Publish(2, 1);
  EXPECT_THAT(Waits(fixture.View())[0],
              HasSubstr("w-2 waits for w-1, which has not published its "
                        "handles"));
  fixture.Publish(1, 0);
  fixture.Publish(3, 2);
  fixture.Says(1, protocol::Connected{});
  EXPECT_THAT(Waits(fixture.View())[0],
              HasSubstr("w-1 waits for w-2, which has not connected its data "
                        "plane"));
}

TEST(StallTest, OnlyMembersOfAGroupAreWaitedForInATransfer) {
  JobSpec spec = SpecOf(4);
  spec.mesh.axes = {{"data", 2}, {"pipe", 2}};
  CoordinatorFixture fixture(spec);
  fixture.JoinAll();
  Parameter over_data = ParameterNamed("a");
  over_data.axes = {"data"};  // groups {0,2} and {1,3}
  for (int i : {1, 2, 3, 4}) fixture.Register(i, {over_data});
  for (int i : {1, 2, 3, 4}) fixture.Ack(i);
  for (int i : {1, 2, 3, 4}) fixture.Publish(i, i - 1);
  for (int i : {1, 2, 3, 4}) fixture.Says(i, protocol::Connected{});
  fixture.Says(1, Stands(0, Phase::kTransfer));
  EXPECT_THAT(Waits(fixture.View()),
              ElementsAre("w-1 waits for w-3, which is at step 0 between "
                          "steps"));
}

TEST(StallTest, EvictingEndsTheEpochWithTheSentence) {
  JobSpec spec = SpecOf(2);
  spec.on_stuck = OnStuck::kEvict;
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  fixture.Says(1, Stands(3, Phase::kTransfer));
  fixture.Says(2, Stands(3, Phase::kCompute));
  EXPECT_THAT(
      fixture.WaitWithHeartbeats(31, {1, 2}),
      FailsJob(1,
               AllOf(StartsWith("w-2 (rank 1, host a, pid 102) was evicted: "),
                     HasSubstr("has been computing for 30s; w-1 waits"))));
  EXPECT_EQ(fixture.View().cause.workers, std::vector<WorkerName>{W(2)});
}

// --- Pipelines ---

protocol::Progress Awaits(int sender, const std::string& task = "F1") {
  return {.position = {3, Phase::kCompute}, .task = task, .awaits = sender};
}

TEST(PipelineStallTest, WhoWaitsForAMessageIsNotToBlame) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.Says(1, Awaits(1));
  fixture.Says(2, Awaits(2));
  fixture.Says(3, Stands(3, Phase::kIdle));
  fixture.WaitWithHeartbeats(31, {1, 2, 3});
  EXPECT_THAT(fixture.Stalls(),
              ElementsAre("step 3: w-3 (rank 2, host a, pid 103) has been "
                          "between steps for 31s; w-2 waits"));
  EXPECT_THAT(
      Waits(fixture.View()),
      ElementsAre("w-1 waits for w-2, which has been at the F1 of its "
                  "pipeline's run",
                  "w-2 waits for w-3, which is at step 3 between steps"));
}

TEST(PipelineStallTest, WhoComputesIsNamedWithItsTask) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, Awaits(1));
  fixture.Says(2, Awaits(-1, "backward of stage 1, micro-batch 7"));
  fixture.WaitWithHeartbeats(31, {1, 2});
  EXPECT_THAT(fixture.Stalls(),
              ElementsAre("step 3: w-2 (rank 1, host a, pid 102) has been at "
                          "the backward of stage 1, micro-batch 7 of its "
                          "pipeline's run for 31s; w-1 waits"));
}

TEST(PipelineStallTest, TheNextTaskIsProgress) {
  CoordinatorFixture fixture(SpecOf(1));
  fixture.RunAll();
  for (int task = 0; task < 10; ++task) {
    fixture.Says(1, Awaits(-1, absl::StrCat("F", task)));
    fixture.WaitWithHeartbeats(20, {1});
  }
  EXPECT_THAT(fixture.Stalls(), IsEmpty());
}

// A rank that is further has sent the message: the waiting rank's report is
// old.
TEST(PipelineStallTest, NobodyWaitsForAMessageOfWhoIsFurther) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, Awaits(1));
  fixture.Says(2, Stands(3, Phase::kTransfer));
  fixture.WaitWithHeartbeats(31, {1, 2});
  EXPECT_THAT(fixture.Stalls(), ElementsAre(HasSubstr("w-1 (rank 0")));
}

TEST(PipelineStallTest, RanksThatWaitInACircleAreNamedAndWhoWaitsForThemIsNot) {
  CoordinatorFixture fixture(SpecOf(5));
  fixture.RunAll();
  fixture.Says(1, Awaits(1));
  fixture.Says(2, Awaits(2));
  fixture.Says(3, Awaits(1));
  fixture.Says(4, Awaits(3));  // itself, which is impossible
  fixture.Says(5, Awaits(77));
  fixture.WaitWithHeartbeats(31, {1, 2, 3, 4, 5});
  EXPECT_THAT(fixture.Stalls(),
              ElementsAre(HasSubstr("w-2 (rank 1"), HasSubstr("w-3 (rank 2"),
                          HasSubstr("w-4 (rank 3"), HasSubstr("w-5 (rank 4")));
}

// --- A GradientSync that was destroyed ---

protocol::Progress Withdrawn(uint64_t step) {
  return {.position = {step, Phase::kIdle}, .withdrawn = true};
}

TEST(WithdrawalTest, EndsTheEpochOnceAnotherRankGoesFurther) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.Says(1, Withdrawn(3)), NoEffects());
  EXPECT_THAT(fixture.Says(2, Stands(3, Phase::kIdle)), NoEffects());
  EXPECT_THAT(fixture.Says(2, Stands(3, Phase::kCompute)), NoEffects())
      << "it may yet stop too";
  EXPECT_THAT(
      fixture.Says(2, Stands(3, Phase::kTransfer)),
      FailsJob(2, HasSubstr("w-1 (rank 0, host a, pid 101) destroyed its "
                            "GradientSync after 3 steps, but w-2 goes on")));
}

TEST(WithdrawalTest, OfEveryRankEndsNothing) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.Says(1, Withdrawn(3)), NoEffects());
  EXPECT_THAT(fixture.Says(2, Withdrawn(3)), NoEffects());
}

TEST(WithdrawalTest, WhoMeetsABrokenLinkWithItMissesIt) {
  for (const bool link_first : {false, true}) {
    CoordinatorFixture fixture(SpecOf(2));
    fixture.RunAll();
    fixture.Says(2, Stands(3, Phase::kCompute));
    EffectList requested;
    if (link_first) requested = fixture.Says(2, CoordinatorFixture::ResetBy(1));
    requested += fixture.Says(1, Withdrawn(3));
    if (!link_first) {
      requested += fixture.Says(2, CoordinatorFixture::ResetBy(1));
    }
    EXPECT_THAT(
        requested,
        FailsJob(2, HasSubstr("w-1 (rank 0, host a, pid 101) destroyed its "
                              "GradientSync after 3 steps")));
  }
}

// The same holds for a rank that left in order, before the others.
TEST(LeaverTest, WhoMeetsABrokenLinkWithItMissesIt) {
  for (const bool link_first : {false, true}) {
    CoordinatorFixture fixture(SpecOf(2));
    fixture.RunAll();
    fixture.Says(2, Stands(3, Phase::kCompute));
    EffectList requested;
    if (link_first) requested = fixture.Says(2, CoordinatorFixture::ResetBy(1));
    requested += fixture.Says(1, protocol::Leave{.steps = 3});
    if (!link_first) {
      requested += fixture.Says(2, CoordinatorFixture::ResetBy(1));
    }
    EXPECT_THAT(requested,
                FailsJob(2, HasSubstr("w-1 (rank 0, host a, pid 101) left "
                                      "after 3 steps, but w-2 goes on")));
  }
}

// The rank leaves because of a link that another rank reset.
TEST(LeaverTest, WhoAccusesAnotherIsNotMissed) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  for (const int i : {1, 2, 3}) fixture.Says(i, Stands(3, Phase::kCompute));
  fixture.Says(1, CoordinatorFixture::ResetBy(3));
  fixture.Says(2, CoordinatorFixture::ResetBy(1));
  EXPECT_THAT(fixture.Says(1, protocol::Leave{.steps = 3}),
              EffectsAre(Persists(7, WorkerLeft("w-1", 1)), Sends(1, Left()),
                         Closes(1, StatusCode::kOk)));
}

// --- Stragglers -------------------------------------------------------------

protocol::Progress Computes(uint64_t step, const std::string& missing) {
  return {.position = {step, Phase::kCompute},
          .submitted = 3,
          .missing = {missing}};
}

TEST(LagTest, WhoIsLateIsNamedInDescribeAndInOneEvent) {
  CoordinatorFixture fixture(SpecOf(7));
  fixture.RunAll();
  for (uint64_t i = 1; i <= 7; ++i) {
    fixture.Says(i, Computes(412, "layers.7.weight"));
  }
  for (uint64_t i : {1, 2, 3, 5, 6, 7}) {
    fixture.Says(i, Stands(412, Phase::kTransfer));
  }
  fixture.Pass(1.9);
  EXPECT_THAT(fixture.Stalls(), IsEmpty());
  fixture.Wait(0.2);
  const std::string sentence =
      "step 412: w-4 (rank 3, host a, pid 104) has not submitted "
      "layers.7.weight for 2s; 6 ranks wait";
  EXPECT_EQ(fixture.View().events.back().text, sentence);
  fixture.Wait(0.1);
  EXPECT_THAT(fixture.Stalls(),
              ElementsAre("step 412: w-4 (rank 3, host a, pid 104) has not "
                          "submitted layers.7.weight for 2.2s; 6 ranks wait"));
  fixture.WaitWithHeartbeats(5, {1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(fixture.View().events.back().text, sentence) << "said once";
  fixture.Says(4, Stands(412, Phase::kTransfer));
  EXPECT_THAT(fixture.Stalls(), IsEmpty());
}

TEST(LagTest, LagsAreKeptByRankAndByTheGradientThatCameLast) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  for (uint64_t step = 1; step <= 40; ++step) {
    for (uint64_t i : {1, 2, 3}) fixture.Says(i, Computes(step, "head"));
    fixture.Says(1, Stands(step, Phase::kTransfer));
    fixture.Says(2, Stands(step, Phase::kTransfer));
    fixture.Says(3, Computes(step, step % 4 == 0 ? "tail" : "stem"));
    fixture.Wait(0.5);
    fixture.Says(3, Stands(step, Phase::kTransfer));
    fixture.Wait(0.25);
  }
  EXPECT_EQ(fixture.ViewOf(1).lag_seconds, 0);
  EXPECT_NEAR(fixture.ViewOf(3).lag_seconds, 0.5, 0.01);
  const std::vector<LagView> lags = fixture.View().lags;
  ASSERT_EQ(lags.size(), 2u);
  EXPECT_EQ(lags[0].worker, W(3));
  EXPECT_EQ(lags[0].parameter, "stem");
  EXPECT_NEAR(lags[0].seconds, 15, 1e-6);
  EXPECT_EQ(lags[1].parameter, "tail");
  EXPECT_NEAR(lags[1].seconds, 5, 1e-6);
}

TEST(LagTest, OfVeryManySomeAreNamedAndTheOthersCounted) {
  CoordinatorFixture fixture(SpecOf(1000));
  fixture.RunAll();
  fixture.Says(1, Stands(3, Phase::kTransfer));
  const size_t before = fixture.View().events.size();
  fixture.Wait(2.1);
  EXPECT_EQ(fixture.View().events.back().text, "and 991 more ranks are late");
  EXPECT_LE(fixture.View().events.size(), before + 9);
  EXPECT_EQ(fixture.Stalls().size(), 9u);
}

TEST(LagTest, ABusyRankIsNotLate) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(2, protocol::Busy{"validation", absl::Seconds(100)});
  fixture.Says(1, Stands(3, Phase::kTransfer));
  fixture.Wait(5);
  EXPECT_THAT(fixture.Stalls(), IsEmpty());
}

TEST(LagTest, ARankThatIsLateInEveryStepIsNamedOnceAMinute) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  for (uint64_t step = 1; step <= 40; ++step) {
    fixture.Says(1, Stands(step, Phase::kTransfer));
    fixture.Wait(3);
    fixture.Says(2, Stands(step, Phase::kTransfer));
  }
  int told = 0;
  for (const EventView& event : fixture.View().events) {
    if (event.text.find("w-1 waits") != std::string::npos) ++told;
  }
  EXPECT_EQ(told, 2) << "in two minutes";
}

TEST(ViewTest, ShowsWorkersByRankWithTheirCoordinates) {
  JobSpec spec = SpecOf(4);
  spec.mesh.axes = {{"data", 2}, {"pipe", 2}};
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  fixture.Says(4, protocol::Progress{.position = {9, Phase::kTransfer},
                                     .step_seconds = 0.25,
                                     .exposed_seconds = 0.0625,
                                     .overlap = Overlap::kInline});
  fixture.Says(4, protocol::Progress{.position = {9, Phase::kVerdict},
                                     .memory = "registered"});
  fixture.Pass(3);
  const JobView view = fixture.View();
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
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  for (int i = 0; i < 200; ++i) {
    fixture.Closes(1 + (i == 0 ? 0 : 100 + i - 1), absl::StrCat("break ", i));
    fixture.Resume(1 + 100 + i, 1);
  }
  const JobView view = fixture.View();
  ASSERT_EQ(view.events.size(), 100u);
  EXPECT_THAT(view.events.back().text, HasSubstr("w-1 (rank 0"));
  EXPECT_THAT(view.events[98].text, HasSubstr("break 199"));
}

TEST(ViewTest, SumsUpEveryJob) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(1, Stands(31, Phase::kCompute));
  fixture.Step(CreateJob{{1}, SpecOf(3, "other"), ""});
  const std::vector<JobSummary> jobs = fixture.core().Jobs();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0], (JobSummary{.name = {"digits"},
                                 .state = JobState::kRunning,
                                 .epoch = {1},
                                 .ready = 2,
                                 .world_size = 2,
                                 .step = 31}));
  EXPECT_EQ(jobs[1].state, JobState::kForming);
  EXPECT_TRUE(absl::IsNotFound(
      fixture.core().Describe({"nothing"}, fixture.now()).status()));
}

TEST(JobsTest, NoneSeesAnother) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  JobSpec other = SpecOf(2, "letters");
  for (int i : {1, 2}) {
    protocol::Hello hello = fixture.HelloOf(i);
    hello.spec = other;
    fixture.Step(MessageReceived{{static_cast<uint64_t>(10 + i)},
                                 {{"letters"}, {}, {}, hello}});
  }
  EXPECT_EQ(fixture.core().Jobs()[1].state, JobState::kSealed);
  fixture.Step(StopJob{{1}, {"letters"}, "", ""});
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_THAT(fixture.WaitWithHeartbeats(30, {1, 2}), NoEffects());
}

}  // namespace
}  // namespace lockstep::core
