// Whole jobs that lose workers and go on: GradientSync, StateReplicas, the
// session and the real coordinator core, in one process. The state at the end
// is that of an uninterrupted job, bit for bit.

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/recovery.h"
#include "lockstep/state_replicas.h"
#include "tests/client/session/inproc_job_fixture.h"
#include "tests/support/sanitizers.h"

namespace lockstep::session {
namespace {

constexpr size_t kElements = 40;

// When a worker fails within a step.
enum class FaultPoint : uint8_t { kBeforeSubmit, kAfterSubmit, kAfterFinish };
struct Fault {
  int worker = 0;
  FaultPoint point = FaultPoint::kBeforeSubmit;
  bool dies = false;  // else it reports a failure, and lives
};

// The state of a training: all in whole numbers, so that sums are exact.
struct Training {
  std::array<double, kElements> w{};
  int64_t step = 0;
  int64_t draws = 0;  // changed within each step, as a random generator's state

  static double GradientOf(int rank, int64_t step, size_t i) {
    return static_cast<double>((rank + 1) * (step % 7 + 1)) +
           static_cast<double>(i);
  }
  void Update(absl::Span<const double> sums) {
    for (size_t i = 0; i < kElements; ++i) w[i] -= sums[i];
    step += 1;
  }
  bool operator==(const Training&) const = default;
};

class RecoveryJobTest : public InprocJobFixture,
                        public testing::WithParamInterface<int> {
 protected:
  RecoveryJobTest() {
    spec_.mesh = {{{"data", kWorld}}};
    spec_.limits.max_restarts = 1000;
  }

  static Training Uninterrupted(int64_t steps) {
    Training training;
    while (training.step < steps) {
      std::array<double, kElements> sums{};
      for (int rank = 0; rank < kWorld; ++rank) {
        for (size_t i = 0; i < kElements; ++i) {
          sums[i] += Training::GradientOf(rank, training.step, i);
        }
      }
      training.Update(sums);
      training.draws += 1;
    }
    return training;
  }

  // The fault of this worker in this step at this point, once.
  std::optional<Fault> TakeFault(int worker, int64_t step, FaultPoint point) {
    MutexLock lock(&mutex_);
    const auto found = faults_.find(step);
    if (found == faults_.end()) return std::nullopt;
    const Fault fault = found->second;
    if (fault.worker != worker || fault.point != point) return std::nullopt;
    faults_.erase(found);
    return fault;
  }

  // One worker: as in recovery.h. Its state is lost when it dies.
  void Work(int worker, int64_t steps) {
    Training training;
    std::optional<Recovery> recovered;
    while (training.step < steps) {
      JoinOptions options = OptionsOf(worker);
      options.recovered = recovered;
      Joined session = Join(options);
      ASSERT_TRUE(session.ok()) << session.status();
      recovered.reset();
      const bool lives =
          TrainInOneEpoch(worker, **session, steps, &training, &recovered);
      if (HasFatalFailure()) return;
      if (!lives) training = {};
      if (training.step == steps && !recovered) {
        EXPECT_EQ((*session)->Leave(), absl::OkStatus());
      }
    }
    MutexLock lock(&mutex_);
    results_[worker] = training;
  }

  // False if the worker died.
  bool TrainInOneEpoch(int worker, Session& session, int64_t steps,
                       Training* training, std::optional<Recovery>* recovered) {
    auto replicas = *StateReplicas::Create(session);
    EXPECT_TRUE(
        session
            .RegisterState(
                {.name = "w", .dtype = DType::kF64, .shape = {kElements}},
                training->w.data())
            .ok());
    EXPECT_TRUE(session.RegisterScalar("step", &training->step).ok());
    const auto draws = session.RegisterScalar("draws", &training->draws);
    EXPECT_TRUE(session.SetStepScoped(*draws).ok());
    auto sync = *GradientSync::Create(session);
    const ParameterId id = *sync->Register({.name = "w",
                                            .shape = {kElements},
                                            .dtype = DType::kF64,
                                            .op = ReduceOp::kSum});
    absl::Status ready = sync->Seal();
    if (ready.ok()) ready = replicas->Resume().status();
    while (ready.ok() && training->step < steps) {
      ready = Step(worker, session, *sync, id, training);
      if (absl::IsUnknown(ready)) return false;  // it dies
    }
    if (ready.ok()) return true;
    const absl::StatusOr<Recovery> recovery = session.Recover();
    EXPECT_TRUE(recovery.ok()) << recovery.status() << " after " << ready;
    if (!recovery.ok()) return false;
    if (recovery->verdict) training->Update(*sync->Gradient<double>(id));
    if (recovery->holds_state) {
      EXPECT_EQ(training->step, static_cast<int64_t>(recovery->steps));
    }
    kinds_[static_cast<size_t>(recovery->kind)] += 1;
    *recovered = *recovery;
    return true;
  }

  absl::Status Step(int worker, Session& session, GradientSync& sync,
                    ParameterId id, Training* training) {
    const int64_t step = training->step;
    training->draws += 1;
    const auto fail = [&](FaultPoint point) {
      const std::optional<Fault> fault = TakeFault(worker, step, point);
      if (!fault) return absl::OkStatus();
      if (fault->dies) return absl::UnknownError("it dies");
      session.ReportFailure("Test", absl::InternalError("injected"));
      return absl::InternalError("injected");
    };
    absl::Status status = fail(FaultPoint::kBeforeSubmit);
    if (!status.ok()) return status;
    const absl::Span<double> gradient = *sync.Gradient<double>(id);
    for (size_t i = 0; i < kElements; ++i) {
      gradient[i] = Training::GradientOf(session.rank(), step, i);
    }
    status = sync.Submit(id);
    if (status.ok()) status = fail(FaultPoint::kAfterSubmit);
    if (!status.ok()) return status;
    const auto verdict = sync.Finish({.samples = 1});
    if (!verdict.ok()) return verdict.status();
    training->Update(*sync.Gradient<double>(id));
    return fail(FaultPoint::kAfterFinish);
  }

  void RunJob(int64_t steps) {
    std::vector<std::thread> workers;
    for (int i = 0; i < kWorld; ++i) {
      workers.emplace_back([this, i, steps] { Work(i, steps); });
    }
    for (std::thread& worker : workers) worker.join();
    const Training expected = Uninterrupted(steps);
    EXPECT_EQ(results_.size(), static_cast<size_t>(kWorld));
    for (const auto& [worker, training] : results_) {
      EXPECT_TRUE(training == expected) << "worker " << worker;
    }
    // A rank that rolls a step forward does not come to the end of its Finish.
    for (const auto& [step, fault] : faults_) {
      EXPECT_EQ(fault.point, FaultPoint::kAfterFinish) << "step " << step;
    }
  }

  // The ranks that kept their state, by either kind: those that had not passed
  // the step before the fault when it came roll forward.
  int KeptBy(RecoveryKind one, RecoveryKind other) {
    return kinds_[static_cast<size_t>(one)] +
           kinds_[static_cast<size_t>(other)];
  }

  Mutex mutex_;
  std::map<int64_t, Fault> faults_;  // by step
  std::map<int, Training> results_;
  std::array<std::atomic<int>, 4> kinds_{};  // by RecoveryKind
};

TEST_F(RecoveryJobTest, AReplacementGetsTheStateAndTheStepIsReplayed) {
  faults_[3] = {2, FaultPoint::kBeforeSubmit, /*dies=*/true};
  RunJob(6);
  EXPECT_EQ(KeptBy(RecoveryKind::kReplay, RecoveryKind::kRollForward), 3);
}

TEST_F(RecoveryJobTest, AFailureOfALivingRankCostsNobodyItsState) {
  faults_[3] = {1, FaultPoint::kAfterSubmit, /*dies=*/false};
  RunJob(6);
  EXPECT_EQ(KeptBy(RecoveryKind::kReplay, RecoveryKind::kRollForward), 4);
}

// A rank that has just passed a verdict fails: others may wait for theirs.
TEST_F(RecoveryJobTest, RanksThatAreOneStepApartAgree) {
  constexpr int64_t kSteps = 40;
  for (int64_t step = 1; step < kSteps - 1; ++step) {
    faults_[step] = {static_cast<int>(step % kWorld), FaultPoint::kAfterFinish,
                     /*dies=*/false};
  }
  RunJob(kSteps);
  RecordProperty("roll_forwards",
                 kinds_[static_cast<size_t>(RecoveryKind::kRollForward)]);
}

// All that hold the state die before the newcomer has received it whole.
TEST_F(RecoveryJobTest, ANewcomerOfALostTrainingIsToldThatItMustStartAgain) {
  constexpr int64_t kSteps = 3;
  faults_[2] = {3, FaultPoint::kBeforeSubmit, /*dies=*/true};
  std::vector<std::thread> workers;
  for (int i = 0; i < kWorld; ++i) {
    workers.emplace_back([this, i] {
      Training training;
      std::optional<Recovery> recovered;
      {
        Joined first = Join(OptionsOf(i));
        ASSERT_TRUE(first.ok()) << first.status();
        TrainInOneEpoch(i, **first, kSteps, &training, &recovered);
        EXPECT_EQ(recovered.has_value(), i != 3);
      }
      JoinOptions options = OptionsOf(i);
      options.recovered = recovered;
      Joined second = Join(options);
      ASSERT_TRUE(second.ok()) << second.status();
      connected_.arrive_and_wait();
      if (i != 3) return;  // it dies
      EXPECT_FALSE((*second)->Connect().ok());
      const absl::Status status = (*second)->Recover().status();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(status.message()),
                  testing::AllOf(testing::HasSubstr("joined before step 2"),
                                 testing::HasSubstr("with step 0 again")));
    });
  }
  for (std::thread& worker : workers) worker.join();
}

TEST_P(RecoveryJobTest, AnyFaultsEndInTheSameState) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  constexpr int64_t kSteps = 16;
  for (int64_t step = 0; step < kSteps; ++step) {
    if (random() % 2 == 0) continue;
    faults_[step] = {static_cast<int>(random() % kWorld),
                     static_cast<FaultPoint>(random() % 3), random() % 2 == 0};
  }
  // After the last step nobody needs the others any more.
  if (faults_.count(kSteps - 1) > 0) {
    faults_[kSteps - 1].point = FaultPoint::kAfterSubmit;
  }
  RunJob(kSteps);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RecoveryJobTest,
                         testing::Range(0, kUnderSanitizer ? 3 : 8));

}  // namespace
}  // namespace lockstep::session
