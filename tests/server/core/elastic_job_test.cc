// Jobs that go on with fewer workers, and grow again; workers that wait.

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/asking.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using protocol::CauseKind;
using protocol::Phase;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

JobSpec ElasticSpecOf(int world, int spares = 0) {
  JobSpec spec = RestartingSpec(world);
  spec.elastic.axis = "data";
  spec.limits.spares = spares;
  return spec;
}

// Workers 1, 2, ... of a job; each has the stream of its newest Hello.
class ElasticJob {
 public:
  explicit ElasticJob(const JobSpec& spec) : f(spec) {}

  // A new process, or a process that joins again with its state.
  EffectList Joins(int i) { return Joins(i, std::nullopt); }
  EffectList JoinsAgain(int i) {
    return Joins(i, protocol::HeldState{f.epoch(), f.durable_job().steps});
  }
  EffectList Joins(int i, std::optional<protocol::HeldState> held) {
    protocol::Hello hello = f.HelloOf(i);
    hello.incarnation = 10'000 + ++hellos_;
    hello.held = held;
    stream_[i] = 100 + hellos_;
    return f.Hello(stream_[i], hello);
  }
  // The same process, on another stream.
  EffectList Resumes(int i) {
    protocol::Hello hello = f.HelloOf(i);
    hello.incarnation = stream_[i] - 100 + 10'000;
    hello.generation = f.ViewOf(i).generation;
    hello.resume = protocol::ResumeState{};
    stream_[i] = 100 + ++hellos_;
    return f.Hello(stream_[i], hello);
  }
  EffectList Says(int i, protocol::ToCoordinatorBody body) {
    return f.Says(stream_.at(i), std::move(body));
  }
  EffectList Dies(int i) {
    return f.Step(ReportEvidence{
        {++request_}, f.job(), "", CoordinatorFixture::DeathOf(i, "signal 9")});
  }
  EffectList Reports(int i, uint64_t step, bool grows = false) {
    return Says(i, protocol::EpochReport{{step, Phase::kIdle},
                                         step == 0 ? "" : "verdict",
                                         /*holds_state=*/true,
                                         grows});
  }

  EffectList LeavesToJoinAgain(int i) {
    return Says(i, protocol::Leave{.clean = false, .returns = true});
  }

  // The members of the newest epoch, from registration to the first step.
  void Run() {
    for (const int i : Members()) {
      f.Register(stream_.at(i), {ParameterNamed("weight")});
    }
    for (const int i : Members()) f.Ack(stream_.at(i));
    int rank = 0;
    for (const int i : Members()) f.Publish(stream_.at(i), rank++);
    for (const int i : Members()) Says(i, protocol::Connected{});
    EXPECT_EQ(f.View().state, JobState::kRunning);
  }
  void Begin(int workers) {
    for (int i = 1; i <= workers; ++i) Joins(i);
    Run();
  }
  // The survivors report, and join again.
  void Recover(const std::vector<int>& survivors, uint64_t step) {
    for (const int i : survivors) Reports(i, step);
    for (const int i : survivors) JoinsAgain(i);
  }
  // All members pass the verdict of a step that grows.
  void Grow(uint64_t step) {
    const std::vector<int> members = Members();
    for (const int i : members) Reports(i, step, /*grows=*/true);
    for (const int i : members) JoinsAgain(i);
  }

  // In rank order.
  std::vector<int> Members() const {
    std::vector<int> members;
    for (const protocol::Member& member : f.durable_job().members) {
      members.push_back(std::stoi(member.worker.value.substr(2)));
    }
    return members;
  }
  bool lives() const { return f.durable_job().epoch_lives; }
  uint64_t stream(int i) const { return stream_.at(i); }
  bool WantsGrowth() const { return f.durable_job().wanted.wants_growth(); }
  WorkerState StateOf(int i) const { return f.ViewOf(i).state; }

  // As CoordinatorFixture::Wait, with heartbeats of everybody.
  void Wait(double seconds) {
    for (double waited = 0; waited < seconds; waited += 0.5) {
      for (const auto& [i, stream] : stream_) {
        f.Says(stream, protocol::Heartbeat{});
      }
      f.Wait(std::min(0.5, seconds - waited));
    }
  }

