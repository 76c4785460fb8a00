// What the coordinator refuses because it is too much: jobs, workers,
// parameters, bytes, joins, streams without Hello. Each refusal is counted, and
// a running job goes on.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/runtime/hello_waits.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

LimitUse UseOf(const std::vector<LimitUse>& uses, const std::string& name) {
  for (const LimitUse& use : uses) {
    if (use.name == name) return use;
  }
  ADD_FAILURE() << "no limit " << name;
  return {};
}

LimitUse UseOf(CoordinatorFixture& fixture, const std::string& name) {
  return UseOf(fixture.core().LimitUses(), name);
}

EffectList Creates(CoordinatorFixture& fixture, const JobSpec& spec) {
  return fixture.Step(CreateJob{{5}, spec, ""});
}

// A Hello whose spec would create its job.
EffectList Joins(CoordinatorFixture& fixture, uint64_t session,
                 const JobSpec& spec, int i = 1) {
  protocol::Hello hello = fixture.HelloOf(i);
  hello.spec = spec;
  return fixture.Step(
      MessageReceived{{session}, {{spec.name}, {}, {1}, std::move(hello)}});
}

void ExpectThatTheJobGoesOn(CoordinatorFixture& fixture) {
  fixture.Says(1, Stands(7, protocol::Phase::kCompute));
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_EQ(fixture.ViewOf(1).position.step, 7u);
}

// --- Jobs and workers -------------------------------------------------------

TEST(JobLimitTest, OneJobTooManyIsRefusedHoweverItIsCreated) {
  CoordinatorFixture fixture(SpecOf(2), {.jobs = 2});
  fixture.RunAll();
  EXPECT_THAT(Creates(fixture, SpecOf(1, "second")),
              EffectsEndWith(Answers(5, StatusCode::kOk)));
  const auto refusal =
      AllOf(HasSubstr("2 jobs that are not over"), HasSubstr("--jobs_max"));
  EXPECT_THAT(Creates(fixture, SpecOf(1, "third")),
              EffectsAre(Answers(5, StatusCode::kResourceExhausted, refusal)));
  EXPECT_THAT(Joins(fixture, 9, SpecOf(1, "fourth")),
              Refuses(9, StatusCode::kResourceExhausted, refusal));
  const LimitUse use = UseOf(fixture, "jobs");
  EXPECT_EQ(use.used, 2);
  EXPECT_EQ(use.highest, 2);
  EXPECT_EQ(use.refused, 2);
  ExpectThatTheJobGoesOn(fixture);
}

TEST(JobLimitTest, AJobThatIsOverMakesRoom) {
  CoordinatorFixture fixture(SpecOf(2), {.jobs = 1});
  fixture.RunAll();
  fixture.Step(StopJob{{7}, {"digits"}, "", ""});
  EXPECT_THAT(Creates(fixture, SpecOf(1, "second")),
              EffectsEndWith(Answers(5, StatusCode::kOk)));
  EXPECT_EQ(UseOf(fixture, "jobs").refused, 0);
}

TEST(JobLimitTest, AJobOfTooManyWorkersIsRefusedAndItsSparesCount) {
  CoordinatorFixture fixture(SpecOf(2), {.workers_per_job = 4});
  fixture.RunAll();
  JobSpec spec = SpecOf(3, "large");
  spec.limits.spares = 2;
  EXPECT_THAT(Creates(fixture, spec),
              EffectsAre(Answers(5, StatusCode::kResourceExhausted,
                                 AllOf(HasSubstr("has 5 workers"),
                                       HasSubstr("--workers_max")))));
  spec.limits.spares = 1;
  EXPECT_THAT(Creates(fixture, spec),
              EffectsEndWith(Answers(5, StatusCode::kOk)));
  EXPECT_EQ(UseOf(fixture, "workers_per_job").refused, 1);
  EXPECT_EQ(UseOf(fixture, "workers_per_job").highest, 4);
  ExpectThatTheJobGoesOn(fixture);
}

// Offers keep a spec each, though no job of theirs was created.
TEST(JobLimitTest, OffersOfUnknownJobsCountAsJobs) {
  CoordinatorFixture fixture(SpecOf(2), {.jobs = 3});
  fixture.RunAll();
  const auto offer = [&](uint64_t session, const std::string& job) {
    protocol::Hello hello = fixture.HelloOf(1);
    hello.generation = {1};
    hello.secret = "secret";
    hello.spec = SpecOf(2, job);
    hello.resume = protocol::ResumeState{
        .epoch = {1}, .rank = 0, .members_digest = "digest", .world = 2};
    return fixture.Step(
        MessageReceived{{session}, {{job}, {1}, {1}, std::move(hello)}});
  };
  EXPECT_THAT(offer(11, "a"), EffectsAre(Closes(11, StatusCode::kUnavailable)));
  EXPECT_THAT(offer(12, "b"), EffectsAre(Closes(12, StatusCode::kUnavailable)));
  EXPECT_THAT(offer(13, "c"),
              EffectsAre(Closes(13, StatusCode::kResourceExhausted)));
  EXPECT_THAT(offer(14, "a"), EffectsAre(Closes(14, StatusCode::kUnavailable)))
      << "the offer of a job that is known may be repeated";
  fixture.Wait(60);  // offers hold for a lease
  EXPECT_THAT(offer(15, "c"), EffectsAre(Closes(15, StatusCode::kUnavailable)));
}

// --- Registrations ----------------------------------------------------------

std::vector<Parameter> Parameters(int count) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < count; ++i) {
    parameters.push_back(ParameterNamed(absl::StrCat("p", i)));
  }
  return parameters;
}

