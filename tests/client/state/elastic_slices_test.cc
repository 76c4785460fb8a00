// Elastic jobs with sync: reduce_scatter: each rank has a slice of the state,
// which another number of ranks cuts in another way. They go on from a
// checkpoint.

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/checkpointer.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/recovery.h"
#include "lockstep/samples.h"
#include "lockstep/state_replicas.h"
#include "tests/client/session/inproc_job_fixture.h"

namespace lockstep::session {
namespace {

using testing::HasSubstr;

constexpr size_t kValues = 30;  // no multiple of four ranks
constexpr SampleStream kSliceSamples{
    .seed = 3, .dataset_size = 500, .global_batch = 24};
constexpr int64_t kSaveEvery = 3;

// Where an epoch's state came from.
struct Beginning {
  int world = 0;
  StateOrigin origin = StateOrigin::kInitial;
  int64_t step = 0;
};

class ElasticSlicesTest : public InprocJobFixture {
 protected:
  ElasticSlicesTest()
      : directory_(testing::TempDir() + "elastic_slices." +
                   std::to_string(getpid())) {
    std::filesystem::remove_all(directory_);
    spec_.mesh = {{{"data", kWorld}}};
    spec_.sync = SyncMode::kReduceScatter;
    spec_.elastic.axis = "data";
    spec_.limits.max_restarts = 100;
  }
  ~ElasticSlicesTest() override { std::filesystem::remove_all(directory_); }

  static float GradientOf(int64_t sample, size_t i) {
    return static_cast<float>(sample % 11 + static_cast<int64_t>(i));
  }
  static std::vector<float> ValuesAfter(int64_t steps) {
    std::vector<float> values(kValues);
    for (int64_t step = 0; step < steps; ++step) {
      for (const int64_t sample : SamplesOfStep(kSliceSamples, step)) {
        for (size_t i = 0; i < kValues; ++i) values[i] -= GradientOf(sample, i);
      }
    }
    return values;
  }

  // One epoch of one worker.
  struct Rank {
    Session& session;
    std::unique_ptr<GradientSync> sync;
    ParameterId id;
    std::unique_ptr<AsyncCheckpointer> checkpoints;
    int64_t& step;

    absl::Status Gather() {
      const absl::Status begun = sync->GatherParameters();
      return begun.ok() ? sync->AwaitParameter(id) : begun;
    }
    void Update() {
      const ParameterSlice slice = *sync->Slice(id);
      const auto value = *sync->Value<float>(id);
      const auto gradient = *sync->Gradient<float>(id);
      for (size_t i = slice.offset; i < slice.offset + slice.count; ++i) {
        value[i] -= gradient[i];
      }
      step += 1;
    }
    absl::Status Step() {
      if (absl::Status gathered = Gather(); !gathered.ok()) return gathered;
      const auto gradient = *sync->Gradient<float>(id);
      std::fill(gradient.begin(), gradient.end(), 0.0f);
      for (const int64_t sample : ShareOfStep(
               kSliceSamples, step, session.rank(), session.world_size())) {
        for (size_t i = 0; i < kValues; ++i) {
          gradient[i] += GradientOf(sample, i);
        }
      }
      absl::Status submitted = sync->Submit(id);
      if (!submitted.ok()) return submitted;
      const auto verdict = sync->Finish({.samples = 1});
      if (!verdict.ok()) return verdict.status();
      Update();
      if (checkpoints == nullptr || step % kSaveEvery != 0) {
        return absl::OkStatus();
      }
      const absl::Status saved = checkpoints->Save({.step = step});
      return saved.ok() ? checkpoints->Wait() : saved;
    }
  };

  absl::StatusOr<Rank> Begin(Session& session, int64_t& step) {
    auto sync = GradientSync::Create(session);
    if (!sync.ok()) return sync.status();
    const auto id = (*sync)->Register({.name = "w",
                                       .shape = {static_cast<int64_t>(kValues)},
                                       .op = ReduceOp::kSum});
    if (!id.ok()) return id.status();
    absl::Status ready = (*sync)->RegisterState(*id, {});
    auto replicas = StateReplicas::Create(session);
    if (ready.ok()) ready = replicas.status();
    if (ready.ok()) ready = (*sync)->Seal();
    if (!ready.ok()) return ready;
    Rank rank{session, *std::move(sync), *id, nullptr, step};
    if (saves_) {
      auto made = AsyncCheckpointer::Create(session, {.directory = directory_});
      if (!made.ok()) return made.status();
      rank.checkpoints = *std::move(made);
    }
    const auto resumed = (*replicas)->Resume(rank.checkpoints.get());
    if (!resumed.ok()) return resumed.status();
    if (resumed->training) step = resumed->training->step;
    if (session.rank() == 0) {
      MutexLock lock(&mutex_);
      beginnings_.push_back({session.world_size(), resumed->origin, step});
    }
    return rank;
  }

  // Until rank 0 has resumed, too: an epoch that ends before has no beginning.
  void AwaitBeginning() {
    for (;; absl::SleepFor(absl::Milliseconds(1))) {
      MutexLock lock(&mutex_);
      if (!beginnings_.empty()) return;
    }
  }

