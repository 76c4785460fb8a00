// From registrations to Start, and what ends an epoch on the way.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/scene.h"

namespace lockstep::core {
namespace {

using testing::AllOf;
using testing::HasSubstr;

protocol::RegisterChunk Chunk(uint32_t index, bool last,
                              std::vector<Parameter> parameters) {
  return {.index = index, .last = last, .parameters = std::move(parameters)};
}

TEST(StagesTest, ChunksAreCollectedInTheirOrder) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  for (const uint64_t session : {1, 2}) {
    scene.Says(session, Chunk(0, false, {ParameterNamed("a")}));
    scene.Says(session, Chunk(1, false, {}));
    scene.Says(session, Chunk(2, true, {ParameterNamed("b")}));
  }
  EXPECT_EQ(scene.View().state, JobState::kPlanned);
  ASSERT_EQ(scene.View().parameters.size(), 2u);
  EXPECT_EQ(scene.View().parameters[0].name, "a");
  EXPECT_EQ(scene.View().revision, Revision{1});
  EXPECT_EQ(scene.View().plan_digest, scene.durable_job().plan_digest);
  EXPECT_EQ(scene.View().buckets.size(), 1u);
  EXPECT_NE(scene.core().FindPlan(scene.job(), scene.View().plan_digest),
            nullptr);
  EXPECT_EQ(scene.core().FindPlan(scene.job(), "another"), nullptr);
}

TEST(StagesTest, ADifferenceIsOneErrorToEveryRank) {
  JobSpec spec = SpecOf(3);
  spec.limits.max_restarts = 5;  // would not help
  Scene scene(spec);
  scene.JoinAll();
  scene.Register(1, {ParameterNamed("a")});
  scene.Register(2, {ParameterNamed("a")});
  Parameter other = ParameterNamed("a");
  other.shape = {4, 3};
  const std::string said = scene.Register(3, {other});
  for (const char* to : {"1 <- ", "2 <- ", "3 <- "}) {
    EXPECT_THAT(said, HasSubstr(absl::StrCat(to, "ended 1 for good: ")));
  }
  EXPECT_THAT(said, AllOf(HasSubstr("[4,2]"), HasSubstr("[4,3]"),
                          HasSubstr("persist 6: epoch 1 ends\n"
                                    "persist 7: job failed")));
  EXPECT_EQ(scene.View().cause.kind, protocol::CauseKind::kMismatch);
}

TEST(StagesTest, ADuplicateParameterNameEndsTheEpochWithItsName) {
  Scene scene(SpecOf(1));
  scene.JoinAll();
  EXPECT_THAT(scene.Register(1, {ParameterNamed("a"), ParameterNamed("a")}),
              AllOf(HasSubstr("1 <- ended 1 for good: "), HasSubstr("a")));
}

TEST(StagesTest, AChunkOutOfOrderEndsTheEpochWithBothNumbers) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  scene.Says(1, Chunk(0, false, {}));
  EXPECT_THAT(scene.Says(1, Chunk(0, false, {})),
              HasSubstr("2 <- ended 1 for good: w-1 (rank 0, host a, pid 101) "
                        "sent chunk 0 of its parameters where chunk 1 was "
                        "due"));
}

TEST(StagesTest, AChunkAfterTheLastEndsTheEpoch) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  scene.Says(1, Chunk(0, true, {}));
  EXPECT_THAT(scene.Says(1, Chunk(1, true, {})),
              HasSubstr("sent chunk 1 of its parameters after the last one"));
}

TEST(StagesTest, TooManyParametersEndTheEpochWithTheLimit) {
  JobSpec spec = SpecOf(2);
  spec.limits.parameters_max = 2;
  Scene scene(spec);
  scene.JoinAll();
  scene.Says(1, Chunk(0, false, {ParameterNamed("a"), ParameterNamed("b")}));
  EXPECT_THAT(scene.Says(1, Chunk(1, true, {ParameterNamed("c")})),
              HasSubstr("w-1 (rank 0, host a, pid 101) registers at least 3 "
                        "parameters; limits.parameters_max is 2"));
}

TEST(StagesTest, AfterABrokenStreamRegistrationBeginsAgain) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  scene.Says(1, Chunk(0, false, {ParameterNamed("a")}));
  scene.Closes(1);
  EXPECT_EQ(scene.Resume(5, 1),
            "5 <- welcome back, generation 1, say what you registered\n"
            "5 <- formed 1: rank 0 of w-1 w-2");
  scene.Says(5, Chunk(0, false, {ParameterNamed("a")}));
  scene.Says(5, Chunk(1, true, {ParameterNamed("b")}));
  scene.Register(2, {ParameterNamed("a"), ParameterNamed("b")});
  EXPECT_EQ(scene.View().parameters.size(), 2u);
}