  CoordinatorFixture f;

 private:
  std::map<int, uint64_t> stream_;
  uint64_t hellos_ = 0;
  uint64_t request_ = 0;
};

// --- Shrinking
// ----------------------------------------------------------------

TEST(ShrinkingTest, SurvivorsGoOnAtOnce) {
  ElasticJob job(ElasticSpecOf(4));
  job.Begin(4);
  job.Dies(2);
  job.Recover({1, 3, 4}, 7);
  EXPECT_TRUE(job.lives());
  EXPECT_THAT(job.Members(), ElementsAre(1, 3, 4));
  const DurableJob& durable = job.f.durable_job();
  EXPECT_EQ(durable.first_step, 7u);
  EXPECT_THAT(durable.holders, ElementsAre(0, 1, 2));
  EXPECT_EQ(durable.previous_world, 4);
  job.Run();
  EXPECT_THAT(job.f.ViewOf(4).coordinates, ElementsAre(2));
}

TEST(ShrinkingTest, NotBeforeEverySurvivorHasJoinedAgain) {
  ElasticJob job(ElasticSpecOf(4));
  job.Begin(4);
  job.Dies(2);
  for (const int i : {1, 3, 4}) job.Reports(i, 7);
  job.JoinsAgain(1);
  job.JoinsAgain(3);
  job.Wait(5);
  EXPECT_FALSE(job.lives());
  job.JoinsAgain(4);
  EXPECT_THAT(job.Members(), ElementsAre(1, 3, 4));
}

// As a program does that destroys its session, and joins with another one.
TEST(ShrinkingTest, NotBeforeASurvivorIsBackThatLeftInOrderToJoinAgain) {
  ElasticJob job(ElasticSpecOf(4));
  job.Begin(4);
  job.Dies(2);
  for (const int i : {1, 3, 4}) job.Reports(i, 7);
  for (const int i : {1, 3, 4}) job.LeavesToJoinAgain(i);
  job.JoinsAgain(1);
  EXPECT_FALSE(job.lives());
  for (const int newcomer : {5, 6, 7}) job.Joins(newcomer);
  EXPECT_FALSE(job.lives()) << "their ranks are theirs";
  job.JoinsAgain(3);
  job.JoinsAgain(4);
  EXPECT_THAT(job.Members(), ElementsAre(1, 5, 3, 4));
}

TEST(ShrinkingTest, ASurvivorThatDiesBeforeItJoinsAgainIsNotAwaited) {
  ElasticJob job(ElasticSpecOf(4));
  job.Begin(4);
  job.Dies(2);
  for (const int i : {1, 3, 4}) job.Reports(i, 7);
  for (const int i : {1, 3, 4}) job.LeavesToJoinAgain(i);
  job.JoinsAgain(1);
  job.JoinsAgain(3);
  job.Dies(4);
  EXPECT_TRUE(job.lives());
  EXPECT_THAT(job.Members(), ElementsAre(1, 3));
}

TEST(ShrinkingTest, ASurvivorThatDiesMeanwhileIsNotAwaited) {
  ElasticJob job(ElasticSpecOf(4));
  job.Begin(4);
  job.Dies(2);
  for (const int i : {1, 3, 4}) job.Reports(i, 7);
  job.JoinsAgain(1);
  job.JoinsAgain(3);
  job.Dies(4);
  EXPECT_TRUE(job.lives());
  EXPECT_THAT(job.Members(), ElementsAre(1, 3));
}

TEST(ShrinkingTest, WaitsForReplacementsIfTheSpecSaysSo) {
  JobSpec spec = ElasticSpecOf(3);
  spec.elastic.wait = absl::Seconds(5);
  ElasticJob job(spec);
  job.Begin(3);
  job.Dies(2);
  job.Recover({1, 3}, 7);
  job.Wait(4);
  EXPECT_FALSE(job.lives());
  job.Wait(1.5);
  EXPECT_THAT(job.Members(), ElementsAre(1, 3));
}

