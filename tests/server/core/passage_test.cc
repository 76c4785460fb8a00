// One job from its first Hello to its end, as golden transcripts of effects: a
// change of what the coordinator does, or of the words of describe.h, is seen
// here. No other test compares transcripts; they use effect_matchers.h.

#include <string>

#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"

namespace lockstep::core {
namespace {

std::string Transcript(const EffectList& list) {
  return Describe(list.effects);
}

TEST(PassageTest, TheFirstWorkerCreatesTheJobAndTheLastFormsTheEpoch) {
  CoordinatorFixture fixture(SpecOf(2));
  EXPECT_EQ(Transcript(fixture.Hello(1)),
            "persist 1: job digits is created\n"
            "persist 2: w-1 is generation 1\n"
            "1 <- welcome, generation 1");
  EXPECT_EQ(fixture.View().missing, 1);
  EXPECT_EQ(Transcript(fixture.Hello(2)),
            "persist 3: w-2 is generation 1\n"
            "2 <- welcome, generation 1\n"
            "persist 4: epoch 1 begins: w-1 w-2\n"
            "1 <- formed 1: rank 0 of w-1 w-2\n"
            "2 <- formed 1: rank 1 of w-1 w-2");
  EXPECT_EQ(fixture.View().state, JobState::kSealed);
}

TEST(PassageTest, ThePlanIsAdoptedWhenAllHaveRegisteredAndStartsWhenConnected) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.JoinAll();
  EXPECT_EQ(Transcript(fixture.Register(1, {ParameterNamed("w")})), "");
  EXPECT_EQ(Transcript(fixture.Register(2, {ParameterNamed("w")})),
            "persist 5: plan of epoch 1\n"
            "1 <- plan ready\n"
            "2 <- plan ready");
  EXPECT_EQ(fixture.View().state, JobState::kPlanned);
  EXPECT_EQ(Transcript(fixture.Ack(1)), "");
  EXPECT_EQ(Transcript(fixture.Ack(2)), "");
  EXPECT_EQ(Transcript(fixture.Publish(1, 0)), "");
  EXPECT_EQ(Transcript(fixture.Publish(2, 1)),
            "1 <- handles of 0: h0 h1\n"
            "2 <- handles of 0: h0 h1\n"
            "1 <- handles of 1: h0 h1\n"
            "2 <- handles of 1: h0 h1");
  EXPECT_EQ(Transcript(fixture.Says(1, protocol::Connected{})), "");
  EXPECT_EQ(fixture.ViewOf(1).state, WorkerState::kReady);
  EXPECT_EQ(fixture.ViewOf(2).state, WorkerState::kJoining);
  EXPECT_EQ(Transcript(fixture.Says(2, protocol::Connected{})),
            "1 <- start\n2 <- start");
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
}

TEST(PassageTest, TheJobIsCompletedWhenAllHaveLeftInOrder) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_EQ(
      Transcript(fixture.Says(1, protocol::Leave{.clean = true, .steps = 20})),
      "persist 6: w-1 left epoch 1\n1 <- left\nclose 1: OK");
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
  EXPECT_EQ(
      Transcript(fixture.Says(2, protocol::Leave{.clean = true, .steps = 20})),
      "persist 7: w-2 left epoch 1\n2 <- left\nclose 2: OK\n"
      "persist 8: job completed");
  EXPECT_EQ(fixture.View().state, JobState::kCompleted);
  EXPECT_EQ(fixture.core().NextWake(), absl::InfiniteFuture());
}

TEST(PassageTest, AWorkerThatDiesEndsTheEpochForAllWithItsCause) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.Says(
      2, protocol::Progress{.position = {412, protocol::Phase::kCompute}});
  EXPECT_EQ(Transcript(fixture.Step(ReportEvidence{
                {9},
                fixture.job(),
                "",
                CoordinatorFixture::DeathOf(2, "killed by signal 9")})),
            "close 2: ABORTED: w-2 was reported dead: killed by signal 9\n"
            "persist 6: epoch 1 ends\n"
            "persist 7: job failed\n"
            "1 <- ended 1 for good: w-2 (rank 1, host a, pid 102) died: killed "
            "by signal 9, at step 412 while computing\n"
            "answer 9: OK");
  EXPECT_EQ(fixture.View().state, JobState::kFailed);
}

TEST(PassageTest, EveryMessageCarriesTheJobTheEpochAndTheTerm) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.Hello(1);
  fixture.Hello(2);
  int sends = 0;
  for (const Effect& effect : fixture.effects()) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    ++sends;
    EXPECT_EQ(send->message.job, fixture.job());
    EXPECT_EQ(send->message.term, LeaderTerm{1});
    if (std::holds_alternative<protocol::EpochFormed>(send->message.body)) {
      EXPECT_EQ(send->message.epoch, EpochId{1});
    }
  }
  EXPECT_EQ(sends, 3);
}

}  // namespace
}  // namespace lockstep::core
