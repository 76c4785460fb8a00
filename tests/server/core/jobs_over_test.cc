// Jobs that have ended: deleted, archived under another name, dropped when
// there are many; and their cost.

#include <chrono>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"
#include "tests/support/sanitizers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

EffectList Creates(CoordinatorFixture& fixture, const JobSpec& spec,
                   const std::string& token = "") {
  return fixture.Step(CreateJob{{5}, spec, token});
}
EffectList Deletes(CoordinatorFixture& fixture, const std::string& job,
                   bool keep = false, const std::string& token = "") {
  return fixture.Step(DeleteJob{{6}, {job}, token, keep});
}
EffectList Stops(CoordinatorFixture& fixture, const std::string& job) {
  return fixture.Step(StopJob{{7}, {job}, "", "enough"});
}
std::vector<std::string> NamesOfJobs(const CoordinatorFixture& fixture) {
  std::vector<std::string> names;
  for (const JobSummary& job :
       const_cast<CoordinatorFixture&>(fixture).core().Jobs()) {
    names.push_back(job.name.value);
  }
  return names;
}

TEST(JobsOverTest, ADeletedJobIsGoneAndItsNameIsFree) {
  CoordinatorFixture fixture;
  fixture.RunAll();
  Stops(fixture, "digits");
  EXPECT_THAT(Deletes(fixture, "digits"),
              EffectsEndWith(Answers(6, StatusCode::kOk)));
  EXPECT_THAT(NamesOfJobs(fixture), SizeIs(0));
  EXPECT_THAT(Deletes(fixture, "digits"),
              EffectsAre(Answers(6, StatusCode::kNotFound)));
  EXPECT_THAT(Creates(fixture, SpecOf(3)),
              EffectsEndWith(Answers(5, StatusCode::kOk)));
  EXPECT_EQ(fixture.View().spec.mesh.WorldSize(), 3);
}

TEST(JobsOverTest, TheHistorySaysWhoCreatedAJobAndWhoKeptIt) {
  CoordinatorFixture fixture;
  fixture.Step(CreateJob{{5}, SpecOf(1, "mine"), "", "alice at 10.0.0.7:4000"});
  fixture.Step(StopJob{{7}, {"mine"}, "", "", "alice at 10.0.0.7:4001"});
  fixture.Step(DeleteJob{{6}, {"mine"}, "", true, "bob at 10.0.0.8:5000"});
  const auto kept = fixture.core().Describe({"mine#1"}, At(0));
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_THAT(kept->events, SizeIs(4));
  EXPECT_EQ(kept->events[0].text,
            "job mine was created for data=1 by alice at 10.0.0.7:4000");
  EXPECT_EQ(kept->events[1].text,
            "stop at once is asked for by alice at 10.0.0.7:4001");
  EXPECT_EQ(kept->events[3].text,
            "job mine is over and kept as mine#1 by bob at 10.0.0.8:5000");
}

TEST(JobsOverTest, AJobThatLivesIsNotDeleted) {
  CoordinatorFixture fixture;
  fixture.RunAll();
  EXPECT_THAT(Deletes(fixture, "digits"),
              EffectsAre(Answers(6, StatusCode::kFailedPrecondition,
                                 HasSubstr("is running"))));
  EXPECT_THAT(Deletes(fixture, "digits", /*keep=*/true),
              EffectsAre(Answers(6, StatusCode::kFailedPrecondition)));
}

TEST(JobsOverTest, ANewJobTakesTheNameAndTheOldOneIsKept) {
  CoordinatorFixture fixture;
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Creates(fixture, SpecOf(2 + i)),
                EffectsEndWith(Answers(5, StatusCode::kOk)));
    Stops(fixture, "digits");
  }
  EXPECT_THAT(NamesOfJobs(fixture),
              ElementsAre("digits", "digits#1", "digits#2"));
  const JobView first = *fixture.core().Describe({"digits#1"}, fixture.now());
  EXPECT_EQ(first.spec.mesh.WorldSize(), 2);
  EXPECT_EQ(first.name.value, "digits#1");
  EXPECT_EQ(first.state, JobState::kStopped);
  EXPECT_THAT(first.cause.message, HasSubstr("enough"));
  EXPECT_EQ(fixture.View().spec.mesh.WorldSize(), 4);

  EXPECT_THAT(Deletes(fixture, "digits#2"),
              EffectsEndWith(Answers(6, StatusCode::kOk)));
  EXPECT_THAT(Deletes(fixture, "digits", /*keep=*/true),
              Includes(Persists(JobArchived("digits#2"))));
  EXPECT_THAT(Deletes(fixture, "digits#1", /*keep=*/true),
              EffectsAre(Answers(6, StatusCode::kOk)));
  EXPECT_THAT(NamesOfJobs(fixture), ElementsAre("digits#1", "digits#2"));
}

