// Whole elastic jobs that shrink, grow and use spares: GradientSync,
// StateReplicas, the session and the real coordinator core, in one process. The
// state at the end is that of an uninterrupted job, bit for bit: all values are
// whole numbers, and a step has the same samples with any number of ranks.

#include <algorithm>
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

#include "absl/strings/match.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/recovery.h"
#include "lockstep/samples.h"
#include "lockstep/state_replicas.h"
#include "tests/client/session/inproc_job_fixture.h"
#include "tests/support/sanitizers.h"

namespace lockstep::session {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr size_t kWeights = 12;
constexpr SampleStream kSamples{
    .seed = 7, .dataset_size = 1000, .global_batch = 24};

// A worker dies before it submits this step, or a later one, and comes again,
// without its state, once any worker has done `back` steps.
struct Outage {
  int worker = 0;
  int64_t step = 0;
  int64_t back = kNever;
  // It dies behind a step with which the job grows, before it recovers.
  bool at_growth = false;
  static constexpr int64_t kNever = -1;
};

struct ElasticTraining {
  std::array<double, kWeights> w{};
  int64_t step = 0;

  // `model`: the coordinate in the axis of that name, whose ranks have
  // different weights.
  static double GradientOf(int64_t sample, int model, size_t i) {
    return static_cast<double>(sample) + static_cast<double>(i) + 1000 * model;
  }
  void Update(absl::Span<const double> sums) {
    for (size_t i = 0; i < kWeights; ++i) w[i] -= sums[i];
    step += 1;
  }
  bool operator==(const ElasticTraining&) const = default;
};

class ElasticTrainingTest : public InprocJobFixture,
                            public testing::WithParamInterface<int> {
 protected:
  ElasticTrainingTest() {
    spec_.mesh = {{{"data", kWorld}}};
    spec_.elastic.axis = "data";
    spec_.limits.max_restarts = 1000;
  }

  static ElasticTraining NeverInterrupted(int model, int64_t steps) {
    ElasticTraining training;
    while (training.step < steps) {
      std::array<double, kWeights> sums{};
      for (const int64_t sample : SamplesOfStep(kSamples, training.step)) {
        for (size_t i = 0; i < kWeights; ++i) {
          sums[i] += ElasticTraining::GradientOf(sample, model, i);
        }
      }
      training.Update(sums);
    }
    return training;
  }

  static int Coordinate(const Session& session, const std::string& axis) {
    const int index = session.mesh().AxisIndex(axis);
    if (index < 0) return 0;
    return session.mesh().CoordinatesOf(
        session.rank())[static_cast<size_t>(index)];
  }

  // Weights that are cut over an axis have no other holder in one replica: with
  // them no worker dies before the job has all its replicas, and all of these
  // have the state, as the first step of an epoch shows.
  std::optional<Outage> TakeOutage(const Session& session, int worker,
                                   int64_t step, bool is_first) {
    const bool is_cut = session.mesh().AxisIndex("model") >= 0;
    if (is_cut && (is_first || session.world_size() < kWorld)) {
      return std::nullopt;
    }
    return TakeDue(worker, step, /*at_growth=*/false);
  }

  std::optional<Outage> TakeDue(int worker, int64_t step, bool at_growth) {
    MutexLock lock(&mutex_);
    if (one_a_step_ && step <= last_outage_) return std::nullopt;
    const auto due = std::find_if(
        outages_.begin(), outages_.end(), [&](const Outage& outage) {
          return outage.worker == worker && outage.step <= step &&
                 outage.at_growth == at_growth;
        });
    if (due == outages_.end()) return std::nullopt;
    const Outage outage = *due;
    outages_.erase(due);
    last_outage_ = step;
    return outage;
  }

  // One worker: as in recovery.h.
  void Work(int worker, int64_t steps) {
    ElasticTraining training;
    std::optional<Recovery> recovered;
    while (training.step < steps) {
      JoinOptions options = OptionsOf(worker);
      options.recovered = std::exchange(recovered, std::nullopt);
      Joined session = Join(options);
      if (!session.ok()) return End(worker, session.status());
      const std::optional<Outage> outage =
          TrainInOneEpoch(worker, **session, steps, &training, &recovered);
      if (outage) {
        session->reset();
        if (outage->back == Outage::kNever) return;
        while (furthest_ < outage->back) absl::SleepFor(absl::Milliseconds(1));
        training = {};
      } else if (training.step == steps) {
        const int model = Coordinate(**session, "model");
        const absl::Status left = (*session)->Leave();
        EXPECT_TRUE(training == NeverInterrupted(model, steps)) << worker;
        return End(worker, left);
      }
    }
  }

  void End(int worker, absl::Status status) {
    MutexLock lock(&mutex_);
    ends_[worker] = std::move(status);
  }

  std::optional<Outage> TrainInOneEpoch(int worker, Session& session,
                                        int64_t steps,
                                        ElasticTraining* training,
                                        std::optional<Recovery>* recovered) {
    auto replicas = *StateReplicas::Create(session);
    StateSpec weights{.name = "w", .dtype = DType::kF64, .shape = {kWeights}};
    if (session.mesh().AxisIndex("model") >= 0) {
      weights.cuts = {{.dim = 0, .axes = {"model"}}};
    }
    EXPECT_TRUE(session.RegisterState(weights, training->w.data()).ok());
    EXPECT_TRUE(session.RegisterScalar("step", &training->step).ok());
    auto sync = *GradientSync::Create(session);
    const ParameterId id = *sync->Register({.name = "w",
                                            .shape = {kWeights},
                                            .dtype = DType::kF64,
                                            .op = ReduceOp::kSum,
                                            .axes = {"data"}});
    absl::Status ready = sync->Seal();
    if (ready.ok()) ready = replicas->Resume().status();
    if (ready.ok() && session.rank() == 0) {
      MutexLock lock(&mutex_);
      worlds_.push_back(session.world_size());
    }
    const int64_t first = training->step;
    while (ready.ok() && training->step < steps) {
      auto outage =
          TakeOutage(session, worker, training->step, training->step == first);
      if (outage) return outage;
      ready = Step(session, *sync, id, training);
    }
    if (ready.ok()) return std::nullopt;
    if (absl::StrContains(ready.message(), "the job grows")) {
      auto outage = TakeDue(worker, training->step, /*at_growth=*/true);
      if (outage) return outage;
    }
    const absl::StatusOr<Recovery> recovery = session.Recover();
    EXPECT_TRUE(recovery.ok()) << recovery.status() << " after " << ready;
    if (!recovery.ok()) return Outage{worker};
    if (recovery->verdict) training->Update(*sync->Gradient<double>(id));
    *recovered = *recovery;
    return std::nullopt;
  }

  absl::Status Step(Session& session, GradientSync& sync, ParameterId id,
                    ElasticTraining* training) {
    // Newcomers may come.
    if (session.world_size() < spec_.mesh.WorldSize()) {
      absl::SleepFor(absl::Milliseconds(3));
    } else if (spec_.limits.spares > 0) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    const int replicas = session.mesh().axes[0].size;
    const int replica = Coordinate(session, "data");
    const int model = Coordinate(session, "model");
    const absl::Span<double> gradient = *sync.Gradient<double>(id);
    std::fill(gradient.begin(), gradient.end(), 0.0);
    for (const int64_t sample :
         ShareOfStep(kSamples, training->step, replica, replicas)) {
      for (size_t i = 0; i < kWeights; ++i) {
        gradient[i] += ElasticTraining::GradientOf(sample, model, i);
      }
    }
    if (session.spec().sync == SyncMode::kNegotiated) {
      absl::Status begun = sync.BeginPass({id});
      if (!begun.ok()) return begun;
    }
    if (absl::Status submitted = sync.Submit(id); !submitted.ok()) {
      return submitted;
    }
    const auto verdict = sync.Finish({.samples = 1});
    if (!verdict.ok()) return verdict.status();
    training->Update(*sync.Gradient<double>(id));
    if (verdict->Grows()) ++growths_;
    int64_t done = furthest_;
    while (done < training->step &&
           !furthest_.compare_exchange_weak(done, training->step)) {
    }
    return absl::OkStatus();
  }

  void RunJob(int64_t steps) {
    const int workers = spec_.mesh.WorldSize() + spec_.limits.spares;
    std::vector<std::thread> threads;
    for (int i = 0; i < workers; ++i) {
      const bool is_spare = i >= spec_.mesh.WorldSize();
      threads.emplace_back([this, i, steps, is_spare] {
        while (is_spare && furthest_ < 1) absl::SleepFor(absl::Milliseconds(1));
        Work(i, steps);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Expects that so many workers did all steps.
  void ExpectFinished(int count) {
    const auto finished =
        std::count_if(ends_.begin(), ends_.end(),
                      [](const auto& end) { return end.second.ok(); });
    EXPECT_EQ(finished, count);
  }

  Mutex mutex_;
  std::vector<Outage> outages_;
  // A job gives up when one step fails three times, and several may be due
  // where a worker comes back late.
  bool one_a_step_ = false;
  int64_t last_outage_ = -1;          // the step of the newest
  std::map<int, absl::Status> ends_;  // of those that did not die for good
  std::vector<int> worlds_;           // of the epochs, in order
  std::atomic<int64_t> furthest_ = 0;
  std::atomic<int> growths_ = 0;  // verdicts with which the job grows, by ranks
};

TEST_F(ElasticTrainingTest, ALostWorkerIsNotReplaced) {
  outages_ = {{.worker = 2, .step = 3}};
  RunJob(10);
  EXPECT_THAT(worlds_, ElementsAre(4, 3));
  ExpectFinished(3);
}

TEST_F(ElasticTrainingTest, NorAreTwo) {
  outages_ = {{.worker = 0, .step = 3}, {.worker = 3, .step = 3}};
  RunJob(10);
  EXPECT_EQ(worlds_.back(), 2);
  ExpectFinished(2);
}

TEST_F(ElasticTrainingTest, OneWorkerIsAJob) {
  outages_ = {{.worker = 0, .step = 2},
              {.worker = 1, .step = 5},
              {.worker = 3, .step = 8}};
  RunJob(12);
  EXPECT_THAT(worlds_, ElementsAre(4, 3, 2, 1));
  ExpectFinished(1);
}

TEST_F(ElasticTrainingTest, GrowsAtTheEndOfOneStepOfAllRanks) {
  outages_ = {{.worker = 2, .step = 3, .back = 8}};
  RunJob(500);
  EXPECT_THAT(worlds_, ElementsAre(4, 3, 4));
  EXPECT_GE(growths_, 1);
  ExpectFinished(4);
}

TEST_F(ElasticTrainingTest, GrowsInNegotiatedMode) {
  spec_.sync = SyncMode::kNegotiated;
  outages_ = {{.worker = 1, .step = 3, .back = 8}};
  RunJob(500);
  EXPECT_THAT(worlds_, ElementsAre(4, 3, 4));
  ExpectFinished(4);
}

TEST_F(ElasticTrainingTest, ANewcomerDiesInTheEpochThatItHasMadeLarger) {
  outages_ = {{.worker = 2, .step = 3, .back = 8},
              {.worker = 2, .step = 9, .back = 9}};
  RunJob(1500);
  EXPECT_TRUE(outages_.empty());
  EXPECT_EQ(worlds_.back(), 4);
  ExpectFinished(4);
}

TEST_F(ElasticTrainingTest, ASurvivorDiesAsTheJobGrows) {
  outages_ = {{.worker = 2, .step = 3, .back = 8},
              {.worker = 1, .step = 8, .back = 20, .at_growth = true}};
  RunJob(1500);
  EXPECT_TRUE(outages_.empty());
  EXPECT_EQ(worlds_.back(), 4);
  ExpectFinished(4);
}

TEST_F(ElasticTrainingTest, BelowTheLeastItWaitsForAReplacement) {
  spec_.elastic.min_workers = 4;
  outages_ = {{.worker = 2, .step = 3, .back = 3}};
  RunJob(10);
  EXPECT_THAT(worlds_, ElementsAre(4, 4));
  ExpectFinished(4);
}

// The survivor of the broken replica waits, and is needed once the other comes.
TEST_F(ElasticTrainingTest, ReplicasOfTwoShardsBreakAndMend) {
  spec_.mesh = {{{"data", 2}, {"model", 2}}};
  outages_ = {{.worker = 2, .step = 3, .back = 8}};
  RunJob(500);
  EXPECT_THAT(worlds_, ElementsAre(4, 2, 4));
  ExpectFinished(4);
}

TEST_F(ElasticTrainingTest, ASurvivorOfABrokenReplicaIsNotNeededAtTheEnd) {
  spec_.mesh = {{{"data", 2}, {"model", 2}}};
  outages_ = {{.worker = 2, .step = 3}};
  RunJob(30);
  EXPECT_THAT(worlds_, ElementsAre(4, 2));
  ExpectFinished(2);
  ASSERT_THAT(ends_, SizeIs(3));
  EXPECT_TRUE(absl::IsCancelled(ends_.at(3))) << ends_.at(3);
}

TEST_F(ElasticTrainingTest, ASpareTakesTheRankOfALostWorker) {
  spec_.elastic = {};
  spec_.limits.spares = 1;
  outages_ = {{.worker = 1, .step = 8}};
  RunJob(200);
  EXPECT_THAT(worlds_, ElementsAre(4, 4));
  ExpectFinished(4);
}

TEST_F(ElasticTrainingTest, ASpareThatWasNotNeededIsTold) {
  spec_.elastic = {};
  spec_.limits.spares = 1;
  RunJob(100);
  ExpectFinished(4);
  ASSERT_THAT(ends_, SizeIs(5));
  EXPECT_TRUE(absl::IsCancelled(ends_.at(kWorld))) << ends_.at(kWorld);
}

TEST_P(ElasticTrainingTest, AnyOutagesEndInTheSameState) {
  one_a_step_ = true;
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  if (GetParam() % 2 == 0) spec_.mesh = {{{"data", 2}, {"model", 2}}};
  spec_.elastic.wait = absl::Milliseconds(random() % 20);
  int64_t step = 1;
  while (step < 50) {
    // One that is lost is back before the next is, so that some have the state.
    const auto worker = static_cast<int>(random() % kWorld);
    const int64_t back = step + static_cast<int64_t>(random() % 4);
    outages_.push_back({.worker = worker, .step = step, .back = back});
    step = back + 1 + static_cast<int64_t>(random() % 6);
  }
  RunJob(80);
  for (const auto& [worker, end] : ends_) {
    EXPECT_TRUE(end.ok() || absl::IsCancelled(end) ||
                absl::IsFailedPrecondition(end))
        << worker << ": " << end;
  }
  EXPECT_EQ(furthest_, 80);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ElasticTrainingTest,
                         testing::Range(0, kUnderSanitizer ? 4 : 20));

}  // namespace
}  // namespace lockstep::session
