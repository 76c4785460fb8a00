// Tests the exercise of tests/gpu/nccl itself: over the fake, with threads as
// ranks.

#include "tests/gpu/nccl/exercise.h"

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/gpu/nccl/gradient_exercise.h"
#include "tests/gpu/nccl/state_exercise.h"
#include "tests/support/fake_gpu.h"

namespace lockstep::gpu {
namespace {

// The ranks exchange one line each, round after round.
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
    while (round_ == round) all_.Wait(&mutex_);
    return told_;
  }

 private:
  Mutex mutex_;
  CondVar all_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
  int come_ ABSL_GUARDED_BY(mutex_) = 0;
  int round_ ABSL_GUARDED_BY(mutex_) = 0;
};

void OnRanks(int size, const std::function<void(const transport::nccl::Tables&,
                                                const Place&)>& work) {
  fake::FakeGpus gpus({.seed = static_cast<uint64_t>(size)});
  Rendezvous rendezvous(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank, tables = gpus.TablesOf(rank)] {
      work(tables, {.rank = rank,
                    .size = size,
                    .exchange = [&, rank](const std::string& line) {
                      return rendezvous.Report(rank, line);
                    }});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(gpus.violations(), testing::IsEmpty());
}

TEST(GpuExerciseTest, MovesEverything) {
  for (const int size : {1, 3}) {
    OnRanks(size, [](const auto& tables, const Place& place) {
      const absl::Status moved = MoveEverything(tables, place);
      EXPECT_TRUE(moved.ok()) << moved;
    });
  }
}

TEST(GpuExerciseTest, MovesThroughWindows) {
  for (const int size : {1, 2}) {
    OnRanks(size, [](const auto& tables, const Place& place) {
      const auto reach = MoveThroughWindows(tables, place);
      ASSERT_TRUE(reach.ok()) << reach.status();
      EXPECT_EQ(*reach, "window");
    });
  }
}

TEST(GpuExerciseTest, ReplaysAGraph) {
  for (const int size : {1, 2}) {
    OnRanks(size, [](const auto& tables, const Place& place) {
      const absl::Status replayed = ReplayAGraph(tables, place);
      EXPECT_TRUE(replayed.ok()) << replayed;
    });
  }
}

TEST(GpuExerciseTest, SynchronisesGradients) {
  for (const int size : {1, 2}) {
    OnRanks(size, [](const auto& tables, const Place& place) {
      const auto text = SynchroniseGradients(
          tables, place,
          {.parameters = 6, .elements = 200, .bucket_bytes = 1 << 10});
      EXPECT_TRUE(text.ok()) << text.status();
    });
  }
}

TEST(GpuExerciseTest, RecoversState) {
  for (const int size : {1, 2, 4}) {
    OnRanks(size, [](const auto& tables, const Place& place) {
      const absl::Status recovered = RecoverState(tables, place);
      EXPECT_TRUE(recovered.ok()) << recovered;
    });
  }
}

TEST(GpuExerciseTest, AbortsWhatIsWedged) {
  OnRanks(2, [](const auto& tables, const Place& place) {
    const auto took = AbortWhatIsWedged(tables, place, 5);
    ASSERT_TRUE(took.ok()) << took.status();
    EXPECT_EQ(took->size(), place.rank == 0 ? 5u : 0u);
  });
}

}  // namespace
}  // namespace lockstep::gpu