TEST(JobsOverTest, ALivingJobKeepsItsName) {
  CoordinatorFixture fixture;
  fixture.RunAll();
  EXPECT_THAT(Creates(fixture, SpecOf(2)),
              EffectsAre(Answers(5, StatusCode::kOk)));
  EXPECT_THAT(Creates(fixture, SpecOf(3)),
              EffectsAre(Answers(5, StatusCode::kAlreadyExists)));
  EXPECT_THAT(NamesOfJobs(fixture), ElementsAre("digits"));
}

TEST(JobsOverTest, OnlyItsTokenFreesTheName) {
  CoordinatorFixture fixture;
  Creates(fixture, SpecOf(2), "secret");
  fixture.Step(StopJob{{7}, {"digits"}, "secret", ""});
  EXPECT_THAT(Creates(fixture, SpecOf(2), "other"),
              EffectsAre(Answers(5, StatusCode::kPermissionDenied)));
  EXPECT_THAT(Deletes(fixture, "digits", false, "other"),
              EffectsAre(Answers(6, StatusCode::kPermissionDenied)));
  EXPECT_THAT(Creates(fixture, SpecOf(2), "secret"),
              EffectsEndWith(Answers(5, StatusCode::kOk)));
}

// A late worker must not start a finished job again.
TEST(JobsOverTest, AHelloDoesNotTakeTheNameOver) {
  CoordinatorFixture fixture;
  fixture.RunAll();
  Stops(fixture, "digits");
  protocol::Hello hello = fixture.HelloOf(2);
  hello.incarnation = 99;
  EXPECT_THAT(
      fixture.Hello(9, hello),
      Refuses(9, StatusCode::kFailedPrecondition, HasSubstr("is over")));
}

TEST(JobsOverTest, StreamsOfTheOldJobDoNotSpeakInTheNewOne) {
  CoordinatorFixture fixture;
  fixture.RunAll();
  Stops(fixture, "digits");
  EXPECT_THAT(Creates(fixture, SpecOf(2)), Includes(Closes(1), Closes(2)));
  EXPECT_THAT(fixture.Says(1, protocol::LocalFailure{.call = "f"}, {1}),
              NoEffects());
  EXPECT_EQ(fixture.View().state, JobState::kForming);
}

TEST(JobsOverTest, ARestartedCoordinatorKnowsThem) {
  CoordinatorFixture fixture;
  fixture.RunAll();
  Stops(fixture, "digits");
  Creates(fixture, SpecOf(3));
  Stops(fixture, "digits");
  Deletes(fixture, "digits");
  fixture.Restart();
  fixture.Step(TimerExpired{});
  EXPECT_THAT(NamesOfJobs(fixture), ElementsAre("digits#1"));
  EXPECT_EQ(fixture.core().Describe({"digits#1"}, fixture.now())->state,
            JobState::kStopped);
}

TEST(JobsOverTest, TheOldestAreForgotten) {
  CoordinatorFixture fixture;
  for (size_t i = 0; i < kJobsOverMax + 3; ++i) {
    const std::string name = absl::StrCat("job-", i);
    Creates(fixture, SpecOf(2, name));
    Stops(fixture, name);
  }
  EXPECT_THAT(NamesOfJobs(fixture), SizeIs(kJobsOverMax));
  EXPECT_TRUE(absl::IsNotFound(
      fixture.core().Describe({"job-2"}, fixture.now()).status()));
  EXPECT_TRUE(fixture.core().Describe({"job-3"}, fixture.now()).ok());
}

double MicrosecondsPerHeartbeat(int others, bool over) {
  Coordinator core{CoordinatorOptions{}};
  const JobSpec spec = SpecOf(1, "mine");
  const protocol::Hello hello{.worker = W(1), .incarnation = 1, .spec = spec};
  core.Step(At(0), MessageReceived{{1}, {{"mine"}, {}, {1}, hello}});
  for (int i = 0; i < others; ++i) {
    const std::string name = absl::StrCat("job-", i);
    core.Step(At(0), CreateJob{{1}, SpecOf(2, name), ""});
    if (over) core.Step(At(0), StopJob{{2}, {name}, "", ""});
  }
  constexpr int kHeartbeats = 20'000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kHeartbeats; ++i) {
    core.Step(At(0), MessageReceived{
                         {1}, {{"mine"}, {1}, {1}, protocol::Heartbeat{}}});
  }
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - begin;
  return took.count() * 1e6 / kHeartbeats;
}

// The times are printed, and compared with a bound that a loop over all jobs
// exceeds by far.
TEST(JobsOverTest, OtherJobsCostAHeartbeatNothing) {
  const int many = kUnderSanitizer ? 1000 : 10'000;
  const double alone = MicrosecondsPerHeartbeat(0, false);
  const double beside_over = MicrosecondsPerHeartbeat(many, true);
  const double beside_live = MicrosecondsPerHeartbeat(many, false);
  std::cout << "a heartbeat: " << alone << " us alone, " << beside_over
            << " us beside " << many << " jobs that are over, " << beside_live
            << " us beside " << many << " that live\n";
  EXPECT_LT(beside_over, 20 * alone + 20);
  EXPECT_LT(beside_live, 20 * alone + 20);
}

}  // namespace
}  // namespace lockstep::core
