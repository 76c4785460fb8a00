// Saves that a crash stops at any of their operations: the last checkpoint that
// was committed always loads, and none that is torn is ever listed.

#include <memory>
#include <string>
#include <vector>

#include "client/checkpoint/verify.h"
#include "client/state/job_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/state/saver_job.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/sanitizers.h"

namespace lockstep::state {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

constexpr char kCrashed[] = "/digits";

SaverOptions Impatient() {
  return {.directory = kCrashed, .nonce_patience = absl::Milliseconds(2)};
}

std::vector<JobTensor> SmallState() {
  return {{"step", {DType::kI64, {}}},
          {"weight", {DType::kF32, {9, 4}}},
          {"scale", {DType::kBF16, {11}}}};
}

bool AllAreOk(const std::vector<absl::Status>& statuses) {
  return std::all_of(statuses.begin(), statuses.end(),
                     [](const absl::Status& status) { return status.ok(); });
}

// What the machine of all ranks loses.
enum class Loss { kNothing, kUnsynced, kSome };

class SaverCrashTest : public testing::TestWithParam<Loss> {
 protected:
  void Crash(MemoryFileSystem* memory, int seed) {
    switch (GetParam()) {
      case Loss::kNothing: return;
      case Loss::kUnsynced: return memory->Crash();
      case Loss::kSome: return memory->CrashPartly(static_cast<uint64_t>(seed));
    }
  }
};

// The newest step whose Save succeeded on all ranks; nothing works from
// operation `first` on.
int64_t SaveUntil(int first, int ranks, MemoryFileSystem* memory,
                  bool* stopped) {
  {
    SaverJob job(CutJobs(SmallState(), ranks, 1), memory);
    EXPECT_THAT(job.Open(Impatient()), Each(absl::OkStatus()));
    EXPECT_THAT(job.Save(10), Each(absl::OkStatus()));
  }
  FaultyFileSystem files(memory);
  files.FailFrom(first, absl::AbortedError("the machine crashed"));
  int64_t saved = 10;
  {
    SaverOptions options = Impatient();
    options.retention.keep_last = 1;
    SaverJob job(CutJobs(SmallState(), ranks, 2), &files);
    if (AllAreOk(job.Open(options))) {
      for (const int64_t step : {20, 30}) {
        if (AllAreOk(job.Save(step))) saved = step;
      }
    }
  }
  *stopped = files.operations() >= first;
  return saved;
}

// Every committed attempt is whole.
void ExpectNoTornOne(MemoryFileSystem* memory) {
  const auto attempts =
      checkpoint::ListAttempts(memory, CheckpointsIn(kCrashed));
  ASSERT_TRUE(attempts.ok());
  for (const checkpoint::AttemptFolder& attempt : *attempts) {
    if (!attempt.committed) continue;
    EXPECT_THAT(checkpoint::Verify(memory, attempt).wrong, IsEmpty())
        << attempt.path;
  }
}

// AddressSanitizer sees all of them.
constexpr int kEachPoint = kUnderThreadSanitizer ? 7 : 1;

TEST_P(SaverCrashTest, TheLastCommittedOneLoads) {
  testing::internal::CaptureStderr();  // warnings about what was not removed
  const int ranks = GetParam() == Loss::kUnsynced ? 3 : 2;
  bool stopped = true;
  int point = 0;
  while (stopped && !HasFailure()) {
    MemoryFileSystem memory;
    point += kEachPoint;
    const int64_t saved = SaveUntil(point, ranks, &memory, &stopped);
    Crash(&memory, point);
    ExpectNoTornOne(&memory);
    SaverJob job(CutJobs(SmallState(), ranks % 3 + 1, 3), &memory);
    ASSERT_THAT(job.Open(Impatient()), Each(absl::OkStatus()));
    ASSERT_TRUE(job.saver(0).newest().has_value()) << point;
    const int64_t newest = job.saver(0).newest()->step;
    EXPECT_GE(newest, saved) << point;
    EXPECT_THAT(job.Load(), Each(absl::OkStatus()));
    EXPECT_THAT(job.Different(newest), IsEmpty()) << point;
    // The directory is as good as before.
    EXPECT_THAT(job.Save(40), Each(absl::OkStatus())) << point;
    EXPECT_THAT(job.Load(), Each(absl::OkStatus()));
    EXPECT_THAT(job.Different(40), IsEmpty()) << point;
  }
  EXPECT_GT(point, 60) << "fewer operations than a save has";
  testing::internal::GetCapturedStderr();
}

INSTANTIATE_TEST_SUITE_P(Each, SaverCrashTest,
                         testing::Values(Loss::kNothing, Loss::kUnsynced,
                                         Loss::kSome));

}  // namespace
}  // namespace lockstep::state
