// The wish to grow: all ranks end the epoch with the same step, whenever the
// wish arrives. Ranks are threads.

#include <atomic>
#include <future>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/stream.h"
#include "tests/client/gradient/engine_job.h"
#include "tests/support/sanitizers.h"

namespace lockstep::gradient {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

const std::vector<Registered> kWeight = {
    {{.name = "w", .shape = {2}, .op = ReduceOp::kSum}}};

protocol::DesiredCommands Wish(uint64_t growths,
                               std::vector<Command> commands = {},
                               uint64_t number = 0) {
  return {
      .commands = std::move(commands), .number = number, .growths = growths};
}

absl::StatusOr<Verdict> OneStep(Engine& engine) {
  FillView(engine, 0, 1);
  const absl::Status submitted = engine.Submit(0, nullptr, 0, nullptr);
  if (!submitted.ok()) return submitted;
  return FinishAndWait(engine);
}

// Every rank gets the wish, and takes a step.
std::vector<Verdict> StepOfAll(EngineJob& job,
                               const protocol::DesiredCommands& wish) {
  std::vector<Verdict> verdicts(static_cast<size_t>(job.size()));
  job.Run([&](int rank, Engine& engine) {
    engine.Receive(wish);
    const auto verdict = OneStep(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    verdicts[static_cast<size_t>(rank)] = *verdict;
  });
  return verdicts;
}

void ExpectThatItGrew(EngineJob& job, uint64_t steps) {
  for (int rank = 0; rank < job.size(); ++rank) {
    const auto reports = job.growth(rank);
    ASSERT_THAT(reports, SizeIs(1));
    EXPECT_EQ(reports[0].position.step, steps);
    EXPECT_EQ(reports[0].position.phase, protocol::Phase::kIdle);
    EXPECT_EQ(reports[0].verdict, job.engine(0).last_verdict());
    EXPECT_FALSE(reports[0].verdict.empty());
    EXPECT_EQ(job.ending(rank), Ending::kNone);
    EXPECT_EQ(job.failure(rank), absl::OkStatus());
    const absl::Status later = OneStep(job.engine(rank)).status();
    EXPECT_TRUE(absl::IsAborted(later)) << later;
    EXPECT_THAT(std::string(later.message()), HasSubstr("Session::Recover"));
    const absl::Status finish = FinishAndWait(job.engine(rank)).status();
    EXPECT_TRUE(absl::IsAborted(finish)) << finish;
  }
}

class GrowthTest : public testing::TestWithParam<int> {};

// Couriers deliver the wish at any time of any step.
TEST_P(GrowthTest, AllRanksEndTheEpochWithOneStep) {
  EngineJob job("data=3", kWeight);
  std::atomic<uint64_t> steps{0};
  std::vector<std::thread> couriers;
  for (int rank = 0; rank < job.size(); ++rank) {
    couriers.emplace_back([&, rank] {
      std::mt19937 random(static_cast<unsigned>(GetParam() * 31 + rank));
      const uint64_t from = random() % 20;
      while (steps < from) std::this_thread::yield();
      job.engine(rank).Receive(Wish(1));
    });
  }
  std::vector<uint64_t> passed(3, 0);
  job.Run([&](int rank, Engine& engine) {
    for (;;) {
      const auto verdict = OneStep(engine);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      if (rank == 0) ++steps;
      passed[static_cast<size_t>(rank)] = verdict->step + 1;
      EXPECT_FALSE(verdict->IsLast());
      if (verdict->Grows()) return;
    }
  });
  for (std::thread& courier : couriers) courier.join();
  EXPECT_EQ(passed[1], passed[0]);
  EXPECT_EQ(passed[2], passed[0]);
  ExpectThatItGrew(job, passed[0]);
}

INSTANTIATE_TEST_SUITE_P(Seeds, GrowthTest,
                         testing::Range(0, kUnderSanitizer ? 10 : 100));

TEST(WishTest, OfSomeRanksOrWithdrawnHasNoEffect) {
  EngineJob job("data=2", kWeight);
  job.engine(0).Receive(Wish(1));
  for (const Verdict& verdict : StepOfAll(job, Wish(0))) {
    EXPECT_EQ(verdict.command_holders[IndexOf(Command::kGrow)], 1);
    EXPECT_FALSE(verdict.Grows());
  }
  for (const Verdict& verdict : StepOfAll(job, Wish(2))) {
    EXPECT_FALSE(verdict.Grows());
  }
  EXPECT_THAT(job.growth(0), SizeIs(0));
  for (const Verdict& verdict : StepOfAll(job, Wish(3))) {
    EXPECT_TRUE(verdict.Grows());
  }
  ExpectThatItGrew(job, 3);
}

TEST(WishTest, AStopWins) {
  EngineJob job("data=2", kWeight);
  for (const Verdict& verdict : StepOfAll(job, Wish(1, {Command::kStop}, 1))) {
    EXPECT_EQ(verdict.ending, Ending::kStop);
    EXPECT_FALSE(verdict.Grows());
  }
  EXPECT_THAT(job.growth(0), SizeIs(0));
  EXPECT_EQ(job.ending(0), Ending::kStop);
}

// The pause holds in the next epoch.
TEST(WishTest, APauseOfTheSameStepHoldsNobody) {
  EngineJob job("data=2", kWeight);
  for (const Verdict& verdict : StepOfAll(job, Wish(1, {Command::kPause}, 1))) {
    EXPECT_TRUE(verdict.Grows());
  }
  ExpectThatItGrew(job, 1);
}

TEST(WishTest, EndsNoPauseAndIsObeyedBehindIt) {
  EngineJob job("data=2", kWeight);
  std::atomic<int> returned{0};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      Engine& engine = job.engine(rank);
      engine.Receive(Wish(0, {Command::kPause}, 1));
      const auto paused = OneStep(engine);
      ++returned;
      ASSERT_TRUE(paused.ok()) << paused.status();
      EXPECT_FALSE(paused->Grows());
      const auto next = OneStep(engine);
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_TRUE(next->Grows());
    });
  }
  for (int rank = 0; rank < 2; ++rank) {
    while (!job.engine(rank).progress().paused) std::this_thread::yield();
    job.engine(rank).Receive(Wish(1, {Command::kPause}, 1));
    EXPECT_TRUE(job.engine(rank).progress().paused);
  }
  EXPECT_EQ(returned, 0);
  for (int rank = 0; rank < 2; ++rank) {
    job.engine(rank).Receive(Wish(1, {}, 2));
  }
  for (std::thread& rank : ranks) rank.join();
  ExpectThatItGrew(job, 2);
}

