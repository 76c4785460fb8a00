// From registrations to Start, and the failures on the way.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/state.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

protocol::RegisterChunk Chunk(uint32_t index, bool last,
                              std::vector<Parameter> parameters) {
  return {.index = index, .last = last, .parameters = std::move(parameters)};
}

TEST(StagesTest, ChunksAreCollectedInTheirOrder) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  for (const uint64_t session : {1, 2}) {
    fixture.Says(session, Chunk(0, false, {ParameterNamed("a")}));
    fixture.Says(session, Chunk(1, false, {}));
    fixture.Says(session, Chunk(2, true, {ParameterNamed("b")}));
  }
  EXPECT_EQ(fixture.View().state, JobState::kPlanned);
  ASSERT_EQ(fixture.View().parameters.size(), 2u);
  EXPECT_EQ(fixture.View().parameters[0].name, "a");
  EXPECT_EQ(fixture.View().revision, Revision{1});
  EXPECT_EQ(fixture.View().plan_digest, fixture.durable_job().plan_digest);
  EXPECT_EQ(fixture.View().buckets.size(), 1u);
  EXPECT_NE(fixture.core().FindPlan(fixture.job(), fixture.View().plan_digest),
            nullptr);
  EXPECT_EQ(fixture.core().FindPlan(fixture.job(), "another"), nullptr);
}

TEST(StagesTest, StateOfAllChunksIsInThePlan) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  for (const uint64_t session : {1, 2}) {
    fixture.Says(session, protocol::RegisterChunk{.index = 0,
                                                  .states = {{.name = "a"}}});
    fixture.Says(session,
                 protocol::RegisterChunk{
                     .index = 1, .last = true, .states = {{.name = "b"}}});
  }
  const auto plan =
      fixture.core().FindPlan(fixture.job(), fixture.View().plan_digest);
  ASSERT_NE(plan, nullptr);
  ASSERT_EQ(plan->state.size(), 2u);
  EXPECT_EQ(plan->state[0].name, "a");
  EXPECT_EQ(plan->state[1].name, "b");
  EXPECT_EQ(plan->state[1].ranks.size(), 2u);
}

TEST(StagesTest, TooMuchStateIsRefused) {
  CoordinatorFixture fixture(SpecOf(1));
  fixture.JoinAll();
  const std::vector<StateSpec> most(kStatesMax, {.name = "a"});
  fixture.Says(1, protocol::RegisterChunk{.index = 0, .states = most});
  EXPECT_EQ(fixture.View().cause.kind, protocol::CauseKind::kNone);
  fixture.Says(1, protocol::RegisterChunk{.index = 1, .states = {{}}});
  EXPECT_THAT(fixture.View().cause.message,
              HasSubstr("131072 tensors of state"));
}

TEST(StagesTest, ADifferenceIsOneErrorToEveryRank) {
  JobSpec spec = SpecOf(3);
  spec.limits.max_restarts = 5;  // they would not help
  CoordinatorFixture fixture(spec);
  fixture.JoinAll();
  fixture.Register(1, {ParameterNamed("a")});
  fixture.Register(2, {ParameterNamed("a")});
  Parameter other = ParameterNamed("a");
  other.shape = {4, 3};
  const EffectList requested = fixture.Register(3, {other});
  const MessageMatcher ended =
      EpochEndedForGood(1, AllOf(HasSubstr("[4,2]"), HasSubstr("[4,3]")));
  EXPECT_THAT(requested,
              EffectsAre(Persists(6, EpochFinished(1)),
                         Persists(7, JobEnded(record::JobOutcome::kFailed)),
                         Sends(1, ended), Sends(2, ended), Sends(3, ended)));
  EXPECT_EQ(fixture.View().cause.kind, protocol::CauseKind::kMismatch);
}

TEST(StagesTest, ADuplicateParameterNameEndsTheEpochWithItsName) {
  CoordinatorFixture fixture(SpecOf(1));
  fixture.JoinAll();
  EXPECT_THAT(fixture.Register(1, {ParameterNamed("a"), ParameterNamed("a")}),
              FailsJob(1, StartsWith("parameter a is registered")));
}

TEST(StagesTest, AChunkOutOfOrderEndsTheEpochWithBothNumbers) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.Says(1, Chunk(0, false, {}));
  EXPECT_THAT(
      fixture.Says(1, Chunk(0, false, {})),
      FailsJob(2, StartsWith("w-1 (rank 0, host a, pid 101) sent chunk 0 of "
                             "its parameters where chunk 1 was due")));
}

TEST(StagesTest, AChunkAfterTheLastEndsTheEpoch) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.Says(1, Chunk(0, true, {}));
  EXPECT_THAT(
      fixture.Says(1, Chunk(1, true, {})),
      FailsJob(1,
               HasSubstr("sent chunk 1 of its parameters after the last one")));
}

TEST(StagesTest, TooManyParametersEndTheEpochWithTheLimit) {
  JobSpec spec = SpecOf(2);
  spec.limits.parameters_max = 2;
  CoordinatorFixture fixture(spec);
  fixture.JoinAll();
  fixture.Says(1, Chunk(0, false, {ParameterNamed("a"), ParameterNamed("b")}));
  EXPECT_THAT(
      fixture.Says(1, Chunk(1, true, {ParameterNamed("c")})),
      FailsJob(1,
               HasSubstr("w-1 (rank 0, host a, pid 101) registers at least 3 "
                         "parameters; limits.parameters_max is 2")));
}

