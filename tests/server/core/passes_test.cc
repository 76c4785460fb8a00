// Passes of a job in negotiated mode, from the members' view.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using protocol::Announce;
using protocol::Held;
using protocol::Phase;
using protocol::Submitted;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Parameters by their numbers in the plan.
constexpr uint32_t kWeight = 0;
constexpr uint32_t kBias = 1;

JobSpec NegotiatedSpec(int world) {
  JobSpec spec = SpecOf(world);
  spec.sync = SyncMode::kNegotiated;
  return spec;
}

// A decision that was sent to a rank, with its pass.
struct SentDecision {
  uint64_t session;
  protocol::Decide decide;
  bool operator==(const SentDecision&) const = default;
};

std::vector<SentDecision> TakeSentDecisions(const CoordinatorFixture& fixture) {
  std::vector<SentDecision> told;
  for (const Effect& effect : fixture.effects()) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    const auto* decide = std::get_if<protocol::Decide>(&send->message.body);
    if (decide != nullptr) told.push_back({send->session.value, *decide});
  }
  return told;
}

protocol::Decide ToAll(uint64_t first,
                       std::vector<protocol::Decision> decisions) {
  return {first, std::move(decisions)};
}

class PassesOfAJob : public testing::Test {
 protected:
  PassesOfAJob() { fixture_.RunAll(); }

  std::vector<SentDecision> Post(uint64_t session,
                                 protocol::ToCoordinatorBody body) {
    fixture_.Says(session, std::move(body));
    return TakeSentDecisions(fixture_);
  }

  // Worker i resumes on a new stream.
  EffectList Resume(uint64_t session, int i, bool started = true) {
    protocol::Hello hello = fixture_.HelloOf(i);
    hello.generation = {1};
    hello.resume =
        protocol::ResumeState{.epoch = fixture_.epoch(),
                              .revision = fixture_.durable_job().revision,
                              .plan_digest = fixture_.durable_job().plan_digest,
                              .started = started};
    return fixture_.Hello(session, hello);
  }

  CoordinatorFixture fixture_{NegotiatedSpec(2)};
};

TEST_F(PassesOfAJob, APassFromItsAnnouncementsToItsClose) {
  EXPECT_THAT(Post(1, Announce{0, {kWeight, kBias}}), ElementsAre());
  EXPECT_THAT(Post(1, Submitted{0, {kBias}}), ElementsAre());
  const auto bias = ToAll(0, {{0, kBias, 1}});
  EXPECT_THAT(Post(2, Announce{0, {kWeight}}),
              ElementsAre(SentDecision{1, bias}, SentDecision{2, bias}));
  EXPECT_THAT(Post(2, Submitted{0, {kWeight}}), ElementsAre());
  const auto rest = ToAll(1, {{0, kWeight, 2}, {0, 0, 0}});
  EXPECT_THAT(Post(1, Submitted{0, {kWeight}}),
              ElementsAre(SentDecision{1, rest}, SentDecision{2, rest}));
}

TEST_F(PassesOfAJob, WhatBecomesReadyTogetherIsOneMessage) {
  Post(1, Announce{0, {kWeight, kBias}});
  Post(2, Announce{0, {}});
  EXPECT_EQ(Post(1, Submitted{0, {kBias, kWeight}}),
            (std::vector<SentDecision>{
                {1, ToAll(0, {{0, kBias, 1}, {0, kWeight, 1}, {0, 0, 0}})},
                {2, ToAll(0, {{0, kBias, 1}, {0, kWeight, 1}, {0, 0, 0}})}}));
}

TEST_F(PassesOfAJob, APassInWhichNobodyAnnouncesIsClosed) {
  Post(1, Announce{0, {}});
  EXPECT_THAT(Post(2, Announce{0, {}}),
              ElementsAre(SentDecision{1, ToAll(0, {{0, 0, 0}})},
                          SentDecision{2, ToAll(0, {{0, 0, 0}})}));
}