// As a program with FinishAsync has them.
TEST(WishTest, StepsInFlightBehindItAreAborted) {
  EngineJob job("data=2", kWeight);
  job.Run([](int, Engine& engine) {
    engine.Receive(Wish(1));
    std::promise<void> begun;
    HostStream stream("test-stream");
    stream.Enqueue([begun = begun.get_future()]() mutable {
      begun.wait();
      return absl::OkStatus();
    });
    std::vector<std::shared_ptr<PendingVerdict::State>> steps;
    for (int step = 0; step < 3; ++step) {
      auto pending = engine.Finish({}, kInfinity, &stream);
      ASSERT_TRUE(pending.ok()) << pending.status();
      steps.push_back(*pending);
    }
    begun.set_value();
    const auto grown = steps[0]->Wait();
    ASSERT_TRUE(grown.ok()) << grown.status();
    EXPECT_TRUE(grown->Grows());
    for (const int step : {1, 2}) {
      const absl::Status given_up = steps[step]->Wait().status();
      EXPECT_TRUE(absl::IsAborted(given_up)) << given_up;
      EXPECT_THAT(std::string(given_up.message()), HasSubstr("the job grows"));
    }
    stream.Synchronize().IgnoreError();
  });
  EXPECT_EQ(job.failure(0), absl::OkStatus());
  EXPECT_EQ(job.failure(1), absl::OkStatus());
  EXPECT_THAT(job.growth(0), SizeIs(1));
}

}  // namespace
}  // namespace lockstep::gradient
