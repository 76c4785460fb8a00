// Buckets rebuilt while steps run: which ranks are asked, which revision is
// adopted, and when the next may follow.

#include <algorithm>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "server/core/ready_order_collector.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Each parameter has its own bucket: "bias" first, then "weight".
JobSpec SpecWithBuckets(int world, Rebuild rebuild = Rebuild::kOnce) {
  JobSpec spec = SpecOf(world);
  spec.buckets = {.first_bytes_max = 1, .bytes_max = 1, .rebuild = rebuild};
  return spec;
}

const std::vector<uint32_t> kOther = {0, 1};  // weight, then bias

class RevisionsTest : public testing::Test {
 protected:
  absl::Status Rebuild(CoordinatorFixture& fixture) {
    fixture.Step(
        CommandJob{{++request_}, fixture.job(), "", JobCommand::kRebuild});
    for (const Effect& effect : fixture.effects()) {
      if (const auto* answer = std::get_if<AdminReply>(&effect)) {
        return answer->status;
      }
    }
    return absl::InternalError("not answered");
  }
  static EffectList Runs(CoordinatorFixture& fixture, uint64_t session,
                         uint64_t revision) {
    return fixture.Says(
        session, protocol::Progress{.position = {1}, .revision = {revision}});
  }
  // The effects of the last event.
  static EffectList Newest(const CoordinatorFixture& fixture) {
    return {fixture.effects()};
  }
  static std::string Bucket(const CoordinatorFixture& fixture, int bucket) {
    return fixture.View().buckets.at(bucket).parameters.at(0);
  }
  static std::string History(const CoordinatorFixture& fixture) {
    std::string text;
    for (const EventView& event : fixture.View().events) {
      absl::StrAppend(&text, event.text, "\n");
    }
    return text;
  }
  // Advances a job until its revision 2 is adopted.
  static void Adopt(CoordinatorFixture& fixture) {
    fixture.RunAll();
    fixture.Says(1, protocol::ReadyOrder{{2}, kOther});
    ASSERT_EQ(fixture.durable_job().revision, Revision{2});
  }

  uint64_t request_ = 0;
};

TEST_F(RevisionsTest, TheLowestRankIsAskedWhenStepsBegin) {
  CoordinatorFixture fixture(SpecWithBuckets(2));
  fixture.JoinAll();
  fixture.RegisterAll();
  for (const uint64_t session : {1, 2}) fixture.Ack(session);
  for (const uint64_t session : {1, 2}) fixture.Publish(session, session - 1);
  fixture.Says(1, protocol::Connected{});
  EXPECT_THAT(fixture.Says(2, protocol::Connected{}),
              EffectsAre(Sends(1, Start()), Sends(2, Start()),
                         Sends(1, OrderWanted(2))));
}

TEST_F(RevisionsTest, WhatItSaysIsRecordedAndThenAnnouncedToAll) {
  CoordinatorFixture fixture(SpecWithBuckets(2));
  fixture.RunAll();
  EXPECT_EQ(Bucket(fixture, 0), "bias");
  const std::string before = fixture.durable_job().plan_digest;
  EXPECT_THAT(fixture.Says(1, protocol::ReadyOrder{{2}, kOther}),
              EffectsAre(Persists(6, PlanAdopted(1)), Sends(1, PlanReady()),
                         Sends(2, PlanReady())));
  EXPECT_EQ(fixture.durable_job().revision, Revision{2});
  EXPECT_EQ(fixture.durable_job().observed_order, kOther);
  EXPECT_NE(fixture.durable_job().plan_digest, before);
  EXPECT_EQ(Bucket(fixture, 0), "weight");
  EXPECT_EQ(fixture.View().revision, Revision{2});
  const auto plan =
      fixture.core().FindPlan(fixture.job(), fixture.durable_job().plan_digest);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->revision, Revision{2});
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
}

