// Buckets cut anew while steps run: who is asked, what is adopted, and when the
// next may come.

#include <algorithm>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "server/core/order_poll.h"
#include "tests/server/core/scene.h"

namespace lockstep::core {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Every parameter has a bucket of its own: "bias" first, then "weight".
JobSpec SpecWithBuckets(int world, Rebuild rebuild = Rebuild::kOnce) {
  JobSpec spec = SpecOf(world);
  spec.buckets = {.first_bytes_max = 1, .bytes_max = 1, .rebuild = rebuild};
  return spec;
}

const std::vector<uint32_t> kOther = {0, 1};  // weight, then bias

class RevisionsTest : public testing::Test {
 protected:
  absl::Status Rebuild(Scene& scene) {
    scene.Step(CommandJob{{++request_}, scene.job(), "", JobCommand::kRebuild});
    for (const Effect& effect : scene.effects()) {
      if (const auto* answer = std::get_if<Answer>(&effect)) {
        return answer->status;
      }
    }
    return absl::InternalError("not answered");
  }
  static std::string Runs(Scene& scene, uint64_t session, uint64_t revision) {
    return scene.Says(
        session, protocol::Progress{.position = {1}, .revision = {revision}});
  }
  static std::string Bucket(const Scene& scene, int bucket) {
    return scene.View().buckets.at(bucket).parameters.at(0);
  }
  static std::string History(const Scene& scene) {
    std::string text;
    for (const EventView& event : scene.View().events) {
      absl::StrAppend(&text, event.text, "\n");
    }
    return text;
  }
  // To a job whose revision 2 is adopted.
  static void Adopt(Scene& scene) {
    scene.RunAll();
    scene.Says(1, protocol::ReadyOrder{{2}, kOther});
    ASSERT_EQ(scene.durable_job().revision, Revision{2});
  }

  uint64_t request_ = 0;
};

TEST_F(RevisionsTest, TheLowestRankIsAskedWhenStepsBegin) {
  Scene scene(SpecWithBuckets(2));
  scene.JoinAll();
  scene.RegisterAll();
  for (const uint64_t session : {1, 2}) scene.Ack(session);
  for (const uint64_t session : {1, 2}) scene.Publish(session, session - 1);
  scene.Says(1, protocol::Connected{});
  EXPECT_EQ(scene.Says(2, protocol::Connected{}),
            "1 <- start\n2 <- start\n1 <- order wanted for revision 2");
}

TEST_F(RevisionsTest, WhatItSaysIsRecordedAndThenAnnouncedToAll) {
  Scene scene(SpecWithBuckets(2));
  scene.RunAll();
  EXPECT_EQ(Bucket(scene, 0), "bias");
  const std::string before = scene.durable_job().plan_digest;
  EXPECT_EQ(scene.Says(1, protocol::ReadyOrder{{2}, kOther}),
            "persist 6: plan of epoch 1\n1 <- plan ready\n2 <- plan ready");
  EXPECT_EQ(scene.durable_job().revision, Revision{2});
  EXPECT_EQ(scene.durable_job().observed_order, kOther);
  EXPECT_NE(scene.durable_job().plan_digest, before);
  EXPECT_EQ(Bucket(scene, 0), "weight");
  EXPECT_EQ(scene.View().revision, Revision{2});
  const auto plan =
      scene.core().FindPlan(scene.job(), scene.durable_job().plan_digest);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->revision, Revision{2});
  EXPECT_EQ(scene.View().state, JobState::kRunning);
}

TEST_F(RevisionsTest, AnOrderThatMovesNothingIsNotAdopted) {
  Scene scene(SpecWithBuckets(2));
  scene.RunAll();
  EXPECT_EQ(scene.Says(1, protocol::ReadyOrder{{2}, {1, 0}}), "");
  EXPECT_EQ(scene.durable_job().revision, Revision{1});
  EXPECT_THAT(History(scene), HasSubstr("buckets stay as they are"));
  EXPECT_EQ(Rebuild(scene), absl::OkStatus()) << "and may be asked for again";
}

TEST_F(RevisionsTest, OnlyAWantedAnswerCounts) {
  Scene scene(SpecWithBuckets(2));
  scene.RunAll();
  EXPECT_EQ(scene.Says(2, protocol::ReadyOrder{{2}, kOther}), "");
  EXPECT_EQ(scene.Says(1, protocol::ReadyOrder{{3}, kOther}), "");
  EXPECT_NE(scene.Says(1, protocol::ReadyOrder{{2}, kOther}), "");
  EXPECT_EQ(scene.Says(1, protocol::ReadyOrder{{2}, {1, 0}}), "");
  EXPECT_EQ(scene.durable_job().observed_order, kOther);
}

TEST_F(RevisionsTest, AnOrderOfOtherParametersEndsTheEpoch) {
  for (const std::vector<uint32_t>& order :
       {std::vector<uint32_t>{0}, {0, 0}, {0, 2}, {0, 1, 1}}) {
    Scene scene(SpecWithBuckets(2));
    scene.RunAll();
    EXPECT_THAT(scene.Says(1, protocol::ReadyOrder{{2}, order}),
                HasSubstr("2 <- ended 1 for good: w-1 (rank 0, host a, pid "
                          "101) gave an order of"));
  }
}

