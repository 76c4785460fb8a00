// Whole jobs with steps in flight that end by themselves, or by an operator.

#include "tests/client/gradient/run_ahead_job.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/support/failing_calls.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::session {
namespace {

// Buckets are cut again after the first step, while others are in flight.
TEST_P(RunAheadJobTest, BucketsMoveBetweenSteps) {
  std::atomic<int> moved{0};
  Epoch([&](int rank, RunAheadRank& program, ScaledModel& model) {
    int64_t steps = 0;
    bool has_moved = false;
    const int voids = program.TrainToTheEnd([&] {
      const auto views = static_cast<size_t>(kParameters * (run_ahead() + 1));
      if (!has_moved && program.views() > views) {
        has_moved = true;
        ++moved;
      }
      // All of them go on for a while, with the new buckets.
      const bool enough = moved == kWorld || steps > 20'000;
      return rank != 0 || !enough || ++steps % 5 != 0;
    });
    EXPECT_LE(voids, run_ahead());
    EXPECT_EQ(model, ScaledModel::After(model.step));
  });
  EXPECT_EQ(moved, kWorld);
}

TEST_P(RunAheadJobTest, PausesAndIsDrained) {
  std::atomic<int64_t> enqueued{0};
  std::thread operators([&] {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    const auto await = [&](const std::function<bool()>& condition) {
      while (!condition() && absl::Now() < deadline) std::this_thread::yield();
      EXPECT_TRUE(condition());
    };
    await([&] { return enqueued > 5; });
    EXPECT_EQ(job_.Ask(JobCommand::kPause), absl::OkStatus());
    await([&] {
      const auto workers = job_.Describe().workers;
      return std::all_of(workers.begin(), workers.end(),
                         [](const WorkerView& w) { return w.paused; });
    });
    const int64_t then = enqueued;
    absl::SleepFor(absl::Milliseconds(20));
    // What does not need the verdict at which they pause.
    EXPECT_LE(enqueued, then + kWorld * run_ahead());
    EXPECT_EQ(job_.Ask(JobCommand::kResume), absl::OkStatus());
    await([&] { return enqueued > then + 9; });
    EXPECT_EQ(job_.Ask(JobCommand::kDrain), absl::OkStatus());
  });
  std::vector<int64_t> steps(kWorld);
  Epoch([&](int rank, RunAheadRank& program, ScaledModel& model) {
    const int voids = program.TrainToTheEnd([&] {
      ++enqueued;
      return true;
    });
    EXPECT_EQ(voids, 0);
    EXPECT_EQ(model, ScaledModel::After(model.step));
    steps[rank] = model.step;
  });
  operators.join();
  EXPECT_EQ(steps, std::vector<int64_t>(kWorld, steps[0]));
}

TEST_P(RunAheadJobTest, StepsBehindTheLastBatchAreVoid) {
  Epoch([&](int rank, RunAheadRank& program, ScaledModel& model) {
    int64_t batches = 7 + 2 * rank;
    program.TrainToTheEnd([&] { return --batches > 0; });
    EXPECT_EQ(model, ScaledModel::After(7));
  });
}

// Memory for new buckets is taken, and events are recorded, once a test lets
// them.
class HeldCalls final : public fake::ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;

  Result Malloc(void** memory, size_t bytes) override {
    char thread[16] = "";
    pthread_getname_np(pthread_self(), thread, sizeof(thread));
    if (std::string(thread) == "ls-revise") {
      wants_memory_ = true;
      while (holds_memory_) absl::SleepFor(absl::Milliseconds(1));
    }
    return ForwardingCuda::Malloc(memory, bytes);
  }
  Result EventRecord(EventHandle event, StreamHandle stream) override {
    while (holds_records_) absl::SleepFor(absl::Milliseconds(1));
    return ForwardingCuda::EventRecord(event, stream);
  }
  bool wants_memory() const { return wants_memory_; }
  void GiveMemory() { holds_memory_ = false; }
  void HoldRecords(bool hold) { holds_records_ = hold; }

 private:
  std::atomic<bool> holds_records_{false};
  std::atomic<bool> wants_memory_{false};
  std::atomic<bool> holds_memory_{true};
};

class RunAheadVoidStepTest : public RunAheadJobTest {};

// A rank that has left hears nothing of a peer that fails behind the last step,
// and its device waits for the void step of that peer.
TEST_P(RunAheadVoidStepTest, ARankEndsWhosePeerLaunchesNone) {
  constexpr int kSteps = 5;
  job_.spec().mesh = {{{"data", 2}}};
  op_ = kOfAny;
  std::array<fake::FailingCalls, 2> calls;
  std::atomic<bool> fails{false};     // all calls of the first rank
  std::atomic<bool> has_left{false};  // the second one
  std::vector<std::thread> workers;
  for (int i = 0; i < 2; ++i) {
    workers.emplace_back([&, i] {
      auto tables = job_.TablesOf(i);
      calls[i].Decorate(&tables);
      const auto held = std::make_shared<HeldCalls>(tables.cuda);
      tables.cuda = held;
      auto session = job_.Join(i, tables);
      ASSERT_TRUE(session.ok()) << session.status();
      ScaledModel model;
      RunAheadRank program(&job_, tables, session->get(), &model, false);
      ASSERT_EQ(program.Begin(op_), absl::OkStatus());
      const bool is_first = (*session)->rank() == 0;
      absl::Status enqueued;
      for (int step = 0; enqueued.ok() && step < kSteps; ++step) {
        if (step == kSteps - 1) {
          // Buckets are cut again in the order of the first step.
          while (!held->wants_memory()) absl::SleepFor(absl::Milliseconds(1));
          if (is_first) program.StallUntil([&] { return fails.load(); });
        }
        enqueued = program.Enqueue(step + 1 < kSteps);
        if (program.is_full()) {
          ASSERT_TRUE(program.Await().ok());
        }
      }
      if (is_first) {
        calls[i].FailLastingly();
        calls[i].FailAt(1, /*captured=*/false);
        held->HoldRecords(true);
        fails = true;
        while (!has_left) absl::SleepFor(absl::Milliseconds(1));
        held->HoldRecords(false);
      }
      bool was_last = false;
      while (!program.is_idle()) {
        const auto verdict = program.Await();
        was_last |= verdict.ok() && verdict->IsLast();
      }
      EXPECT_TRUE(was_last);
      (void)(*session)->Leave();
      has_left = true;
      held->GiveMemory();
      absl::SleepFor(absl::Milliseconds(50));
      program.EndSync();
      calls[i].End();
    });
  }
  for (std::thread& worker : workers) worker.join();
}

INSTANTIATE_TEST_SUITE_P(Over, RunAheadJobTest,
                         testing::Combine(testing::Values(1, 2),
                                          testing::Values(1, 2)),
                         NameOfRunAhead);
INSTANTIATE_TEST_SUITE_P(Over, RunAheadVoidStepTest,
                         testing::Combine(testing::Values(1, 2),
                                          testing::Values(1)),
                         NameOfRunAhead);
}  // namespace
}  // namespace lockstep::session