TEST_F(RevisionsTest, TheHistorySaysWhoAskedForOne) {
  CoordinatorFixture fixture(SpecWithBuckets(2));
  Adopt(fixture);
  const auto asks = [&] {
    fixture.Step(CommandJob{{7},
                            fixture.job(),
                            "",
                            JobCommand::kRebuild,
                            "slow",
                            "carol at 10.0.0.9:7000"});
  };
  const char* line = "rebuild is asked for by carol at 10.0.0.9:7000: slow\n";
  asks();
  EXPECT_THAT(History(fixture), Not(HasSubstr(line))) << "it was refused";
  for (const uint64_t session : {1, 2}) Runs(fixture, session, 2);
  asks();
  EXPECT_THAT(History(fixture), HasSubstr(line));
}

TEST_F(RevisionsTest, AnOrderThatMovesNothingIsNotAdopted) {
  CoordinatorFixture fixture(SpecWithBuckets(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.Says(1, protocol::ReadyOrder{{2}, {1, 0}}), NoEffects());
  EXPECT_EQ(fixture.durable_job().revision, Revision{1});
  EXPECT_THAT(History(fixture), HasSubstr("buckets stay as they are"));
  EXPECT_EQ(Rebuild(fixture), absl::OkStatus()) << "and may be asked for again";
}

TEST_F(RevisionsTest, OnlyAWantedAnswerCounts) {
  CoordinatorFixture fixture(SpecWithBuckets(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.Says(2, protocol::ReadyOrder{{2}, kOther}), NoEffects());
  EXPECT_THAT(fixture.Says(1, protocol::ReadyOrder{{3}, kOther}), NoEffects());
  EXPECT_THAT(fixture.Says(1, protocol::ReadyOrder{{2}, kOther}),
              Not(NoEffects()));
  EXPECT_THAT(fixture.Says(1, protocol::ReadyOrder{{2}, {1, 0}}), NoEffects());
  EXPECT_EQ(fixture.durable_job().observed_order, kOther);
}

TEST_F(RevisionsTest, AnOrderOfOtherParametersEndsTheEpoch) {
  for (const std::vector<uint32_t>& order :
       {std::vector<uint32_t>{0}, {0, 0}, {0, 2}, {0, 1, 1}}) {
    CoordinatorFixture fixture(SpecWithBuckets(2));
    fixture.RunAll();
    EXPECT_THAT(
        fixture.Says(1, protocol::ReadyOrder{{2}, order}),
        FailsJob(2,
                 StartsWith("w-1 (rank 0, host a, pid 101) gave an order of")));
  }
}

TEST_F(RevisionsTest, OneBucketHasNoOrder) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(Newest(fixture),
              Not(Includes(Sends(Any<protocol::OrderWanted>()))));
  const absl::Status refused = Rebuild(fixture);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("one bucket"));
}

TEST_F(RevisionsTest, OnDemandMeansNotBeforeAnOperatorAsks) {
  CoordinatorFixture fixture(SpecWithBuckets(2, lockstep::Rebuild::kOnDemand));
  fixture.RunAll();
  EXPECT_THAT(Newest(fixture),
              Not(Includes(Sends(Any<protocol::OrderWanted>()))));
  EXPECT_EQ(Rebuild(fixture), absl::OkStatus());
  EXPECT_THAT(Newest(fixture), Includes(Sends(1, OrderWanted(2))));
}

// The job's norm has the same bits on every run (docs/gradients.md).
TEST_F(RevisionsTest, AReproducibleJobKeepsItsBuckets) {
  JobSpec spec = SpecWithBuckets(2);
  spec.reproducible.leaves = 2;
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  ASSERT_GT(fixture.View().buckets.size(), 1u);
  EXPECT_THAT(Newest(fixture),
              Not(Includes(Sends(Any<protocol::OrderWanted>()))));
  const absl::Status refused = Rebuild(fixture);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("reproducible"));
  EXPECT_EQ(fixture.durable_job().revision, Revision{1});
}