// --- Invalid messages -------------------------------------------------------

TEST_F(PassesOfAJob, APassTooFarEndsTheEpoch) {
  EXPECT_THAT(
      fixture_.Says(2, Announce{1, {kWeight}}),
      FailsJob(1,
               AllOf(StartsWith("w-2 (rank 1"),
                     HasSubstr("announced pass 1 before pass 0 was closed"))));
}

TEST_F(PassesOfAJob, ThePassAfterTheOpenOneIsRefusedFromWhoAnnouncedThis) {
  fixture_.Says(2, Announce{0, {}});
  EXPECT_THAT(
      fixture_.Says(2, Announce{1, {kWeight}}),
      FailsJob(1,
               AllOf(StartsWith("w-2 (rank 1"),
                     HasSubstr("announced pass 1 before pass 0 was closed"))));
}

TEST_F(PassesOfAJob, AnUnknownParameterEndsTheEpoch) {
  EXPECT_THAT(
      fixture_.Says(2, Announce{0, {2}}),
      FailsJob(2,
               HasSubstr("announced parameter 2 in pass 0, but there are 2")));
}

TEST_F(PassesOfAJob, OneAnnouncedTwiceEndsTheEpoch) {
  EXPECT_THAT(fixture_.Says(2, Announce{0, {kBias, kBias}}),
              FailsJob(2, HasSubstr("announced bias twice in pass 0")));
}

TEST_F(PassesOfAJob, AnAnnouncementOfOthersInTheSamePassEndsTheEpoch) {
  fixture_.Says(2, Announce{0, {kBias}});
  EXPECT_THAT(fixture_.Says(2, Announce{0, {kBias}}), NoEffects());
  EXPECT_THAT(
      fixture_.Says(2, Announce{0, {kWeight, kBias}}),
      FailsJob(2,
               HasSubstr("announced pass 0 a second time, now with weight")));
}

TEST_F(PassesOfAJob, OneSubmittedWithoutAnnouncementEndsTheEpoch) {
  fixture_.Says(2, Announce{0, {kBias}});
  EXPECT_THAT(
      fixture_.Says(2, Submitted{0, {kWeight}}),
      FailsJob(2,
               HasSubstr("submitted weight in pass 0 without announcing it")));
}

TEST_F(PassesOfAJob, GradientsOfAPassThatWasNotAnnouncedEndTheEpoch) {
  EXPECT_THAT(
      fixture_.Says(2, Submitted{0, {kWeight}}),
      FailsJob(2,
               HasSubstr("submitted gradients of pass 0, which it did not")));
}

TEST(PassesTest, ARankThatIsNotOfTheGroupEndsTheEpoch) {
  JobSpec spec = NegotiatedSpec(4);
  spec.mesh = {{{"pipe", 2}, {"data", 2}}};
  CoordinatorFixture fixture(spec);
  fixture.JoinAll();
  for (const uint64_t session : fixture.Sessions()) {
    const bool first_stage = session <= 2;
    fixture.Register(session, {{.name = first_stage ? "first" : "second",
                                .shape = {2},
                                .axes = {"data"}}});
  }
  for (const uint64_t session : fixture.Sessions()) fixture.Ack(session);
  for (int rank = 0; rank < 4; ++rank) fixture.Publish(rank + 1, rank);
  for (const uint64_t session : fixture.Sessions()) {
    fixture.Says(session, protocol::Connected{});
  }
  ASSERT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_THAT(
      fixture.Says(1, Announce{0, {1}}),
      FailsJob(
          1, HasSubstr("announced second in pass 0, but is not of its group")));
}

TEST(PassesTest, InAStaticJobEndTheEpoch) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.Says(1, Announce{0, {}}),
              FailsJob(1, HasSubstr("the job is not in negotiated mode")));
}

// --- Resuming ---------------------------------------------------------------

