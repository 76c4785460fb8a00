// Pause, resume and stop: all ranks stop at the same step, whenever commands
// arrive. Ranks are threads; each has a courier thread that delivers the
// operator's commands late, and skips some.

#include <array>
#include <atomic>
#include <future>
#include <random>

#include "gtest/gtest.h"
#include "tests/client/gradient/engine_job.h"
#include "tests/support/manual_clock.h"
#include "tests/support/sanitizers.h"

namespace lockstep::gradient {
namespace {

constexpr int kWorld = 3;
constexpr absl::Duration kTimeout = absl::Seconds(60);

const std::vector<Registered> kOne = {
    {{.name = "w", .shape = {2}, .op = ReduceOp::kSum}}};

protocol::DesiredCommands Word(uint64_t number, std::vector<Command> commands) {
  return {.commands = std::move(commands), .number = number};
}

// Spins for about a tenth of a microsecond for each of `turns`. It does not
// yield: on a busy machine a thread that yields resumes milliseconds later.
void Linger(int turns) {
  for (int spin = 300 * turns; spin > 0; --spin) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

// Yields until `holds` returns true; returns false on a timeout.
bool Await(const std::function<bool()>& holds) {
  const absl::Time deadline = absl::Now() + kTimeout;
  while (!holds()) {
    if (absl::Now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Reduced over one rank: ranks synchronise only in the verdict.
const std::vector<Registered> kAlone = {
    {{.name = "w", .shape = {2}, .op = ReduceOp::kSum, .axes = {"alone"}}}};

// The operator's commands, and the courier threads that deliver them.
class Operator {
 public:
  Operator(EngineJob& job, int seed) : job_(job), words_(kMaxWords) {
    for (int rank = 0; rank < job.size(); ++rank) {
      couriers_.emplace_back([this, rank, seed] { Bring(rank, seed); });
    }
  }
  ~Operator() {
    done_ = true;
    for (std::thread& courier : couriers_) courier.join();
  }

  void Post(std::vector<Command> commands) {
    const size_t number = said_ + 1;
    words_[number] = Word(number, std::move(commands));
    said_ = number;
  }
  // Whether every rank has received the newest command.
  bool AllHeard() const {
    return std::all_of(heard_.begin(), heard_.end(),
                       [this](const auto& heard) { return heard == said_; });
  }

 private:
  static constexpr size_t kMaxWords = 64;

  void Bring(int rank, int seed) {
    std::mt19937 random(static_cast<unsigned>(seed * 31 + rank));
    for (size_t brought = 0; !done_ || brought < said_;) {
      if (brought == said_) {
        std::this_thread::yield();
        continue;
      }
      Linger(random() % 2000);
      // Delivers the next command, or only the newest.
      brought = random() % 2 == 0 ? brought + 1 : said_.load();
      job_.engine(rank).Receive(words_[brought]);
      heard_[rank] = brought;
    }
  }

  EngineJob& job_;
  std::vector<protocol::DesiredCommands> words_;
  std::atomic<size_t> said_{0};
  std::array<std::atomic<size_t>, kWorld> heard_{};
  std::atomic<bool> done_{false};
  std::vector<std::thread> couriers_;
};

// The verdicts of a rank that trains until one of them is the last.
using Verdicts = std::vector<Verdict>;
Verdicts Train(Engine& engine, std::mt19937 random) {
  Verdicts verdicts;
  do {
    // Mostly short; sometimes so long that a command arrives while ranks wait
    // in the verdict.
    const int most = random() % 16 == 0 ? 1000 : 50;
    Linger(random() % most);
    FillView(engine, 0, 1);
    EXPECT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
    const absl::StatusOr<Verdict> verdict = FinishAndWait(engine);
    if (!verdict.ok()) {
      ADD_FAILURE() << verdict.status();
      return verdicts;
    }
    verdicts.push_back(*verdict);
  } while (!verdicts.back().IsLast());
  EXPECT_EQ(engine.Submit(0, nullptr, 0, nullptr).code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(FinishAndWait(engine).status().code(),
            absl::StatusCode::kCancelled);
  return verdicts;
}

std::vector<protocol::Progress> Standing(EngineJob& job) {
  std::vector<protocol::Progress> all;
  for (int rank = 0; rank < job.size(); ++rank) {
    all.push_back(job.engine(rank).progress());
  }
  return all;
}

bool AllPaused(EngineJob& job) {
  const auto all = Standing(job);
  return std::all_of(all.begin(), all.end(),
                     [](const auto& progress) { return progress.paused; });
}

bool AllHavePassed(EngineJob& job, uint64_t steps) {
  const auto all = Standing(job);
  return std::all_of(all.begin(), all.end(), [steps](const auto& progress) {
    return progress.position.step >= steps;
  });
}

void ExpectThatAllStayAtOneStep(EngineJob& job) {
  const auto before = Standing(job);
  Linger(1000);
  const auto after = Standing(job);
  for (int rank = 0; rank < job.size(); ++rank) {
    EXPECT_EQ(before[rank].position.step, before[0].position.step);
    EXPECT_EQ(after[rank].position, before[rank].position);
  }
}

class PauseHistories : public testing::TestWithParam<int> {};

TEST_P(PauseHistories, AllRanksPauseGoOnAndStopTogether) {
  const int seed = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(static_cast<unsigned>(seed));
  EngineJob job("data=3,alone=1", kAlone);
  std::vector<std::future<Verdicts>> ranks;
  for (int rank = 0; rank < kWorld; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&job, rank, seed] {
      return Train(job.engine(rank),
                   std::mt19937(static_cast<unsigned>(seed * 17 + rank)));
    }));
  }
  {
    Operator op(job, seed);
    for (int pauses = 1 + random() % 6; pauses > 0; --pauses) {
      op.Post({Command::kPause});
      if (random() % 2 == 0) {
        // A rank that has received it has left the previous pause.
        EXPECT_TRUE(Await([&] { return op.AllHeard() && AllPaused(job); }))
            << "not all ranks pause";
        ExpectThatAllStayAtOneStep(job);
      }
      Linger(random() % 3000);
      if (random() % 4 == 0) continue;  // no command between two pauses
      op.Post({});
      const uint64_t step = job.engine(0).step();
      EXPECT_TRUE(Await([&] { return AllHavePassed(job, step + 3); }))
          << "somebody does not go on";
    }
    op.Post({random() % 2 == 0 ? Command::kStop : Command::kDrain});
    EXPECT_TRUE(Await([&] {
      return std::all_of(ranks.begin(), ranks.end(), [](auto& rank) {
        return rank.wait_for(std::chrono::seconds(0)) ==
               std::future_status::ready;
      });
    })) << "somebody stayed behind";
  }
  for (auto& engine : job.engines()) {
    engine->Abort(absl::AbortedError("the test is over"));
  }
  const Verdicts first = ranks[0].get();
  for (int rank = 1; rank < kWorld; ++rank) {
    EXPECT_TRUE(ranks[rank].get() == first) << "ranks saw different verdicts";
    EXPECT_EQ(job.ending(rank), first.back().ending);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PauseHistories,
                         testing::Range(0, kUnderSanitizer ? 12 : 60));

// --- Single cases -----------------------------------------------------------

TEST(PauseTest, AnAbortReturnsTheCommittedVerdictAtOnce) {
  EngineJob job("data=1", kOne);
  Engine& engine = job.engine(0);
  engine.Receive(Word(1, {Command::kPause}));
  auto finished =
      std::async(std::launch::async, [&] { return FinishAndWait(engine); });
  ASSERT_TRUE(Await([&] { return engine.progress().paused; }));
  EXPECT_EQ(engine.progress().position,
            (protocol::Position{1, protocol::Phase::kIdle}));
  engine.Abort(absl::AbortedError("worker-1 died"));
  const protocol::EpochReport report = *engine.Report();
  const auto verdict = finished.get();
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_TRUE(verdict->committed);
  EXPECT_EQ(report.position.step, 1u);
  EXPECT_EQ(FinishAndWait(engine).status(),
            absl::AbortedError("worker-1 died"));
}

TEST(PauseTest, OneTakenBackWhileRanksEnterTheVerdictHoldsWhoHasNotHeard) {
  EngineJob job("data=2,alone=1", kAlone);
  const auto finish = [&job](int rank) {
    return std::async(std::launch::async,
                      [&job, rank] { return FinishAndWait(job.engine(rank)); });
  };
  for (auto& engine : job.engines())
    engine->Receive(Word(1, {Command::kPause}));
  auto first = finish(0);
  ASSERT_TRUE(Await([&job] {
    return job.engine(0).progress().position.phase == protocol::Phase::kVerdict;
  }));
  job.engine(0).Receive(Word(2, {}));  // its summary has been sent
  auto second = finish(1);
  ASSERT_TRUE(first.get().ok()) << "it has heard that the pause is over";
  ASSERT_TRUE(Await([&job] { return job.engine(1).progress().paused; }));
  EXPECT_EQ(job.engine(1).step(), job.engine(0).step());
  job.engine(1).Receive(Word(2, {}));
  EXPECT_TRUE(second.get().ok());
}

TEST(PauseTest, StepsInFlightOnAStreamWaitBehindIt) {
  EngineJob job("data=1", kOne);
  Engine& engine = job.engine(0);
  HostStream stream("test-stream");
  engine.Receive(Word(1, {Command::kPause}));
  std::vector<std::shared_ptr<PendingVerdict::State>> pending;
  for (int step = 0; step < 2; ++step) {
    auto finished = engine.Finish({}, kInfinity, &stream);
    ASSERT_TRUE(finished.ok());
    pending.push_back(*finished);
  }
  std::atomic<bool> got_there{false};
  stream.Enqueue([&got_there] {
    got_there = true;
    return absl::OkStatus();
  });
  ASSERT_TRUE(Await([&] { return engine.progress().paused; }));
  EXPECT_FALSE(got_there);
  EXPECT_EQ(engine.step(), 1u) << "the second has not begun";
  engine.Receive(Word(2, {}));
  ASSERT_TRUE(pending[1]->Wait().ok());
  EXPECT_TRUE(stream.Synchronize().ok());
  EXPECT_EQ(engine.step(), 2u);
}

TEST(PauseTest, TheTimeOfAPauseIsNotAStepsTime) {
  ManualClock clock;
  EngineJob job("data=1", kOne, {}, {}, Uneven::kStop, {.clock = &clock});
  Engine& engine = job.engine(0);
  ASSERT_TRUE(FinishAndWait(engine).ok());
  engine.progress();  // resets the mean
  engine.Receive(Word(1, {Command::kPause}));
  clock.Advance(absl::Seconds(2));
  auto finished =
      std::async(std::launch::async, [&] { return FinishAndWait(engine); });
  ASSERT_TRUE(Await([&] { return engine.progress().paused; }));
  clock.Advance(absl::Hours(1));
  engine.Receive(Word(2, {}));
  ASSERT_TRUE(finished.get().ok());
  clock.Advance(absl::Seconds(3));
  ASSERT_TRUE(FinishAndWait(engine).ok());
  EXPECT_EQ(engine.progress().step_seconds, 3);
}

// Other ranks may not have begun the steps that this rank has in flight.
TEST(StopTest, StepsInFlightBehindTheLastAreCancelledAndDoNotTravel) {
  EngineJob job("data=2", kOne);
  for (auto& engine : job.engines()) engine->Receive(Word(1, {Command::kStop}));
  HostStream stream("test-stream");
  const float gradient[] = {1, 2};
  std::vector<std::shared_ptr<PendingVerdict::State>> pending;
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(
        job.engine(0).Submit(0, gradient, sizeof gradient, &stream).ok());
    auto finished = job.engine(0).Finish({}, kInfinity, &stream);
    ASSERT_TRUE(finished.ok());
    pending.push_back(*finished);
  }
  const auto other = FinishAndWait(job.engine(1));
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->ending, Ending::kStop);
  const auto last = pending[0]->Wait();
  ASSERT_TRUE(last.ok());
  EXPECT_TRUE(last->IsLast());
  for (int step = 1; step < 3; ++step) {
    EXPECT_EQ(pending[step]->Wait().status().code(),
              absl::StatusCode::kCancelled);
    EXPECT_EQ(pending[step]->scalars()->commit, 0);
  }
  EXPECT_FALSE(stream.Synchronize().ok());
  EXPECT_TRUE(job.failure(0).ok()) << "nothing failed";
  EXPECT_EQ(job.ending(0), Ending::kStop);
}

}  // namespace
}  // namespace lockstep::gradient