TEST_F(RevisionsTest, OneBucketHasNoOrder) {
  Scene scene(SpecOf(2));
  scene.RunAll();
  EXPECT_THAT(Describe(scene.effects()), Not(HasSubstr("order wanted")));
  const absl::Status refused = Rebuild(scene);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("one bucket"));
}

TEST_F(RevisionsTest, OnDemandMeansNotBeforeAnOperatorAsks) {
  Scene scene(SpecWithBuckets(2, lockstep::Rebuild::kOnDemand));
  scene.RunAll();
  EXPECT_THAT(Describe(scene.effects()), Not(HasSubstr("order wanted")));
  EXPECT_EQ(Rebuild(scene), absl::OkStatus());
  EXPECT_THAT(Describe(scene.effects()),
              HasSubstr("1 <- order wanted for revision 2"));
}

// Its norm has the same bits on every run (docs/gradients.md).
TEST_F(RevisionsTest, AReproducibleJobKeepsItsBuckets) {
  JobSpec spec = SpecWithBuckets(2);
  spec.reproducible.leaves = 2;
  Scene scene(spec);
  scene.RunAll();
  ASSERT_GT(scene.View().buckets.size(), 1u);
  EXPECT_THAT(Describe(scene.effects()), Not(HasSubstr("order wanted")));
  const absl::Status refused = Rebuild(scene);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("reproducible"));
  EXPECT_EQ(scene.durable_job().revision, Revision{1});
}

TEST_F(RevisionsTest, OneRevisionAtATime) {
  Scene scene(SpecWithBuckets(2));
  scene.RunAll();
  absl::Status refused = Rebuild(scene);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("revision 2"), HasSubstr("w-1 did not say")));

  scene.Says(1, protocol::ReadyOrder{{2}, kOther});
  Runs(scene, 1, 2);
  Runs(scene, 2, 1);
  refused = Rebuild(scene);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("revision 2"), HasSubstr("w-2 did not switch")));
  EXPECT_EQ(scene.ViewOf(1).revision, Revision{2});
  EXPECT_EQ(scene.ViewOf(2).revision, Revision{1});

  Runs(scene, 2, 2);
  EXPECT_THAT(History(scene), HasSubstr("every rank runs revision 2"));
  EXPECT_EQ(Rebuild(scene), absl::OkStatus());
  scene.Says(1, protocol::ReadyOrder{{3}, {1, 0}});
  EXPECT_EQ(scene.durable_job().revision, Revision{3});
  EXPECT_EQ(Bucket(scene, 0), "bias");
}

TEST_F(RevisionsTest, WhoHoldsARevisionIsCheckedAndCounted) {
  Scene scene(SpecWithBuckets(2));
  Adopt(scene);
  EXPECT_EQ(scene.Ack(1), "");
  EXPECT_EQ(scene.Says(2, protocol::PlanAck{{1}, "of before"}), "");
  EXPECT_THAT(History(scene), Not(HasSubstr("every rank holds")));
  EXPECT_EQ(scene.Ack(2), "");
  EXPECT_THAT(History(scene), HasSubstr("every rank holds revision 2"));
  EXPECT_THAT(scene.Says(2, protocol::PlanAck{{2}, "another"}),
              HasSubstr("ended 1 for good: w-2 (rank 1, host a, pid 102) "
                        "holds revision 2 of the plan with digest another"));
}

TEST_F(RevisionsTest, WhoResumesIsAskedAndToldAgain) {
  Scene scene(SpecWithBuckets(2));
  scene.RunAll();
  scene.Closes(1);
  EXPECT_THAT(scene.Resume(11, 1), HasSubstr("11 <- order wanted for revision "
                                             "2"));
  scene.Closes(2);
  EXPECT_THAT(scene.Resume(12, 2), Not(HasSubstr("order wanted")));
  scene.Says(11, protocol::ReadyOrder{{2}, kOther});
  scene.Closes(11);
  EXPECT_THAT(scene.Resume(21, 1), AllOf(HasSubstr("21 <- plan ready"),
                                         Not(HasSubstr("order wanted"))));
}

TEST_F(RevisionsTest, ARestartedCoordinatorKnowsThatStepsRun) {
  Scene scene(SpecWithBuckets(2));
  Adopt(scene);
  const DurableJob before = scene.durable_job();
  scene.Restart();
  EXPECT_TRUE(scene.durable_job() == before);
  // Neither had fetched the revision, and neither need have.
  EXPECT_THAT(scene.Resume(11, 1), HasSubstr("11 <- start"));
  EXPECT_THAT(scene.Resume(12, 2), HasSubstr("12 <- start"));
  EXPECT_EQ(scene.View().state, JobState::kRunning);
  EXPECT_EQ(scene.ViewOf(1).state, WorkerState::kReady);
  const absl::Status refused = Rebuild(scene);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the coordinator restarted"));
}