TEST(ShrinkingTest, AReplacementWithinTheWaitKeepsTheSize) {
  JobSpec spec = ElasticSpecOf(3);
  spec.elastic.wait = absl::Seconds(5);
  ElasticJob job(spec);
  job.Begin(3);
  job.Dies(2);
  job.Recover({1, 3}, 7);
  job.Wait(4);
  job.Joins(9);
  EXPECT_THAT(job.Members(), ElementsAre(1, 9, 3));
  EXPECT_THAT(job.f.durable_job().holders, ElementsAre(0, 2));
}

TEST(ShrinkingTest, BelowTheLeastItWaitsUntilTheJoinDeadline) {
  JobSpec spec = ElasticSpecOf(4);
  spec.elastic.min_workers = 3;
  ElasticJob job(spec);
  job.Begin(4);
  job.Dies(2);
  job.Dies(3);
  job.Recover({1, 4}, 7);
  job.Wait(50);
  EXPECT_FALSE(job.lives());
  job.Wait(15);
  EXPECT_EQ(job.f.View().state, JobState::kFailed);
  EXPECT_THAT(job.f.View().cause.message,
              HasSubstr("2 of 4 workers are missing: w-2, w-3; it runs with 3 "
                        "or more"));
}

TEST(ShrinkingTest, ANewcomerMakesUpTheLeast) {
  JobSpec spec = ElasticSpecOf(4);
  spec.elastic.min_workers = 3;
  ElasticJob job(spec);
  job.Begin(4);
  job.Dies(2);
  job.Dies(3);
  job.Recover({1, 4}, 7);
  job.Joins(9);
  EXPECT_THAT(job.Members(), ElementsAre(1, 9, 4));
}

// Nobody has the state: to hurry with one worker would only lose the others.
TEST(ShrinkingTest, WithoutSurvivorsItWaitsForAll) {
  ElasticJob job(ElasticSpecOf(3));
  job.Begin(3);
  for (const int i : {1, 2, 3}) job.Dies(i);
  for (const int i : {11, 12}) job.Joins(i);
  job.Wait(30);
  EXPECT_FALSE(job.lives());
  job.Joins(13);
  EXPECT_THAT(job.Members(), ElementsAre(11, 12, 13));
}

TEST(ShrinkingTest, WithoutSurvivorsItHasThoseWhoCameByTheDeadline) {
  ElasticJob job(ElasticSpecOf(3));
  job.Begin(3);
  for (const int i : {1, 2, 3}) job.Dies(i);
  for (const int i : {11, 12}) job.Joins(i);
  job.Wait(61);
  EXPECT_THAT(job.Members(), ElementsAre(11, 12));
  EXPECT_THAT(job.f.durable_job().holders, IsEmpty());
}

TEST(ShrinkingTest, ASurvivorOfABrokenReplicaWaits) {
  JobSpec spec = ElasticSpecOf(4);
  spec.mesh = *ParseMesh("data=2,pipe=2");
  ElasticJob job(spec);
  job.Begin(4);
  job.Dies(1);
  job.Recover({2, 3, 4}, 7);
  EXPECT_THAT(job.Members(), ElementsAre(3, 4));
  EXPECT_EQ(job.StateOf(2), WorkerState::kWaiting);
  job.Run();
  EXPECT_FALSE(job.WantsGrowth()) << "one more is needed for a replica";
  job.Joins(9);
  EXPECT_TRUE(job.WantsGrowth());
  job.Grow(9);
  EXPECT_THAT(job.Members(), ElementsAre(3, 4, 2, 9));
  EXPECT_THAT(job.f.durable_job().holders, ElementsAre(0, 1))
      << "the state of worker 2 is older";
}

// Workers 3 and 4 train while worker 2 waits with the state of its stage.
class WaitingSurvivorTest : public testing::Test {
 protected:
  WaitingSurvivorTest() {
    job_.Begin(4);
    job_.Dies(1);
    job_.Recover({2, 3, 4}, 7);
    EXPECT_THAT(job_.Members(), ElementsAre(3, 4));
  }
  static JobSpec Spec() {
    JobSpec spec = ElasticSpecOf(4);
    spec.mesh = *ParseMesh("data=2,pipe=2");
    spec.timeouts.join = absl::Milliseconds(500);
    return spec;
  }
  const DurableJob& durable() const { return job_.f.durable_job(); }