TEST_F(PassesOfAJob, AResumingRankIsToldWhatItMissed) {
  Post(1, Announce{0, {kWeight}});
  Post(2, Announce{0, {}});
  fixture_.Closes(2);
  Post(1, Submitted{0, {kWeight}});
  Resume(12, 2);
  EXPECT_THAT(TakeSentDecisions(fixture_), ElementsAre())
      << "it may hold some of it";
  EXPECT_THAT(Post(12, Held{0, {{0, kWeight, 1}}}),
              ElementsAre(SentDecision{12, ToAll(1, {{0, 0, 0}})}));
}

TEST_F(PassesOfAJob, ARestartedCoordinatorAdoptsTheLongestPrefix) {
  const protocol::PlanPart plan = fixture_.PlanAsPart();
  fixture_.Restart();
  Resume(11, 1);
  Post(11, Held{0, {{0, kBias, 1}, {0, 0, 0}}});
  Post(11, Announce{1, {kWeight}});
  Resume(12, 2);
  EXPECT_THAT(Post(11, plan), ElementsAre())
      << "nothing before every rank has said what it holds";
  EXPECT_THAT(
      Post(12, Held{0, {}}),
      ElementsAre(SentDecision{12, ToAll(0, {{0, kBias, 1}, {0, 0, 0}})}));
  EXPECT_THAT(Post(12, Announce{0, {kBias}}), ElementsAre()) << "closed";
  EXPECT_THAT(Post(12, Submitted{0, {kBias}}), ElementsAre());
  Post(12, Announce{1, {}});
  EXPECT_THAT(
      Post(11, Submitted{1, {kWeight}}),
      ElementsAre(SentDecision{11, ToAll(2, {{1, kWeight, 1}, {1, 0, 0}})},
                  SentDecision{12, ToAll(2, {{1, kWeight, 1}, {1, 0, 0}})}));
}

TEST_F(PassesOfAJob, WhoMissedStartHoldsNothingAndNeedNotSaySo) {
  const std::vector<Parameter> parameters = {ParameterNamed("weight"),
                                             ParameterNamed("bias")};
  fixture_.Restart();
  Resume(12, 2, /*started=*/false);
  fixture_.Register(12, parameters);
  Resume(11, 1);
  fixture_.Register(11, parameters);
  Post(11, Held{});
  Post(11, Announce{0, {}});
  EXPECT_THAT(Post(12, Announce{0, {}}),
              ElementsAre(SentDecision{11, ToAll(0, {{0, 0, 0}})},
                          SentDecision{12, ToAll(0, {{0, 0, 0}})}));
}

TEST_F(PassesOfAJob, PrefixesThatContradictEndTheEpoch) {
  const std::vector<Parameter> parameters = {ParameterNamed("weight"),
                                             ParameterNamed("bias")};
  fixture_.Restart();
  for (const int i : {1, 2}) {
    Resume(10 + i, i);
    fixture_.Register(10 + i, parameters);
  }
  Post(11, Held{0, {{0, kBias, 1}, {0, kWeight, 1}}});
  EXPECT_THAT(fixture_.Says(12, Held{0, {{0, kWeight, 1}}}),
              FailsJob(12, AllOf(HasSubstr("w-2 (rank 1"),
                                 HasSubstr("a decision 0 that"))));
}

// A rank announces pass p + 1 once it has received the close of p. So once
// every rank has announced p + 1, every rank has all decisions of p, and none
// requests a decision that was dropped.
TEST_F(PassesOfAJob, WhatARankWasNotToldIsKeptForIt) {
  const auto pass = [this](uint64_t number) {
    for (const uint64_t session : {1, 2}) {
      Post(session, Announce{number, {kWeight}});
    }
    Post(1, Submitted{number, {kWeight}});
  };
  pass(0);
  fixture_.Closes(2);  // it does not receive these decisions
  Resume(12, 2);
  Post(12, Held{});
  Post(12, Announce{0, {kWeight}});
  const auto told = ToAll(0, {{0, kWeight, 2}, {0, 0, 0}});
  EXPECT_THAT(Post(12, Submitted{0, {kWeight}}),
              ElementsAre(SentDecision{1, told}, SentDecision{12, told}));
  fixture_.Closes(12);  // before it received them
  Post(1, Announce{1, {}});
  Resume(22, 2);
  EXPECT_THAT(Post(22, Held{}), ElementsAre(SentDecision{22, told}));
}