TEST_F(RevisionsTest, TheAdoptedRevisionIsCompiledAgainAndAnnouncedAgain) {
  Scene scene(SpecWithBuckets(2));
  Adopt(scene);
  const std::string digest = scene.durable_job().plan_digest;
  scene.Restart();
  for (const int i : {1, 2}) scene.Resume(10 + i, i);
  scene.Register(11, {ParameterNamed("weight"), ParameterNamed("bias")});
  // Whoever had not heard of it hears it now.
  EXPECT_EQ(
      scene.Register(12, {ParameterNamed("weight"), ParameterNamed("bias")}),
      "11 <- plan ready\n12 <- plan ready");
  EXPECT_EQ(scene.durable_job().plan_digest, digest);
  ASSERT_NE(scene.core().FindPlan(scene.job(), digest), nullptr);
  EXPECT_EQ(Bucket(scene, 0), "weight");
  Runs(scene, 11, 2);
  Runs(scene, 12, 2);
  EXPECT_EQ(Rebuild(scene), absl::OkStatus());
}

TEST_F(RevisionsTest, WhatWasAskedForBeforeARestartIsAskedForAgain) {
  Scene scene(SpecWithBuckets(2));
  scene.RunAll();
  scene.Restart();
  for (const int i : {1, 2}) {
    protocol::Hello hello = scene.HelloOf(i);
    hello.generation = {1};
    hello.resume =
        protocol::ResumeState{.epoch = scene.epoch(), .started = true};
    scene.Hello(10 + i, hello);
  }
  scene.Register(11, {ParameterNamed("weight"), ParameterNamed("bias")});
  EXPECT_EQ(
      scene.Register(12, {ParameterNamed("weight"), ParameterNamed("bias")}),
      "11 <- order wanted for revision 2");
}

TEST_F(RevisionsTest, AnEpochBeginsWithRevisionOne) {
  JobSpec spec = SpecWithBuckets(2);
  spec.limits.max_restarts = 5;
  Scene scene(spec);
  Adopt(scene);
  scene.Says(1, protocol::LocalFailure{.call = "Submit"});
  scene.Resume(1, 1);
  scene.Resume(2, 2);
  for (const uint64_t session : {1, 2}) {
    scene.Hello(session, [&] {
      protocol::Hello hello = scene.HelloOf(static_cast<int>(session));
      hello.generation = {1};
      return hello;
    }());
  }
  ASSERT_EQ(scene.epoch(), EpochId{2});
  scene.ConnectAll();
  EXPECT_EQ(scene.durable_job().revision, Revision{1});
  EXPECT_TRUE(scene.durable_job().observed_order.empty());
  EXPECT_EQ(Bucket(scene, 0), "bias");
}

// --- The merge of orders ----------------------------------------------------

// Parameters 0: "w" of ranks 0 and 2, 1: "w" of ranks 1 and 3, 2: "head" of
// all, 3: "tail" of all.
plan::Plan PlanOfTwoStages() {
  plan::PlanInput input{.mesh = {{{"data", 2}, {"stage", 2}}}};
  input.registrations.assign(4, {{.name = "w", .shape = {8}, .axes = {"data"}},
                                 {.name = "head", .shape = {8}},
                                 {.name = "tail", .shape = {8}}});
  return *plan::Compile(input);
}

// The rank's parameters, as `names` say.
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
  const OrderPoll poll(PlanOfTwoStages());
  EXPECT_THAT(poll.Wanted(), ElementsAre(0, 1));
  EXPECT_EQ(poll.revision(), Revision{2});
  EXPECT_FALSE(poll.complete());
}

TEST(OrderPollTest, AParametersPlaceIsThatOfTheLowestRankOfItsGroup) {
  const plan::Plan plan = PlanOfTwoStages();
  OrderPoll poll(plan);
  const auto first = OrderOf(plan, 0, {"tail", "w", "head"});
  // What rank 1 says of head and tail does not count.
  const auto second = OrderOf(plan, 1, {"w", "head", "tail"});
  EXPECT_EQ(poll.Answer(1, second), absl::OkStatus());
  EXPECT_FALSE(poll.Wants(1));
  EXPECT_EQ(poll.Answer(0, first), absl::OkStatus());
  ASSERT_TRUE(poll.complete());
  // Both were first somewhere: rank 0 comes before rank 1.
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
    OrderPoll a(plan), b(plan);
    ASSERT_TRUE(a.Answer(0, of_zero).ok() && a.Answer(1, of_one).ok());
    ASSERT_TRUE(b.Answer(1, of_one).ok() && b.Answer(0, of_zero).ok());
    EXPECT_EQ(a.Merged(), b.Merged());
    EXPECT_TRUE(plan::Recut(plan, {}, a.Merged()).ok()) << "a permutation";
  }
}

TEST(OrderPollTest, RefusesWhatAreNotJustTheRanksParameters) {
  const plan::Plan plan = PlanOfTwoStages();
  OrderPoll poll(plan);
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
