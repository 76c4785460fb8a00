// Whole jobs with steps in flight whose epochs end: workers die, fail, or join.

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/mutex.h"
#include "gtest/gtest.h"
#include "lockstep/state_replicas.h"
#include "tests/client/gradient/run_ahead_job.h"
#include "tests/support/failing_calls.h"

namespace lockstep::session {
namespace {

// Where in a step a worker dies, or fails and stays.
enum class Point { kBeforeIt, kBehindIt, kBehindAVerdict };
struct StepFault {
  int worker;
  Point point;
  bool dies;
};

class RunAheadRecoveryTest : public RunAheadJobTest {
 protected:
  // A worker's process, and those that replace it: until it has trained to the
  // end.
  ScaledModel Work(int worker) {
    auto model = std::make_unique<ScaledModel>();
    auto tables = job_.TablesOf(worker);
    calls_[worker].Decorate(&tables);
    std::optional<Recovery> recovered;
    while (model->step < steps_) {
      auto session = job_.Join(worker, tables, recovered);
      EXPECT_TRUE(session.ok()) << session.status();
      if (!session.ok()) break;
      const absl::Status lived =
          Live(worker, tables, **session, *model, &recovered);
      if (absl::IsUnknown(lived)) {
        session->reset();
        model = std::make_unique<ScaledModel>();
        recovered.reset();
      } else if (!lived.ok()) {
        ADD_FAILURE() << lived;
        break;
      }
    }
    return *model;
  }

  // One epoch of a worker. Unknown: it dies.
  absl::Status Live(int worker, const transport::nccl::Tables& tables,
                    Session& session, ScaledModel& model,
                    std::optional<Recovery>* recovered) {
    auto replicas = *StateReplicas::Create(session);
    absl::Status ready =
        session
            .RegisterState({.name = "w", .shape = {kParameters}},
                           model.weights.data())
            .status();
    ready.Update(session.RegisterScalar("step", &model.step).status());
    const auto draws = session.RegisterScalar("draws", &model.draws);
    ready.Update(session.SetStepScoped(*draws));
    LossScale& scale = model.loss_scale;
    ready.Update(session.RegisterScalar("scale", &scale.scale).status());
    ready.Update(
        session.RegisterScalar("scale_steps", &scale.steps_without_overflow)
            .status());
    if (!ready.ok()) return ready;

    RunAheadRank program(&job_, tables, &session, &model, is_captured());
    ready = program.Begin(op_);
    if (ready.ok()) ready = replicas->Resume().status();
    if (ready.ok()) ready = program.Restore();
    if (ready.ok()) ready = Train(worker, session, program, model);
    const bool failed_here = calls_[worker].End();
    if (ready.ok()) return session.Leave();
    if (absl::IsUnknown(ready)) return ready;
    // The epoch may go on without the call that failed.
    if (failed_here) session.ReportFailure("a call", ready);
    auto recovery = program.Recover();
    if (!recovery.ok()) return recovery.status();
    if (recovery->holds_state) {
      EXPECT_EQ(model,
                ScaledModel::After(static_cast<int64_t>(recovery->steps), op_));
    }
    *recovered = *recovery;
    return absl::OkStatus();
  }

  // Unknown: it dies.
  absl::Status Train(int worker, Session& session, RunAheadRank& program,
                     ScaledModel& model) {
    int64_t step = model.step;
    const auto fail = [&](Point point) {
      const auto fault = Take(worker, step, point);
      if (!fault) return absl::OkStatus();
      if (fault->dies) return absl::UnknownError("it dies");
      session.ReportFailure("Test", absl::InternalError("injected"));
      return absl::InternalError("injected");
    };
    absl::Status done;
    for (; done.ok() && step < steps_; ++step) {
      if (before_step_) before_step_(step);
      if (const int call = TakeCall(worker, step); call > 0) {
        calls_[worker].FailAt(call, /*captured=*/false);
      }
      done = fail(Point::kBeforeIt);
      if (done.ok()) done = program.Enqueue();
      if (done.ok()) done = fail(Point::kBehindIt);
      if (!done.ok() || !program.is_full()) continue;
      done = program.Await().status();
      if (done.ok()) done = fail(Point::kBehindAVerdict);
    }
    while (done.ok() && !program.is_idle()) done = program.Await().status();
    return done;
  }

  // An operator's commands, at any time.
  void Command(uint64_t seed, const std::atomic<bool>& is_over) {
    std::mt19937_64 random(seed);
    while (!is_over) {
      const auto command = static_cast<JobCommand>(1 + random() % 6);
      // Those that do not end the job.
      if (command != JobCommand::kStop && command != JobCommand::kDrain) {
        (void)job_.Ask(command);
      }
      absl::SleepFor(absl::Milliseconds(random() % 10));
      (void)job_.Ask(JobCommand::kResume);
      absl::SleepFor(absl::Milliseconds(random() % 10));
    }
  }