TEST(RegistrationLimitTest, TheParametersOfAllRanksCount) {
  CoordinatorFixture fixture(SpecOf(2), {.parameters_per_job = 7});
  fixture.JoinAll();
  fixture.Register(1, Parameters(4));
  EXPECT_THAT(fixture.Register(2, Parameters(4)),
              FailsJob(2, AllOf(HasSubstr("all ranks have 8, and at most 7"),
                                HasSubstr("--parameters_max"))));
  EXPECT_EQ(UseOf(fixture, "parameters_per_job").refused, 1);
}

TEST(RegistrationLimitTest, ARankThatRegistersAgainIsCountedOnce) {
  CoordinatorFixture fixture(SpecOf(2), {.parameters_per_job = 8});
  fixture.JoinAll();
  fixture.Says(1, protocol::RegisterChunk{.parameters = Parameters(3)});
  fixture.Closes(1);
  fixture.Resume(11, 1);
  fixture.Register(11, Parameters(4));
  fixture.Register(2, Parameters(4));
  EXPECT_EQ(fixture.View().state, JobState::kPlanned);
  EXPECT_EQ(UseOf(fixture, "parameters_per_job").highest, 8);
}

TEST(RegistrationLimitTest, TheBytesOfOneWorkerCountOverAllItsChunks) {
  CoordinatorFixture fixture(SpecOf(2), {.registration_bytes = 3000});
  fixture.JoinAll();
  const std::vector<Parameter> large = {ParameterNamed(std::string(1000, 'x'))};
  fixture.Says(1, protocol::RegisterChunk{.index = 0, .parameters = large});
  fixture.Says(1, protocol::RegisterChunk{.index = 1, .parameters = large});
  EXPECT_THAT(
      fixture.Says(1, protocol::RegisterChunk{.index = 2, .parameters = large}),
      FailsJob(1, AllOf(HasSubstr("at most 3000"),
                        HasSubstr("--client_bytes_max"))));
  EXPECT_EQ(UseOf(fixture, "registration_bytes").refused, 1);
}

// --- Joins ------------------------------------------------------------------

TEST(JoinRateTest, GivesABurstAndThenSoManyASecond) {
  JoinRate rate;
  int admitted = 0;
  for (int i = 0; i < 100; ++i) admitted += rate.Take(At(0), 10, 2) ? 1 : 0;
  EXPECT_EQ(admitted, 10);
  EXPECT_FALSE(rate.Take(At(0.4), 10, 2));
  EXPECT_TRUE(rate.Take(At(0.5), 10, 2));
  EXPECT_FALSE(rate.Take(At(0.5), 10, 2));
  admitted = 0;
  for (int i = 0; i < 100; ++i) admitted += rate.Take(At(1000), 10, 2) ? 1 : 0;
  EXPECT_EQ(admitted, 10) << "an unused second is not saved beyond the burst";
}

TEST(JoinLimitTest, AFloodOfNewWorkersIsToldToComeAgain) {
  CoordinatorFixture fixture(SpecOf(2), {.joins_per_second = 1});
  // The same worker starts again and again.
  const auto joins = [&](int life) {
    fixture.Closes(static_cast<uint64_t>(100 + life - 1));
    protocol::Hello hello = fixture.HelloOf(1);
    hello.incarnation = static_cast<uint64_t>(life);
    return fixture.Hello(static_cast<uint64_t>(100 + life), hello);
  };
  EXPECT_THAT(joins(1), Includes(Persists(GenerationAssigned("w-1", 1))));
  EXPECT_THAT(joins(2), Includes(Persists(GenerationAssigned("w-1", 2))));
  EXPECT_THAT(joins(3), EffectsAre(Closes(103, StatusCode::kUnavailable,
                                          HasSubstr("--joins_per_second"))));
  EXPECT_EQ(UseOf(fixture, "joins_per_second").refused, 1);
  fixture.Pass(1);
  EXPECT_THAT(joins(4), Includes(Persists(GenerationAssigned("w-1", 3))));
}

TEST(JoinLimitTest, AllWorkersOfALargeJobMayJoinAtOnce) {
  CoordinatorFixture fixture(SpecOf(20), {.joins_per_second = 1});
  fixture.RunAll();
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_EQ(UseOf(fixture, "joins_per_second").refused, 0);
}

// --- Streams without Hello ---------------------------------------------------

using runtime::HelloLimits;
using runtime::HelloWaits;

TEST(HelloWaitsTest, TheOldestMakesRoomForTheNext) {
  HelloWaits waits({.streams = 2});
  EXPECT_EQ(waits.Add({1}, At(0)), std::nullopt);
  EXPECT_EQ(waits.Add({2}, At(1)), std::nullopt);
  EXPECT_EQ(waits.Add({3}, At(2)), SessionId{1});
  waits.Remove({2});
  EXPECT_EQ(waits.Add({4}, At(3)), std::nullopt);
  const LimitUse use = UseOf(waits.Uses(), "streams_without_hello");
  EXPECT_EQ(use.used, 2);
  EXPECT_EQ(use.refused, 1);
}

TEST(HelloWaitsTest, EachWaitsForTheTimeout) {
  HelloWaits waits({.timeout = absl::Seconds(10)});
  EXPECT_EQ(waits.Next(), absl::InfiniteFuture());
  waits.Add({1}, At(0));
  waits.Add({2}, At(4));
  EXPECT_EQ(waits.Next(), At(10));
  EXPECT_THAT(waits.TakeExpired(At(9.9)), IsEmpty());
  EXPECT_THAT(waits.TakeExpired(At(10)), ElementsAre(SessionId{1}));
  EXPECT_THAT(waits.TakeExpired(At(14)), ElementsAre(SessionId{2}));
  EXPECT_EQ(UseOf(waits.Uses(), "hello_seconds").refused, 2);
}

}  // namespace
}  // namespace lockstep::core