  // Worker 2 dies before its step death_, and comes again once the others have
  // done `back` steps; never if that is negative.
  absl::Status Work(int worker, int64_t steps, int64_t back) {
    int64_t step = 0;
    bool may_die = worker == 2;
    std::optional<Recovery> recovered;
    for (;;) {
      JoinOptions options = OptionsOf(worker);
      options.recovered = std::exchange(recovered, std::nullopt);
      Joined session = Join(options);
      if (!session.ok()) return session.status();
      auto rank = Begin(**session, step);
      absl::Status trained = rank.status();
      const bool is_smaller = (*session)->world_size() < kWorld;
      while (trained.ok() && step < steps) {
        if (may_die && step == death_) {
          AwaitBeginning();
          break;
        }
        if (is_smaller) absl::SleepFor(absl::Milliseconds(5));
        trained = rank->Step();
        if (is_smaller) furthest_ = std::max<int64_t>(furthest_, step);
      }
      if (trained.ok() && step == steps) {
        const absl::Status gathered = rank->Gather();
        EXPECT_EQ(gathered, absl::OkStatus());
        const auto value = *rank->sync->Value<float>(rank->id);
        EXPECT_EQ(std::vector<float>(value.begin(), value.end()),
                  ValuesAfter(steps))
            << "worker " << worker;
        rank->checkpoints.reset();
        return (*session)->Leave();
      }
      if (trained.ok()) {  // it dies
        may_die = false;
        step = 0;
        rank->checkpoints.reset();
        rank->sync.reset();
        session->reset();
        if (back < 0) return absl::OkStatus();
        while (furthest_ < back) absl::SleepFor(absl::Milliseconds(1));
        continue;
      }
      if (absl::IsFailedPrecondition(trained)) {
        // One that leaves ends the epoch of those that have not resumed yet.
        ++hopeless_;
        while (hopeless_ < kWorld - 1) absl::SleepFor(absl::Milliseconds(1));
        return trained;
      }
      const auto recovery = (*session)->Recover();
      if (!recovery.ok()) return recovery.status();
      if (recovery->verdict) rank->Update();
      recovered = *recovery;
    }
  }

  std::vector<absl::Status> RunJob(int64_t steps, int64_t back) {
    std::vector<std::future<absl::Status>> workers;
    for (int i = 0; i < kWorld; ++i) {
      workers.push_back(std::async(std::launch::async, [this, i, steps, back] {
        return Work(i, steps, back);
      }));
    }
    std::vector<absl::Status> ends;
    for (auto& worker : workers) ends.push_back(worker.get());
    return ends;
  }

  const std::string directory_;
  bool saves_ = true;
  int64_t death_ = 5;
  std::atomic<int64_t> furthest_ = 0;  // of an epoch without all ranks
  std::atomic<int> hopeless_ = 0;      // survivors without any state
  Mutex mutex_;
  std::vector<Beginning> beginnings_;  // of rank 0's epochs
};

TEST_F(ElasticSlicesTest, AShrunkenJobGoesOnFromTheNewestCheckpoint) {
  for (const absl::Status& end : RunJob(10, /*back=*/-1)) {
    EXPECT_EQ(end, absl::OkStatus());
  }
  ASSERT_EQ(beginnings_.size(), 2u);
  EXPECT_EQ(beginnings_[1].world, 3);
  EXPECT_EQ(beginnings_[1].origin, StateOrigin::kCheckpoint);
  EXPECT_EQ(beginnings_[1].step, 3);
}

TEST_F(ElasticSlicesTest, SoDoesOneThatGrows) {
  for (const absl::Status& end : RunJob(400, /*back=*/8)) {
    EXPECT_EQ(end, absl::OkStatus());
  }
  ASSERT_EQ(beginnings_.size(), 3u);
  EXPECT_EQ(beginnings_[1].world, 3);
  EXPECT_EQ(beginnings_[2].world, 4);
  EXPECT_EQ(beginnings_[2].origin, StateOrigin::kCheckpoint);
  EXPECT_EQ(beginnings_[2].step % kSaveEvery, 0);
  EXPECT_GE(beginnings_[2].step, 6);
}

TEST_F(ElasticSlicesTest, BeforeTheFirstStepThereIsNoStateToLose) {
  saves_ = false;
  death_ = 0;
  for (const absl::Status& end : RunJob(10, /*back=*/-1)) {
    EXPECT_EQ(end, absl::OkStatus());
  }
  ASSERT_EQ(beginnings_.size(), 2u);
  EXPECT_EQ(beginnings_[1].world, 3);
  EXPECT_EQ(beginnings_[1].origin, StateOrigin::kInitial);
}

TEST_F(ElasticSlicesTest, WithoutACheckpointTheStateIsLost) {
  saves_ = false;
  const std::vector<absl::Status> ends = RunJob(10, /*back=*/-1);
  for (const int survivor : {0, 1, 3}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(ends[survivor])) << ends[survivor];
    EXPECT_THAT(std::string(ends[survivor].message()),
                HasSubstr("there is no checkpoint"));
  }
}

}  // namespace
}  // namespace lockstep::session