// --- Waits ------------------------------------------------------------------

TEST_F(PassesOfAJob, WhoHasNotAnnouncedIsNamed) {
  Post(1, Announce{0, {}});
  Post(1, Stands(0, Phase::kTransfer));
  const JobView view = fixture_.View();
  ASSERT_EQ(view.waits.size(), 1u);
  EXPECT_EQ(view.waits[0].waiter, W(1));
  EXPECT_EQ(view.waits[0].waited_for, W(2));
  EXPECT_EQ(view.waits[0].why, "has not announced its parameters of pass 0");
}

TEST_F(PassesOfAJob, WhoHasNotSubmittedIsBlamedWithItsParameters) {
  Post(1, Announce{0, {kBias}});
  Post(1, Submitted{0, {kBias}});
  Post(1, Stands(0, Phase::kTransfer));
  Post(2, Announce{0, {kWeight, kBias}});
  Post(2, Stands(0, Phase::kCompute));
  EXPECT_THAT(fixture_.WaitWithHeartbeats(31, {1, 2}), NoEffects());
  EXPECT_THAT(fixture_.Stalls(),
              ElementsAre(AllOf(HasSubstr("w-2"),
                                HasSubstr("has not submitted weight and bias "
                                          "of pass 0"),
                                HasSubstr("; w-1 waits"))));
}

TEST_F(PassesOfAJob, WhoHasSubmittedAllItAnnouncedIsWaitedForByNobody) {
  Post(1, Announce{0, {}});
  Post(1, Stands(0, Phase::kTransfer));
  Post(2, Announce{0, {kBias}});
  Post(2, Stands(0, Phase::kCompute));
  EXPECT_EQ(fixture_.View().waits.size(), 1u);
  Post(2, Submitted{0, {kBias}});
  EXPECT_EQ(fixture_.View().waits.size(), 0u);
}

// --- Progress ---------------------------------------------------------------

// A rank that announces and submits makes progress, whatever position it
// reports.
TEST(PassesTest, WhatIsNewInAPassIsProgress) {
  JobSpec spec = NegotiatedSpec(2);
  spec.on_stuck = OnStuck::kEvict;
  spec.timeouts.progress = absl::Seconds(4);
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  for (uint64_t pass = 0; pass < 10; ++pass) {
    EXPECT_THAT(fixture.WaitWithHeartbeats(1, {1, 2}), NoEffects());
    for (const uint64_t session : {1, 2}) {
      fixture.Says(session, Announce{pass, {kWeight}});
      fixture.Says(session, Submitted{pass, {kWeight}});
    }
  }
}

TEST(PassesTest, WhatIsRepeatedIsNoProgress) {
  JobSpec spec = NegotiatedSpec(2);
  spec.on_stuck = OnStuck::kEvict;
  spec.timeouts.progress = absl::Seconds(4);
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  EffectList requested;
  for (int second = 0; second < 5; ++second) {
    fixture.Says(1, Announce{0, {kWeight}});
    fixture.Says(1, Submitted{0, {kWeight}});
    fixture.Says(2, Announce{0, {kWeight}});
    requested += fixture.Wait(1);
  }
  EXPECT_THAT(
      requested,
      FailsJob(1, HasSubstr("w-2 (rank 1, host a, pid 102) was evicted")));
}

}  // namespace
}  // namespace lockstep::core
