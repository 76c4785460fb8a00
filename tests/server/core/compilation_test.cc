// Plans are compiled outside the state machine: events during a compilation.

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/digest.h"
#include "server/core/token.h"
#include "tests/server/core/asking.h"
#include "tests/server/core/effect_matchers.h"
#include "tests/support/plans_as_text.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(CompilationTest, OtherJobsGoOnMeanwhile) {
  CoordinatorFixture fixture;
  fixture.HoldCompilations();
  fixture.JoinAll();
  fixture.RegisterAll();
  ASSERT_EQ(fixture.compilations(), 1u);
  protocol::Hello other = fixture.HelloOf(7);
  other.spec->name = "other";
  EXPECT_THAT(fixture.Step(MessageReceived{{7}, {{"other"}, {}, {1}, other}}),
              Includes(Sends(7, Welcome(1))));
  EXPECT_THAT(fixture.FinishCompilations(),
              Includes(Sends(1, PlanReady()), Sends(2, PlanReady())));
}

TEST(CompilationTest, ARankThatRegistersAgainMeanwhileIsToldThePlanOnce) {
  CoordinatorFixture fixture;
  fixture.HoldCompilations();
  fixture.JoinAll();
  fixture.RegisterAll();
  fixture.Closes(2);
  EXPECT_THAT(fixture.Resume(12, 2), Not(Includes(Sends(PlanReady()))));
  fixture.Register(12, {ParameterNamed("weight"), ParameterNamed("bias")});
  EXPECT_EQ(fixture.compilations(), 1u);
  EXPECT_THAT(fixture.FinishCompilations(),
              Includes(Sends(1, PlanReady()), Sends(12, PlanReady())));
}

TEST(CompilationTest, AnEpochThatEndedMeanwhileIgnoresIt) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.HoldCompilations();
  fixture.JoinAll();
  fixture.RegisterAll();
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  EXPECT_THAT(fixture.FinishCompilations(),
              EffectsAre(Persists(5, EpochFinished(1)),
                         Sends(1, EpochEnded(1,
                                             "w-1 (rank 0, host a, pid 101): f "
                                             "failed at step 0: UNKNOWN: ")),
                         Sends(2, EpochEnded(1,
                                             "w-1 (rank 0, host a, pid 101): f "
                                             "failed at step 0: UNKNOWN: "))));
  EXPECT_TRUE(fixture.durable_job().plan_digest.empty());
}

// An old result must not be used for the present epoch.
TEST(CompilationTest, TheNextEpochWaitsForItsOwn) {
  CoordinatorFixture fixture(RestartingSpec(1));
  fixture.HoldCompilations();
  fixture.JoinAll();
  fixture.RegisterAll();
  fixture.Says(1, protocol::LocalFailure{.call = "f"});
  protocol::Hello again = fixture.HelloOf(1);
  again.generation = {1};
  fixture.Hello(1, again);
  fixture.Register(1, {ParameterNamed("other")});
  ASSERT_EQ(fixture.compilations(), 2u);
  fixture.FinishCompilations();
  const auto plan =
      fixture.core().FindPlan(fixture.job(), fixture.durable_job().plan_digest);
  ASSERT_NE(plan, nullptr);
  ASSERT_EQ(plan->parameters.size(), 1u);
  EXPECT_EQ(plan->parameters[0].name, "other");
}

TEST(CompilationTest, NobodyIsStuckMeanwhile) {
  JobSpec spec = SpecOf(2);
  spec.on_stuck = OnStuck::kEvict;
  spec.timeouts.progress = absl::Seconds(4);
  CoordinatorFixture fixture(spec);
  fixture.HoldCompilations();
  fixture.JoinAll();
  fixture.RegisterAll();
  EXPECT_THAT(fixture.WaitWithHeartbeats(14, {1, 2}), NoEffects());
  EXPECT_THAT(fixture.Stalls(), IsEmpty());
  fixture.FinishCompilations();
  EXPECT_THAT(fixture.WaitWithHeartbeats(3, {1, 2}), NoEffects());
}

TEST(CompilationTest, ACoordinatorThatDiesMeanwhileCompilesAgain) {
  CoordinatorFixture fixture;
  fixture.HoldCompilations();
  fixture.JoinAll();
  fixture.RegisterAll();
  fixture.Restart();
  for (const int i : {1, 2}) {
    fixture.Resume(10 + i, i);
    fixture.Register(10 + i,
                     {ParameterNamed("weight"), ParameterNamed("bias")});
  }
  EXPECT_THAT(fixture.FinishCompilations(),
              Includes(Sends(11, PlanReady()), Sends(12, PlanReady())));
}

// In any order of registration, and again after a restart: the repeated
// compilation has the same input.
TEST(CompilationTest, TheInputHasTheFactsOfEachRanksTransport) {
  const auto chunk = [](const std::string& place) {
    return protocol::RegisterChunk{
        .last = true,
        .parameters = {ParameterNamed("weight")},
        .transport = {.place = place, .pairs_in_one_place = true}};
  };
  const auto transports = [](const CoordinatorFixture& fixture) {
    return std::get<plan::PlanInput>(fixture.held_input()).transports;
  };
  const std::vector<TransportFacts> told = {
      {.place = "a", .pairs_in_one_place = true},
      {.place = "b", .pairs_in_one_place = true}};
  CoordinatorFixture fixture;
  fixture.HoldCompilations();
  fixture.JoinAll();
  fixture.Says(2, chunk("b"));
  fixture.Says(1, chunk("a"));
  ASSERT_EQ(fixture.compilations(), 1u);
  EXPECT_EQ(transports(fixture), told);
  fixture.FinishCompilations();

  fixture.Restart();
  for (const int i : {1, 2}) fixture.Resume(10 + i, i);
  fixture.Says(11, chunk("a"));
  fixture.Says(12, chunk("b"));
  ASSERT_EQ(fixture.compilations(), 1u);
  EXPECT_EQ(transports(fixture), told);
}