TEST(StagesTest, EverythingMayBeSaidAgainOnANewStream) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  scene.RegisterAll();
  scene.Ack(1);
  scene.Publish(1, 0);
  scene.Resume(5, 1);
  EXPECT_EQ(scene.Register(5, {ParameterNamed("weight")}), "");
  EXPECT_EQ(scene.Ack(5), "");
  EXPECT_EQ(scene.Publish(5, 0), "");
  scene.Ack(2);
  EXPECT_THAT(scene.Publish(2, 1), HasSubstr("5 <- handles of 0: h0 h1"));
  EXPECT_EQ(scene.Says(2, protocol::Connected{}), "");
  EXPECT_EQ(scene.Says(5, protocol::Connected{}), "5 <- start\n2 <- start");
  EXPECT_EQ(scene.Says(5, protocol::Connected{}), "5 <- start");
}

TEST(StagesTest, AnotherDigestEndsTheEpochWithBoth) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  scene.RegisterAll();
  const std::string digest = scene.durable_job().plan_digest;
  EXPECT_THAT(
      scene.Says(2, protocol::PlanAck{{1}, "feed"}),
      AllOf(HasSubstr("1 <- ended 1 for good: w-2 (rank 1"),
            HasSubstr("digest feed; the job's is revision 1 with digest " +
                      digest)));
}

TEST(StagesTest, AHandleOfAForeignCommunicatorEndsTheEpoch) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  scene.RegisterAll();
  scene.Ack(1);
  EXPECT_THAT(scene.Says(1, protocol::PublishHandles{{{5, "x"}}}),
              HasSubstr("published a handle of communicator 5, which it is no "
                        "member of"));
}

TEST(StagesTest, HandlesBeforeTheAcknowledgementEndTheEpoch) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  scene.RegisterAll();
  EXPECT_THAT(scene.Publish(1, 0), HasSubstr("did not acknowledge"));
}

TEST(StagesTest, ConnectedBeforeHandlesEndsTheEpoch) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  scene.RegisterAll();
  scene.Ack(1);
  EXPECT_THAT(scene.Says(1, protocol::Connected{}),
              HasSubstr("did not publish its handles"));
}

TEST(StagesTest, APlanBeforeThereIsOneEndsTheEpoch) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  EXPECT_THAT(scene.Says(1, protocol::PlanAck{{1}, "feed"}),
              HasSubstr("speaks of a plan before there is one"));
}

TEST(StagesTest, WhoDoesNotConnectInTimeIsNamed) {
  Scene scene(SpecOf(3));
  scene.JoinAll();
  scene.RegisterAll();
  for (int i : {1, 2, 3}) scene.Ack(i);
  for (int i : {1, 2, 3}) scene.Publish(i, i - 1);
  scene.Says(2, protocol::Connected{});
  EXPECT_EQ(scene.WaitWithHeartbeats(19, {1, 2, 3}), "");
  EXPECT_THAT(
      scene.WaitWithHeartbeats(1, {1, 2, 3}),
      HasSubstr("2 <- ended 1 for good: the data plane was not connected "
                "within 20s by w-1 (rank 0, host a, pid 101) and w-3 (rank 2, "
                "host a, pid 103)"));
  EXPECT_EQ(scene.View().cause.kind, protocol::CauseKind::kConnectFailed);
}

TEST(StagesTest, HandlesGoToTheMembersOfEachGroupAsItIsComplete) {
  JobSpec spec = SpecOf(4);
  spec.mesh.axes = {{"data", 2}, {"pipe", 2}};
  Scene scene(spec);
  scene.JoinAll();
  Parameter over_data = ParameterNamed("a");
  over_data.axes = {"data"};
  for (int i : {1, 2, 3, 4}) scene.Register(i, {over_data});
  for (int i : {1, 2, 3, 4}) scene.Ack(i);
  EXPECT_EQ(scene.Publish(1, 0), "");
  const std::string said = scene.Publish(3, 2);
  EXPECT_THAT(said, AllOf(HasSubstr("1 <- handles of"), HasSubstr(": h0 h2"),
                          HasSubstr("3 <- handles of")));
  EXPECT_THAT(said, testing::Not(HasSubstr("2 <-")));
}

TEST(StagesTest, MessagesOfAnotherEpochAreIgnored) {
  Scene scene(SpecOf(2));
  scene.JoinAll();
  EXPECT_EQ(scene.Says(1, protocol::RegisterChunk{.index = 3}, EpochId{7}), "");
  EXPECT_EQ(scene.Says(1, protocol::LocalFailure{}, EpochId{0}), "");
  EXPECT_EQ(scene.View().state, JobState::kSealed);
}

}  // namespace
}  // namespace lockstep::core