  std::optional<StepFault> Take(int worker, int64_t step, Point point) {
    MutexLock lock(&mutex_);
    const auto found = faults_.find(step);
    if (found == faults_.end()) return std::nullopt;
    const StepFault fault = found->second;
    if (fault.worker != worker || fault.point != point) return std::nullopt;
    faults_.erase(found);
    return fault;
  }

  // The call that fails from now on; 0: none.
  int TakeCall(int worker, int64_t step) {
    MutexLock lock(&mutex_);
    const auto found = failing_.find({worker, step});
    if (found == failing_.end()) return 0;
    const int call = found->second;
    failing_.erase(found);
    return call;
  }

  std::vector<ScaledModel> WorkAll() {
    std::vector<std::thread> workers;
    std::vector<ScaledModel> models(kWorld);
    for (int i = 0; i < kWorld; ++i) {
      workers.emplace_back([this, i, &models] { models[i] = Work(i); });
    }
    for (std::thread& worker : workers) worker.join();
    return models;
  }

  int64_t steps_ = 12;
  std::function<void(int64_t step)> before_step_;
  Mutex mutex_;
  std::map<int64_t, StepFault> faults_;  // by step, each once
  std::array<fake::FailingCalls, 4> calls_;
  std::map<std::pair<int, int64_t>, int> failing_;  // by worker and step
};

TEST_P(RunAheadRecoveryTest, AnyFaultsAndCommandsEndInTheSameState) {
  std::mt19937 random(static_cast<unsigned>(std::get<1>(GetParam())));
  std::atomic<bool> is_over{false};
  std::thread operators([&, seed = random()] { Command(seed, is_over); });
  for (int64_t step = 1; step < steps_ - 1; ++step) {
    if (random() % 3 != 0) continue;
    faults_[step] = {static_cast<int>(random() % kWorld),
                     static_cast<Point>(random() % 3), random() % 3 == 0};
  }
  const std::vector<ScaledModel> models = WorkAll();
  is_over = true;
  operators.join();
  EXPECT_EQ(models,
            std::vector<ScaledModel>(kWorld, ScaledModel::After(steps_)));
}

// Calls of CUDA fail, early or late, and the devices go on.
TEST_P(RunAheadRecoveryTest, AnyCallsThatFailEndInTheSameState) {
  std::mt19937 random(static_cast<unsigned>(std::get<1>(GetParam())));
  steps_ = 30;
  for (fake::FailingCalls& calls : calls_) {
    if (random() % 2 == 0) calls.FailLate();
  }
  for (int64_t step = 1; step < steps_ - 1; ++step) {
    const int worker = static_cast<int>(random() % kWorld);
    if (random() % 2 == 0) {
      failing_[{worker, step}] = 1 + static_cast<int>(random() % 60);
    }
  }
  EXPECT_EQ(WorkAll(),
            std::vector<ScaledModel>(kWorld, ScaledModel::After(steps_)));
}

class RunAheadGrowthTest : public RunAheadRecoveryTest {};

// Two workers begin, and two more join them.
TEST_P(RunAheadGrowthTest, AJobGrowsBehindTheStepsInFlight) {
  constexpr int kLargest = 4;
  op_ = kOfAny;
  steps_ = 30;
  job_.spec().mesh = {{{"data", kLargest}}};
  job_.spec().elastic = {.axis = "data", .min_workers = 2};
  job_.spec().timeouts.join = absl::Milliseconds(500);
  const auto await = [this](const std::function<bool(const JobView&)>& is) {
    for (const absl::Time end = absl::Now() + absl::Seconds(30);
         absl::Now() < end;) {
      const auto view = job_.server().Describe("job");
      if (view.ok() && is(*view)) return;
      absl::SleepFor(absl::Milliseconds(1));
    }
    ADD_FAILURE() << "waited for 30 s";
  };
  before_step_ = [&](int64_t step) {
    // From then on it takes its time, so that growth comes before the end.
    if (step > 9) absl::SleepFor(absl::Milliseconds(5));
    if (step != 9) return;
    await([](const JobView& view) { return view.workers.size() == kLargest; });
  };
  std::vector<std::thread> workers;
  std::vector<ScaledModel> models(kLargest);
  for (int i = 0; i < kLargest; ++i) {
    workers.emplace_back([&, i] {
      if (i >= 2) await([](const JobView& view) { return view.step >= 2; });
      models[i] = Work(i);
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(models, std::vector<ScaledModel>(
                        kLargest, ScaledModel::After(steps_, kOfAny)));
  EXPECT_GE(job_.Describe().epoch, EpochId{2});
}

INSTANTIATE_TEST_SUITE_P(Seeds, RunAheadRecoveryTest,
                         testing::Combine(testing::Values(0, 1, 2),
                                          testing::Range(0, 4)),
                         NameOfRunAhead);
INSTANTIATE_TEST_SUITE_P(Over, RunAheadGrowthTest,
                         testing::Combine(testing::Values(0, 1, 2),
                                          testing::Values(1, 2)),
                         NameOfRunAhead);

}  // namespace
}  // namespace lockstep::session