TEST_F(RevisionsTest, OneRevisionAtATime) {
  CoordinatorFixture fixture(SpecWithBuckets(2));
  fixture.RunAll();
  absl::Status refused = Rebuild(fixture);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("revision 2"), HasSubstr("w-1 did not say")));

  fixture.Says(1, protocol::ReadyOrder{{2}, kOther});
  Runs(fixture, 1, 2);
  Runs(fixture, 2, 1);
  refused = Rebuild(fixture);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("revision 2"), HasSubstr("w-2 did not switch")));
  EXPECT_EQ(fixture.ViewOf(1).revision, Revision{2});
  EXPECT_EQ(fixture.ViewOf(2).revision, Revision{1});

  Runs(fixture, 2, 2);
  EXPECT_THAT(History(fixture), HasSubstr("every rank runs revision 2"));
  EXPECT_EQ(Rebuild(fixture), absl::OkStatus());
  fixture.Says(1, protocol::ReadyOrder{{3}, {1, 0}});
  EXPECT_EQ(fixture.durable_job().revision, Revision{3});
  EXPECT_EQ(Bucket(fixture, 0), "bias");
}

TEST_F(RevisionsTest, WhoHoldsARevisionIsCheckedAndCounted) {
  CoordinatorFixture fixture(SpecWithBuckets(2));
  Adopt(fixture);
  EXPECT_THAT(fixture.Ack(1), NoEffects());
  EXPECT_THAT(fixture.Says(2, protocol::PlanAck{{1}, "of before"}),
              NoEffects());
  EXPECT_THAT(History(fixture), Not(HasSubstr("every rank holds")));
  EXPECT_THAT(fixture.Ack(2), NoEffects());
  EXPECT_THAT(History(fixture), HasSubstr("every rank holds revision 2"));
  EXPECT_THAT(
      fixture.Says(2, protocol::PlanAck{{2}, "another"}),
      FailsJob(2, StartsWith("w-2 (rank 1, host a, pid 102) holds revision "
                             "2 of the plan with digest another")));
}

TEST_F(RevisionsTest, WhoResumesIsAskedAndToldAgain) {
  CoordinatorFixture fixture(SpecWithBuckets(2));
  fixture.RunAll();
  fixture.Closes(1);
  EXPECT_THAT(fixture.Resume(11, 1), Includes(Sends(11, OrderWanted(2))));
  fixture.Closes(2);
  EXPECT_THAT(fixture.Resume(12, 2),
              Not(Includes(Sends(Any<protocol::OrderWanted>()))));
  fixture.Says(11, protocol::ReadyOrder{{2}, kOther});
  fixture.Closes(11);
  EXPECT_THAT(fixture.Resume(21, 1),
              AllOf(Includes(Sends(21, PlanReady())),
                    Not(Includes(Sends(Any<protocol::OrderWanted>())))));
}

TEST_F(RevisionsTest, ARestartedCoordinatorKnowsThatStepsRun) {
  CoordinatorFixture fixture(SpecWithBuckets(2));
  Adopt(fixture);
  const DurableJob before = fixture.durable_job();
  fixture.Restart();
  EXPECT_TRUE(fixture.durable_job() == before);
  // No rank had fetched the revision, and none needs to.
  EXPECT_THAT(fixture.Resume(11, 1), Includes(Sends(11, Start())));
  EXPECT_THAT(fixture.Resume(12, 2), Includes(Sends(12, Start())));
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kReady);
  const absl::Status refused = Rebuild(fixture);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the coordinator restarted"));
}

TEST_F(RevisionsTest, TheAdoptedRevisionIsCompiledAgainAndAnnouncedAgain) {
  CoordinatorFixture fixture(SpecWithBuckets(2));
  Adopt(fixture);
  const std::string digest = fixture.durable_job().plan_digest;
  fixture.Restart();
  for (const int i : {1, 2}) fixture.Resume(10 + i, i);
  fixture.Register(11, {ParameterNamed("weight"), ParameterNamed("bias")});
  // Members that did not know of it are told now.
  EXPECT_THAT(
      fixture.Register(12, {ParameterNamed("weight"), ParameterNamed("bias")}),
      EffectsAre(Sends(11, PlanReady()), Sends(12, PlanReady())));
  EXPECT_EQ(fixture.durable_job().plan_digest, digest);
  ASSERT_NE(fixture.core().FindPlan(fixture.job(), digest), nullptr);
  EXPECT_EQ(Bucket(fixture, 0), "weight");
  Runs(fixture, 11, 2);
  Runs(fixture, 12, 2);
  EXPECT_EQ(Rebuild(fixture), absl::OkStatus());
}