TEST(CompilationTest, NothingIsKnownOfATransportThatARankDidNotTell) {
  CoordinatorFixture fixture;
  fixture.HoldCompilations();
  fixture.JoinAll();
  // Only the last chunk has the facts.
  fixture.Says(1, protocol::RegisterChunk{
                      .index = 0, .transport = {.pairs_in_one_place = true}});
  fixture.Says(1, protocol::RegisterChunk{.index = 1, .last = true});
  fixture.Says(2, protocol::RegisterChunk{
                      .last = true, .transport = {.pairs_in_one_place = true}});
  ASSERT_EQ(fixture.compilations(), 1u);
  EXPECT_EQ(std::get<plan::PlanInput>(fixture.held_input()).transports,
            (std::vector<TransportFacts>{{}, {.pairs_in_one_place = true}}));
}

TEST(CompilationTest, StepsRunWhileARevisionIsCompiled) {
  JobSpec spec = SpecOf(2);
  spec.buckets = {.first_bytes_max = 1, .bytes_max = 1};
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  fixture.HoldCompilations();
  Asks(fixture, JobCommand::kRebuild);
  fixture.Says(1, protocol::ReadyOrder{{2}, {0, 1}});
  ASSERT_EQ(fixture.compilations(), 1u);
  EXPECT_THAT(Asks(fixture, JobCommand::kRebuild),
              EffectsAre(Answers(7, StatusCode::kFailedPrecondition,
                                 HasSubstr("it is compiled"))));
  EXPECT_THAT(fixture.Says(1, Stands(3, protocol::Phase::kCompute)),
              NoEffects());
  EXPECT_THAT(fixture.FinishCompilations(), Includes(Sends(1, PlanReady())));
  EXPECT_EQ(fixture.durable_job().revision, Revision{2});
}

// --- Plans that workers give back -------------------------------------------

class RecalledPlanTest : public testing::Test {
 protected:
  RecalledPlanTest() {
    const auto made = MakePlan(
        plan::PlanInput{
            .mesh = mesh_,
            .registrations = {{ParameterNamed("w")}, {ParameterNamed("w")}}},
        PlansAsText());
    EXPECT_TRUE(made.ok()) << made.status();
    made_ = *made;
  }
  // A member sends this plan, and the journal has its hash and its digest.
  RecalledPlan Recalled(const plan::Plan& plan) const {
    std::string text = PlansAsText().bytes(plan);
    return {.bytes = std::make_shared<const std::string>(text),
            .image = {text.size(), Sha256(text)},
            .digest = plan::DigestOf(plan),
            .revision = plan.revision,
            .mesh = mesh_};
  }
  static absl::StatusCode CodeOf(const RecalledPlan& recalled) {
    return MakePlan(recalled, PlansAsText()).status().code();
  }

  const Mesh mesh_{{{"data", 2}}};
  CompiledPlan made_;
};

TEST_F(RecalledPlanTest, IsTheOneThatWasCompiled) {
  const RecalledPlan recalled = Recalled(*made_.plan);
  EXPECT_EQ(recalled.image, made_.image);
  const auto plan = MakePlan(recalled, PlansAsText());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(*plan->plan, *made_.plan);
  EXPECT_EQ(plan->digest, made_.digest);
  EXPECT_EQ(plan->image, made_.image);
}

TEST_F(RecalledPlanTest, BytesWithAnotherHashAreNotParsed) {
  RecalledPlan recalled = Recalled(*made_.plan);
  recalled.bytes = std::make_shared<const std::string>(*recalled.bytes + " ");
  PlanCodec codec = PlansAsText();
  codec.parse = [](const std::string&) -> absl::StatusOr<plan::Plan> {
    ADD_FAILURE() << "it is parsed";
    return absl::UnimplementedError("");
  };
  EXPECT_EQ(MakePlan(recalled, codec).status().code(), StatusCode::kDataLoss);
}

// The rest would need a forged hash, or another version of lockstepd.
TEST_F(RecalledPlanTest, BytesThatAreNoPlanAreRefused) {
  const std::string text = "{";
  RecalledPlan recalled = Recalled(*made_.plan);
  recalled.bytes = std::make_shared<const std::string>(text);
  recalled.image = {text.size(), Sha256(text)};
  EXPECT_EQ(CodeOf(recalled), StatusCode::kInvalidArgument);
}

TEST_F(RecalledPlanTest, APlanWithAnotherDigestRevisionOrMeshIsRefused) {
  RecalledPlan recalled = Recalled(*made_.plan);
  ASSERT_EQ(CodeOf(recalled), StatusCode::kOk);
  recalled.digest = "feed";
  EXPECT_EQ(CodeOf(recalled), StatusCode::kDataLoss);
  recalled = Recalled(*made_.plan);
  recalled.revision = {2};
  EXPECT_EQ(CodeOf(recalled), StatusCode::kDataLoss);
  recalled = Recalled(*made_.plan);
  recalled.mesh = {{{"data", 3}}};
  EXPECT_EQ(CodeOf(recalled), StatusCode::kDataLoss);
}

TEST_F(RecalledPlanTest, APlanThatCannotRunIsRefused) {
  plan::Plan broken = *made_.plan;
  broken.ranks[1].launch_order.pop_back();
  EXPECT_EQ(CodeOf(Recalled(broken)), StatusCode::kInvalidArgument);
  RecalledPlan of_another_mode = Recalled(*made_.plan);
  of_another_mode.sync = SyncMode::kNegotiated;
  EXPECT_EQ(CodeOf(of_another_mode), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::core