  ElasticJob job_{Spec()};
};

TEST_F(WaitingSurvivorTest, HoldsTheStateUntilTheOthersPassAStep) {
  job_.Dies(3);
  job_.Recover({4}, 7);
  EXPECT_FALSE(job_.lives()) << "both have the state of the second stage";
  job_.Joins(8);
  EXPECT_THAT(job_.Members(), ElementsAre(8, 4));
  EXPECT_THAT(durable().holders, ElementsAre(1));
  EXPECT_EQ(durable().first_step, 7u);

  job_.Run();
  job_.Dies(4);
  job_.Dies(8);
  job_.Joins(9);
  EXPECT_THAT(job_.Members(), ElementsAre(9, 2));
  EXPECT_THAT(durable().holders, ElementsAre(1));
  EXPECT_EQ(durable().first_step, 7u);
  EXPECT_EQ(durable().previous_world, 4) << "its state is that of four";
}

TEST_F(WaitingSurvivorTest, IsANewcomerOnceTheyPassedOne) {
  job_.Run();
  job_.Dies(3);
  job_.Recover({4}, 8);
  EXPECT_THAT(job_.Members(), ElementsAre(2, 4)) << "now in the first stage";
  EXPECT_THAT(durable().holders, ElementsAre(1));
  EXPECT_EQ(durable().first_step, 8u);
}

TEST_F(WaitingSurvivorTest, DoesNotReportAboutTheEpochOfOthers) {
  job_.Dies(3);
  const EffectList effects = job_.f.Says(
      job_.stream(2), protocol::EpochReport{{9, Phase::kIdle}, "verdict", true},
      EpochId{1});
  EXPECT_THAT(effects.effects, IsEmpty());
}

TEST_F(WaitingSurvivorTest, IsANewcomerIfOneWithMoreStepsIsHeardOf) {
  job_.Run();
  job_.Says(3, protocol::Progress{.position = {9, Phase::kCompute}});
  for (const int i : {3, 4}) job_.Dies(i);
  for (const int i : {8, 9, 10}) job_.Joins(i);
  EXPECT_THAT(durable().holders, IsEmpty());
  EXPECT_EQ(durable().first_step, 9u);
}

// Worker 2 has no stream when the others begin with other state: the state
// after step 7 is another one now.
TEST_F(WaitingSurvivorTest, IsANewcomerOnceOthersBeganWithoutTheState) {
  job_.f.Closes(job_.stream(2));
  for (const int i : {3, 4}) job_.Dies(i);
  for (const int i : {8, 9}) job_.Joins(i);
  job_.f.Wait(0.6);
  EXPECT_THAT(job_.Members(), ElementsAre(8, 9));
  EXPECT_THAT(durable().holders, IsEmpty());
  job_.Resumes(2);
  job_.Run();
  job_.Reports(8, 7);
  job_.Reports(9, 7);
  job_.Joins(10);
  job_.JoinsAgain(8);
  job_.JoinsAgain(9);
  EXPECT_THAT(job_.Members(), ElementsAre(8, 9, 2, 10));
  EXPECT_THAT(durable().holders, ElementsAre(0, 1));
}

TEST(ShrinkingTest, AJobOfFixedSizeDoesNot) {
  ElasticJob job(RestartingSpec(3));
  job.Begin(3);
  job.Dies(2);
  job.Recover({1, 3}, 7);
  job.Wait(30);
  EXPECT_FALSE(job.lives());
  job.Wait(31);
  EXPECT_EQ(job.f.View().state, JobState::kFailed);
}

// --- The first epoch
// ------------------------------------------------------------

TEST(FirstElasticEpochTest, FormsWithAllOrAtTheJoinDeadline) {
  JobSpec spec = ElasticSpecOf(4);
  spec.elastic.min_workers = 2;
  ElasticJob job(spec);
  for (const int i : {1, 2, 3}) job.Joins(i);
  job.Wait(59);
  EXPECT_FALSE(job.lives());
  job.Wait(2);
  EXPECT_THAT(job.Members(), ElementsAre(1, 2, 3));
  EXPECT_EQ(job.f.durable_job().previous_world, 0);
}

