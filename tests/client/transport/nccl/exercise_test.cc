// Tests the exercise of tests/gpu/nccl itself: over the fake, with threads as
// ranks.

#include "tests/gpu/nccl/exercise.h"

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/gpu/nccl/gradient_exercise.h"
#include "tests/gpu/nccl/state_exercise.h"
#include "tests/support/fake_gpu.h"

namespace lockstep::gpu {
namespace {

// The ranks exchange one line each, round after round. Once a rank has failed,
// the lines of a round are empty.
class Rendezvous {
 public:
  explicit Rendezvous(int size) : lines_(size) {}

  std::vector<std::string> Report(int rank, const std::string& line) {
    MutexLock lock(&mutex_);
    lines_[rank] = line;
    const int round = round_;
    if (++come_ == static_cast<int>(lines_.size())) {
      told_ = lines_;
      come_ = 0;
      ++round_;
      all_.NotifyAll();
    }
    while (round_ == round && !failed_) all_.Wait(&mutex_);
    if (round_ == round) return std::vector<std::string>(lines_.size());
    return told_;
  }
  void Fail() {
    MutexLock lock(&mutex_);
    failed_ = true;
    all_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar all_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
  int come_ ABSL_GUARDED_BY(mutex_) = 0;
  int round_ ABSL_GUARDED_BY(mutex_) = 0;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
};

using Work =
    std::function<absl::Status(const transport::nccl::Tables&, const Place&)>;

// Returns what each rank returned. Where one fails, NCCL tells the others,
// which would wait for it.
std::vector<absl::Status> RunRanks(fake::FakeGpus* gpus, int size,
                                   const Work& work) {
  Rendezvous rendezvous(size);
  std::vector<absl::Status> results(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank, tables = gpus->TablesOf(rank)] {
      results[rank] =
          work(tables,
               {.rank = rank, .size = size, .exchange = [&](const auto& line) {
                  return rendezvous.Report(rank, line);
                }});
      if (results[rank].ok()) return;
      rendezvous.Fail();
      for (int other = 0; other < size; ++other) gpus->BreakNetworkOf(other);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

void OnRanks(int size, const Work& work) {
  fake::FakeGpus gpus({.seed = static_cast<uint64_t>(size)});
  const std::vector<absl::Status> results = RunRanks(&gpus, size, work);
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_TRUE(results[rank].ok())
        << "rank " << rank << " of " << size << ": " << results[rank];
  }
  EXPECT_THAT(gpus.violations(), testing::IsEmpty());
}

TEST(GpuExerciseTest, MovesEverything) {
  for (const int size : {1, 3}) OnRanks(size, MoveEverything);
}

TEST(GpuExerciseTest, MovesThroughWindows) {
  for (const int size : {1, 2}) {
    OnRanks(size, [](const auto& tables, const Place& place) {
      const auto reach = MoveThroughWindows(tables, place);
      EXPECT_EQ(reach.value_or("none"), "window");
      return reach.status();
    });
  }
}

TEST(GpuExerciseTest, ReplaysAGraph) {
  for (const int size : {1, 2}) OnRanks(size, ReplayAGraph);
}

TEST(GpuExerciseTest, SynchronisesGradients) {
  for (const int run_ahead : {0, 1, 2}) {
    for (const int size : {1, 2}) {
      OnRanks(size, [=](const auto& tables, const Place& place) {
        return SynchroniseGradients(tables, place,
                                    {.parameters = 6,
                                     .elements = 200,
                                     .bucket_bytes = 1 << 10,
                                     .run_ahead = run_ahead})
            .status();
      });
    }
  }
}

TEST(GpuExerciseTest, ReplaysGradients) {
  for (const int size : {1, 2}) {
    OnRanks(size, [](const auto& tables, const Place& place) {
      return SynchroniseGradients(tables, place,
                                  {.parameters = 6,
                                   .elements = 200,
                                   .bucket_bytes = 1 << 10,
                                   .replays = true})
          .status();
    });
  }
}

TEST(GpuExerciseTest, RecoversState) {
  for (const int size : {1, 2, 4}) OnRanks(size, RecoverState);
}

TEST(GpuExerciseTest, AbortsWhatIsWedged) {
  OnRanks(2, [](const auto& tables, const Place& place) {
    const auto took = AbortWhatIsWedged(tables, place, 5);
    if (!took.ok()) return took.status();
    EXPECT_EQ(took->size(), place.rank == 0 ? 5u : 0u);
    return absl::OkStatus();
  });
}

// Rank 1 leaves behind its first exchange, which connects; rank 0 is in an
// operation, or in an exchange, by then.
TEST(GpuExerciseTest, ARankThatFailsEndsTheOthers) {
  for (const Work& waits :
       {Work(MoveEverything), Work([](const auto&tables, const Place&place) {
          return AbortWhatIsWedged(tables, place, 1).status();
        })}) {
    fake::FakeGpus gpus;
    const auto results = RunRanks(
        &gpus, 2, [&](const auto& tables, const Place& place) -> absl::Status {
          if (place.rank == 0) return waits(tables, place);
          Place mine = place;
          bool first = true;
          mine.exchange = [&](const std::string& line) {
            return std::exchange(first, false) ? place.exchange(line)
                                               : std::vector<std::string>(2);
          };
          (void)AbortWhatIsWedged(tables, mine, 1);
          return absl::InternalError("the test says so");
        });
    EXPECT_EQ(results[1], absl::InternalError("the test says so"));
  }
}

}  // namespace
}  // namespace lockstep::gpu