TEST(StagesTest, AfterABrokenStreamRegistrationBeginsAgain) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.Says(1, Chunk(0, false, {ParameterNamed("a")}));
  fixture.Closes(1);
  EXPECT_THAT(fixture.Resume(5, 1),
              EffectsAre(Sends(5, WelcomeBack(1)),
                         Sends(5, EpochFormed(1, 0, {"w-1", "w-2"}))));
  fixture.Says(5, Chunk(0, false, {ParameterNamed("a")}));
  fixture.Says(5, Chunk(1, true, {ParameterNamed("b")}));
  fixture.Register(2, {ParameterNamed("a"), ParameterNamed("b")});
  EXPECT_EQ(fixture.View().parameters.size(), 2u);
}

TEST(StagesTest, EverythingMayBeSaidAgainOnANewStream) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.RegisterAll();
  fixture.Ack(1);
  fixture.Publish(1, 0);
  fixture.Resume(5, 1);
  EXPECT_THAT(fixture.Register(5, {ParameterNamed("weight")}), NoEffects());
  EXPECT_THAT(fixture.Ack(5), NoEffects());
  EXPECT_THAT(fixture.Publish(5, 0), NoEffects());
  fixture.Ack(2);
  EXPECT_THAT(fixture.Publish(2, 1),
              Includes(Sends(5, GroupHandles(0, {"h0", "h1"}))));
  EXPECT_THAT(fixture.Says(2, protocol::Connected{}), NoEffects());
  EXPECT_THAT(fixture.Says(5, protocol::Connected{}),
              EffectsAre(Sends(5, Start()), Sends(2, Start())));
  EXPECT_THAT(fixture.Says(5, protocol::Connected{}),
              EffectsAre(Sends(5, Start())));
}

TEST(StagesTest, AnotherDigestEndsTheEpochWithBoth) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.RegisterAll();
  const std::string digest = fixture.durable_job().plan_digest;
  EXPECT_THAT(
      fixture.Says(2, protocol::PlanAck{{1}, "feed"}),
      FailsJob(
          1,
          AllOf(StartsWith("w-2 (rank 1"),
                HasSubstr("digest feed; the job's is revision 1 with digest " +
                          digest))));
}

TEST(StagesTest, AHandleOfAForeignCommunicatorEndsTheEpoch) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.RegisterAll();
  fixture.Ack(1);
  EXPECT_THAT(
      fixture.Says(1, protocol::PublishHandles{{{5, "x"}}}),
      FailsJob(1, HasSubstr("published a handle of communicator 5, which it "
                            "is no member of")));
}

TEST(StagesTest, HandlesBeforeTheAcknowledgementEndTheEpoch) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.RegisterAll();
  EXPECT_THAT(fixture.Publish(1, 0),
              FailsJob(1, HasSubstr("did not acknowledge")));
}

TEST(StagesTest, ConnectedBeforeHandlesEndsTheEpoch) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  fixture.RegisterAll();
  fixture.Ack(1);
  EXPECT_THAT(fixture.Says(1, protocol::Connected{}),
              FailsJob(1, HasSubstr("did not publish its handles")));
}

TEST(StagesTest, APlanBeforeThereIsOneEndsTheEpoch) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  EXPECT_THAT(fixture.Says(1, protocol::PlanAck{{1}, "feed"}),
              FailsJob(1, HasSubstr("speaks of a plan before there is one")));
}

TEST(StagesTest, WhoDoesNotConnectInTimeIsNamed) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.JoinAll();
  fixture.RegisterAll();
  for (int i : {1, 2, 3}) fixture.Ack(i);
  for (int i : {1, 2, 3}) fixture.Publish(i, i - 1);
  fixture.Says(2, protocol::Connected{});
  EXPECT_THAT(fixture.WaitWithHeartbeats(19, {1, 2, 3}), NoEffects());
  EXPECT_THAT(
      fixture.WaitWithHeartbeats(1, {1, 2, 3}),
      FailsJob(
          2, StartsWith(
                 "the data plane was not connected within 20s by w-1 (rank 0, "
                 "host a, pid 101) and w-3 (rank 2, host a, pid 103)")));
  EXPECT_EQ(fixture.View().cause.kind, protocol::CauseKind::kConnectFailed);
}

TEST(StagesTest, HandlesGoToTheMembersOfEachGroupAsItIsComplete) {
  JobSpec spec = SpecOf(4);
  spec.mesh.axes = {{"data", 2}, {"pipe", 2}};
  CoordinatorFixture fixture(spec);
  fixture.JoinAll();
  Parameter over_data = ParameterNamed("a");
  over_data.axes = {"data"};
  for (int i : {1, 2, 3, 4}) fixture.Register(i, {over_data});
  for (int i : {1, 2, 3, 4}) fixture.Ack(i);
  EXPECT_THAT(fixture.Publish(1, 0), NoEffects());
  EXPECT_THAT(fixture.Publish(3, 2),
              EffectsAre(Sends(1, GroupHandles(1, {"h0", "h2"})),
                         Sends(3, GroupHandles(1, {"h0", "h2"}))));
}

TEST(StagesTest, MessagesOfAnotherEpochAreIgnored) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  EXPECT_THAT(fixture.Says(1, protocol::RegisterChunk{.index = 3}, EpochId{7}),
              NoEffects());
  EXPECT_THAT(fixture.Says(1, protocol::LocalFailure{}, EpochId{0}),
              NoEffects());
  EXPECT_EQ(fixture.View().state, JobState::kSealed);
}

}  // namespace
}  // namespace lockstep::core