TEST(FirstElasticEpochTest, FailsWithFewerThanTheLeast) {
  JobSpec spec = ElasticSpecOf(4);
  spec.elastic.min_workers = 2;
  ElasticJob job(spec);
  job.Joins(1);
  job.Wait(61);
  EXPECT_EQ(job.f.View().state, JobState::kFailed);
}

// --- Growing
// ----------------------------------------------------------------------

class GrowingTest : public testing::Test {
 protected:
  // Runs with workers 1, 3 and 4 of four.
  void Shrink() {
    job_.Begin(4);
    job_.Dies(2);
    job_.Recover({1, 3, 4}, 7);
    job_.Run();
  }

  ElasticJob job_{ElasticSpecOf(4)};
};

TEST_F(GrowingTest, AllRanksEndTheEpochAtOneStep) {
  Shrink();
  EXPECT_THAT(job_.Joins(9), Includes(Persists(CommandsWanted({}))))
      << "with it all ranks can be filled: at once";
  EXPECT_TRUE(job_.WantsGrowth());
  EXPECT_EQ(job_.StateOf(9), WorkerState::kWaiting);
  EXPECT_TRUE(job_.lives());

  EXPECT_THAT(job_.Reports(3, 12, /*grows=*/true),
              Includes(Sends(job_.stream(1), EpochEnded(2, HasSubstr("w-9")))));
  EXPECT_EQ(job_.f.View().cause.kind, CauseKind::kGrown);
  job_.Reports(1, 12, true);
  job_.Reports(4, 12, true);
  for (const int i : {1, 3, 4}) job_.JoinsAgain(i);
  EXPECT_THAT(job_.Members(), ElementsAre(1, 3, 4, 9));
  EXPECT_THAT(job_.f.durable_job().holders, ElementsAre(0, 1, 2));
  EXPECT_EQ(job_.f.durable_job().first_step, 12u);
  EXPECT_EQ(job_.f.durable_job().previous_world, 3);
  EXPECT_FALSE(job_.WantsGrowth());
  job_.Run();
}

TEST_F(GrowingTest, SpendsNoRestart) {
  JobSpec spec = ElasticSpecOf(3);
  spec.limits.max_restarts = 1;
  ElasticJob job(spec);
  job.Begin(3);
  job.Dies(2);
  job.Recover({1, 3}, 7);
  job.Run();
  for (const uint64_t step : {9, 9, 9, 9}) {
    job.Joins(9);
    job.Dies(9);  // ... after the ranks have heard of it
    job.Grow(step);
    ASSERT_THAT(job.Members(), ElementsAre(1, 3));
    job.Run();
  }
  job.Joins(9);
  job.Grow(10);
  EXPECT_THAT(job.Members(), ElementsAre(1, 3, 9));
}

TEST_F(GrowingTest, WaitsForMoreThatJoinOneAfterAnother) {
  ElasticJob job(ElasticSpecOf(6));
  job.Begin(6);
  for (const int i : {4, 5, 6}) job.Dies(i);
  job.Recover({1, 2, 3}, 7);
  job.Run();
  job.Joins(11);
  EXPECT_FALSE(job.WantsGrowth());
  job.f.Wait(0.15);
  job.Joins(12);
  job.f.Wait(0.15);
  EXPECT_FALSE(job.WantsGrowth());
  job.f.Wait(0.1);
  EXPECT_TRUE(job.WantsGrowth());
}

TEST_F(GrowingTest, AnArrivalWhileItIsWantedLeavesNoTimerBehind) {
  ElasticJob larger(ElasticSpecOf(7));
  larger.Begin(7);
  for (const int i : {5, 6, 7}) larger.Dies(i);
  larger.Recover({1, 2, 3, 4}, 3);
  larger.Run();
  larger.Joins(5);
  larger.Wait(0.5);
  ASSERT_TRUE(larger.WantsGrowth());
  larger.Joins(6);
  larger.f.Wait(0.3);
  EXPECT_GT(larger.f.core().NextWake(), larger.f.now());
}