// The next revision is cut from the plan that a member gave back.
TEST_F(RevisionsTest, TheAdoptedRevisionIsTakenFromAMemberAndRebuilt) {
  CoordinatorFixture fixture(SpecWithBuckets(2));
  Adopt(fixture);
  const protocol::PlanPart plan = fixture.PlanAsPart();
  fixture.Restart();
  const auto resumes = [&](int i, Revision revision, std::string digest) {
    protocol::Hello hello = fixture.HelloOf(i);
    hello.generation = {1};
    hello.resume = protocol::ResumeState{.epoch = fixture.epoch(),
                                         .revision = revision,
                                         .plan_digest = std::move(digest),
                                         .started = true};
    return fixture.Hello(10 + i, hello);
  };
  EXPECT_THAT(resumes(1, {1}, "former"),
              Not(Includes(Sends(Any<protocol::PlanWanted>()))))
      << "it has not fetched the revision";
  EXPECT_THAT(resumes(2, {2}, plan.digest),
              Includes(Sends(12, PlanWanted(plan.digest))));
  EXPECT_THAT(fixture.Says(12, plan),
              EffectsAre(Sends(11, PlanReady()), Sends(12, PlanReady())));
  EXPECT_EQ(Bucket(fixture, 0), "weight");
  fixture.Ack(11);
  Runs(fixture, 11, 2);
  Runs(fixture, 12, 2);
  EXPECT_EQ(Rebuild(fixture), absl::OkStatus());
  EXPECT_THAT(fixture.Says(11, protocol::ReadyOrder{{3}, {1, 0}}),
              EffectsAre(Persists(PlanAdopted(1)), Sends(11, PlanReady()),
                         Sends(12, PlanReady())));
  EXPECT_EQ(Bucket(fixture, 0), "bias");
}

TEST_F(RevisionsTest, WhatWasAskedForBeforeARestartIsAskedForAgain) {
  CoordinatorFixture fixture(SpecWithBuckets(2));
  fixture.RunAll();
  fixture.Restart();
  for (const int i : {1, 2}) {
    protocol::Hello hello = fixture.HelloOf(i);
    hello.generation = {1};
    hello.resume =
        protocol::ResumeState{.epoch = fixture.epoch(), .started = true};
    fixture.Hello(10 + i, hello);
  }
  fixture.Register(11, {ParameterNamed("weight"), ParameterNamed("bias")});
  EXPECT_THAT(
      fixture.Register(12, {ParameterNamed("weight"), ParameterNamed("bias")}),
      EffectsAre(Sends(11, OrderWanted(2))));
}

TEST_F(RevisionsTest, AnEpochBeginsWithRevisionOne) {
  JobSpec spec = SpecWithBuckets(2);
  spec.limits.max_restarts = 5;
  CoordinatorFixture fixture(spec);
  Adopt(fixture);
  fixture.Says(1, protocol::LocalFailure{.call = "Submit"});
  fixture.Resume(1, 1);
  fixture.Resume(2, 2);
  for (const uint64_t session : {1, 2}) {
    fixture.Hello(session, [&] {
      protocol::Hello hello = fixture.HelloOf(static_cast<int>(session));
      hello.generation = {1};
      return hello;
    }());
  }
  ASSERT_EQ(fixture.epoch(), EpochId{2});
  fixture.ConnectAll();
  EXPECT_EQ(fixture.durable_job().revision, Revision{1});
  EXPECT_TRUE(fixture.durable_job().observed_order.empty());
  EXPECT_EQ(Bucket(fixture, 0), "bias");
}

// --- Merging orders ---------------------------------------------------------