TEST_F(GrowingTest, IsWithdrawnWhenNobodyWaitsAnyMore) {
  Shrink();
  job_.Joins(9);
  ASSERT_TRUE(job_.WantsGrowth());
  job_.Dies(9);
  EXPECT_FALSE(job_.WantsGrowth());
  EXPECT_EQ(job_.f.durable_job().wanted.growths, 2u);
  EXPECT_TRUE(job_.lives()) << "a worker that waits ends no epoch";
}

TEST_F(GrowingTest, AWithdrawnWishThatRanksObeyedFormsTheSameEpoch) {
  Shrink();
  job_.Joins(9);
  job_.Dies(9);
  job_.Grow(12);
  EXPECT_TRUE(job_.lives());
  EXPECT_THAT(job_.Members(), ElementsAre(1, 3, 4));
  EXPECT_EQ(job_.f.durable_job().epoch, EpochId{3});
}

// A rank may claim anything; without a wish it has failed.
TEST_F(GrowingTest, AReportOfAGrowthThatNobodyWantedIsAFailure) {
  Shrink();
  job_.Reports(1, 12, /*grows=*/true);
  EXPECT_EQ(job_.f.View().cause.kind, CauseKind::kLocalFailure);
}

TEST_F(GrowingTest, ALossMeanwhileTakesTheWaitingWorkerAtOnce) {
  Shrink();
  job_.Joins(9);
  job_.Dies(4);
  job_.Recover({1, 3}, 11);
  EXPECT_THAT(job_.Members(), ElementsAre(1, 3, 9));
}

TEST_F(GrowingTest, BeginsOnceTheSmallerEpochRuns) {
  job_.Begin(4);
  job_.Dies(2);
  job_.Recover({1, 3, 4}, 7);
  job_.Joins(9);  // before the members have registered
  EXPECT_FALSE(job_.WantsGrowth());
  job_.Run();
  EXPECT_TRUE(job_.WantsGrowth());
}

TEST_F(GrowingTest, NotWhileAnOperatorWantsItToEnd) {
  Shrink();
  Asks(job_.f, JobCommand::kDrain, "maintenance");
  job_.Joins(9);
  EXPECT_FALSE(job_.WantsGrowth());
}

TEST_F(GrowingTest, AnOperatorsEndWithdrawsIt) {
  Shrink();
  job_.Joins(9);
  Asks(job_.f, JobCommand::kStop, "enough");
  EXPECT_FALSE(job_.WantsGrowth());
  EXPECT_THAT(job_.f.durable_job().wanted.commands,
              ElementsAre(Command::kStop));
}

TEST_F(GrowingTest, APauseDoesNotForgetIt) {
  Shrink();
  job_.Joins(9);
  Asks(job_.f, JobCommand::kPause);
  EXPECT_TRUE(job_.WantsGrowth());
  Asks(job_.f, JobCommand::kResume);
  EXPECT_TRUE(job_.WantsGrowth());
}

TEST_F(GrowingTest, NoMoreThanTheMeshHasMayWait) {
  Shrink();
  job_.Joins(9);
  const EffectList answer = job_.Joins(10);
  EXPECT_THAT(answer,
              Includes(Sends(job_.stream(10),
                             Refused(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("no free rank")))));
}

TEST_F(GrowingTest, AfterARestartOfTheCoordinatorItFollowsAgain) {
  Shrink();
  job_.Joins(9);
  const std::string secret = job_.f.SecretOf(9);
  job_.f.Restart();
  for (const int i : {1, 3, 4}) {
    protocol::Hello hello = job_.f.HelloOf(i);
    hello.generation = {2};
    hello.incarnation = job_.f.durable_job().name_holders.at(W(i)).incarnation;
    hello.resume =
        protocol::ResumeState{.epoch = job_.f.epoch(),
                              .revision = job_.f.durable_job().revision,
                              .plan_digest = job_.f.durable_job().plan_digest,
                              .started = true};
    job_.f.Hello(200 + i, hello);
  }
  EXPECT_FALSE(job_.WantsGrowth()) << "nobody waits, as far as it knows";
  protocol::Hello hello = job_.f.HelloOf(9);
  hello.generation = {1};
  hello.incarnation = job_.f.durable_job().name_holders.at(W(9)).incarnation;
  hello.secret = secret;
  hello.resume = protocol::ResumeState{};
  job_.f.Hello(209, hello);
  EXPECT_EQ(job_.StateOf(9), WorkerState::kWaiting);
  EXPECT_TRUE(job_.WantsGrowth());
}

// It neither waits for a decision nor has an effect on the others.
TEST(ShrinkingTest, AWorkerThatResumesAfterTheNextEpochFormedIsANewcomer) {
  ElasticJob job(ElasticSpecOf(3));
  job.Begin(3);
  job.f.Closes(job.stream(2));
  job.f.WaitWithHeartbeats(1, {job.stream(1), job.stream(3)});
  job.f.Wait(0.1);
  EXPECT_EQ(job.StateOf(2), WorkerState::kLost);
  job.Recover({1, 3}, 7);
  EXPECT_TRUE(job.lives());
  protocol::Hello hello = job.f.HelloOf(2);
  hello.generation = {1};
  hello.incarnation = job.f.durable_job().name_holders.at(W(2)).incarnation;
  hello.resume = protocol::ResumeState{.epoch = {1}, .ended = true};
  const EffectList answer = job.f.Hello(200, hello);
  EXPECT_THAT(answer, Includes(Sends(200, EpochEnded(1)),
                               Sends(200, Any<protocol::RecoveryDecision>())));
  for (const Effect& effect : job.f.effects()) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    const auto* decision =
        std::get_if<protocol::RecoveryDecision>(&send->message.body);
    if (decision == nullptr) continue;
    EXPECT_EQ(*decision, (protocol::RecoveryDecision{.steps = 7}));
  }
  EXPECT_TRUE(job.lives());
}

// --- Spares
// -------------------------------------------------------------------------

class SparesTest : public testing::Test {
 protected:
  SparesTest() {
    spec_.limits.spares = 1;
    job_.emplace(spec_);
    for (int i = 1; i <= 4; ++i) job_->Joins(i);
    job_->Run();
  }

  JobSpec spec_ = RestartingSpec(3);
  std::optional<ElasticJob> job_;
};

TEST_F(SparesTest, OneTakesTheRankOfALostWorkerAtOnce) {
  EXPECT_THAT(job_->Members(), ElementsAre(1, 2, 3));
  EXPECT_EQ(job_->StateOf(4), WorkerState::kWaiting);
  job_->Dies(2);
  job_->Recover({3, 1}, 7);
  EXPECT_THAT(job_->Members(), ElementsAre(1, 4, 3));
  EXPECT_THAT(job_->f.durable_job().holders, ElementsAre(0, 2));
}

TEST_F(SparesTest, TheReplacementOfTheLostWorkerIsTheNextSpare) {
  job_->Dies(2);
  job_->Recover({3, 1}, 7);
  job_->Run();
  job_->Joins(22);
  EXPECT_EQ(job_->StateOf(22), WorkerState::kWaiting);
  const EffectList answer = job_->Joins(23);
  EXPECT_THAT(answer,
              Includes(Sends(job_->stream(23),
                             Refused(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("of 3 and 1 spare are held")))));
}

TEST_F(SparesTest, ASpareThatDiesEndsNothing) {
  job_->Dies(4);
  EXPECT_TRUE(job_->lives());
  EXPECT_EQ(job_->f.View().state, JobState::kRunning);
  job_->Joins(5);
  EXPECT_EQ(job_->StateOf(5), WorkerState::kWaiting);
}

TEST_F(SparesTest, ASpareThatLeavesEndsNothing) {
  EXPECT_THAT(
      job_->f.Says(job_->stream(4), protocol::Leave{.clean = true}, EpochId{}),
      Includes(Sends(job_->stream(4), Left())));
  EXPECT_TRUE(job_->lives());
}