// Parameters 0: "w" of ranks 0 and 2, 1: "w" of ranks 1 and 3, 2: "head" and 3:
// "tail" of all ranks.
plan::Plan PlanOfTwoStages() {
  plan::PlanInput input{.mesh = {{{"data", 2}, {"stage", 2}}}};
  input.registrations.assign(4, {{.name = "w", .shape = {8}, .axes = {"data"}},
                                 {.name = "head", .shape = {8}},
                                 {.name = "tail", .shape = {8}}});
  return *plan::Compile(input);
}

// The rank's parameters in the order of `names`.
std::vector<uint32_t> OrderOf(const plan::Plan& plan, int rank,
                              const std::vector<std::string>& names) {
  std::vector<uint32_t> order;
  for (const std::string& name : names) {
    for (const plan::Bucket& bucket : plan.buckets) {
      const auto& ranks = plan.communicators[bucket.communicator].ranks;
      if (std::count(ranks.begin(), ranks.end(), rank) == 0) continue;
      for (const plan::Slot& slot : bucket.slots) {
        if (plan.parameters[slot.parameter].name == name) {
          order.push_back(slot.parameter);
        }
      }
    }
  }
  return order;
}

TEST(OrderPollTest, AsksTheLowestRankOfEachGroup) {
  const ReadyOrderCollector poll(PlanOfTwoStages());
  EXPECT_THAT(poll.Unanswered(), ElementsAre(0, 1));
  EXPECT_EQ(poll.revision(), Revision{2});
  EXPECT_FALSE(poll.complete());
}

TEST(OrderPollTest, AParametersPlaceIsThatOfTheLowestRankOfItsGroup) {
  const plan::Plan plan = PlanOfTwoStages();
  ReadyOrderCollector poll(plan);
  const auto first = OrderOf(plan, 0, {"tail", "w", "head"});
  // Rank 1's order of head and tail does not count.
  const auto second = OrderOf(plan, 1, {"w", "head", "tail"});
  EXPECT_EQ(poll.Answer(1, second), absl::OkStatus());
  EXPECT_FALSE(poll.Wants(1));
  EXPECT_EQ(poll.Answer(0, first), absl::OkStatus());
  ASSERT_TRUE(poll.complete());
  // Both were first on one rank: rank 0 has precedence over rank 1.
  EXPECT_THAT(poll.Merged(),
              ElementsAre(first[0], second[0], first[1], first[2]));
}

TEST(OrderPollTest, TheOrderOfAnswersMakesNoDifference) {
  const plan::Plan plan = PlanOfTwoStages();
  std::mt19937 random(3);
  std::vector<std::string> names = {"w", "head", "tail"};
  for (int i = 0; i < 50; ++i) {
    std::shuffle(names.begin(), names.end(), random);
    const auto of_zero = OrderOf(plan, 0, names);
    std::shuffle(names.begin(), names.end(), random);
    const auto of_one = OrderOf(plan, 1, names);
    ReadyOrderCollector a(plan), b(plan);
    ASSERT_TRUE(a.Answer(0, of_zero).ok() && a.Answer(1, of_one).ok());
    ASSERT_TRUE(b.Answer(1, of_one).ok() && b.Answer(0, of_zero).ok());
    EXPECT_EQ(a.Merged(), b.Merged());
    EXPECT_TRUE(plan::Recut(plan, {}, a.Merged()).ok()) << "a permutation";
  }
}

TEST(OrderPollTest, RefusesWhatAreNotJustTheRanksParameters) {
  const plan::Plan plan = PlanOfTwoStages();
  ReadyOrderCollector poll(plan);
  std::vector<uint32_t> own = OrderOf(plan, 0, {"w", "head", "tail"});
  EXPECT_FALSE(poll.Answer(0, OrderOf(plan, 1, {"w", "head", "tail"})).ok());
  EXPECT_FALSE(poll.Answer(0, {}).ok());
  own.push_back(own.front());
  EXPECT_FALSE(poll.Answer(0, own).ok());
  EXPECT_EQ(poll.Answer(3, own), absl::OkStatus()) << "it is not asked";
  EXPECT_TRUE(poll.Wants(0));
}

}  // namespace
}  // namespace lockstep::core