TEST_F(SparesTest, NoSpareDisplacesASurvivorThatIsOnItsWay) {
  spec_.limits.spares = 2;
  ElasticJob job(spec_);
  for (int i = 1; i <= 5; ++i) job.Joins(i);
  job.Run();
  job.Dies(2);
  for (const int i : {1, 3}) job.Reports(i, 7);
  job.JoinsAgain(1);
  EXPECT_FALSE(job.lives()) << "worker 3 is on its way";
  job.JoinsAgain(3);
  EXPECT_THAT(job.Members(), ElementsAre(1, 4, 3));
}

// It counts as lost for the epoch, which spares complete.
TEST_F(SparesTest, ASurvivorThatNeverComesIsReplacedAtTheJoinDeadline) {
  spec_.limits.spares = 2;
  ElasticJob job(spec_);
  for (int i = 1; i <= 5; ++i) job.Joins(i);
  job.Run();
  job.Dies(2);
  for (const int i : {1, 3}) job.Reports(i, 7);
  job.JoinsAgain(1);
  job.Wait(61);
  EXPECT_THAT(job.Members(), ElementsAre(1, 4, 5));
}

TEST_F(SparesTest, LearnThatTheJobCompleted) {
  for (const int i : {1, 2}) job_->Says(i, protocol::Leave{.steps = 5});
  EXPECT_THAT(job_->Says(3, protocol::Leave{.steps = 5}),
              Includes(Sends(job_->stream(4),
                             EpochEndedForGood(0, HasSubstr("completed")))));
  EXPECT_EQ(job_->f.View().state, JobState::kCompleted);
}

TEST_F(SparesTest, LearnThatTheJobFailed) {
  EXPECT_THAT(job_->f.Step(StopJob{{7}, job_->f.job(), "", "enough"}),
              Includes(Sends(job_->stream(4),
                             EpochEndedForGood(0, HasSubstr("enough")))));
}

TEST_F(SparesTest, AreSentAwayByADrain) {
  Asks(job_->f, JobCommand::kDrain, "maintenance");
  for (const int i : {1, 2}) {
    job_->Says(i, protocol::Leave{.steps = 5, .command = Command::kDrain});
  }
  EXPECT_THAT(
      job_->Says(3, protocol::Leave{.steps = 5, .command = Command::kDrain}),
      Includes(Sends(job_->stream(4), Refused(absl::StatusCode::kCancelled,
                                              HasSubstr("maintenance")))));
  EXPECT_EQ(job_->f.View().state, JobState::kForming);
}

TEST_F(SparesTest, AreNoPartOfTheSummary) {
  EXPECT_EQ(job_->f.core().Jobs().at(0).world_size, 3);
  EXPECT_EQ(job_->f.core().Jobs().at(0).ready, 3);
}

// --- Launches
// ------------------------------------------------------------------------

protocol::Hello FromLaunch(const ElasticJob& job, int i, const char* launch) {
  protocol::Hello hello = job.f.HelloOf(i);
  hello.incarnation = 77'000 + static_cast<uint64_t>(i);
  hello.launch = protocol::Launch{.id = launch};
  return hello;
}

TEST(ElasticLaunchesTest, ARunningElasticJobTakesWorkersOfAnotherLaunch) {
  ElasticJob job(ElasticSpecOf(3));
  for (int i = 1; i <= 3; ++i) {
    job.f.Hello(i, FromLaunch(job, i, "first"));
  }
  ASSERT_TRUE(job.lives());
  job.Dies(2);
  for (const int i : {1, 3}) {
    job.f.Says(i, protocol::EpochReport{{0, Phase::kIdle}, "", true});
  }
  EXPECT_THAT(job.f.Hello(9, FromLaunch(job, 9, "second")),
              Includes(Sends(9, Welcome(1))));
}

TEST(ElasticLaunchesTest, ButNotOneThatHasNotBegun) {
  ElasticJob job(ElasticSpecOf(3));
  job.f.Hello(1, FromLaunch(job, 1, "first"));
  EXPECT_THAT(job.f.Hello(9, FromLaunch(job, 9, "second")),
              Includes(Sends(9, Refused(absl::StatusCode::kAlreadyExists))));
}

}  // namespace
}  // namespace lockstep::core
