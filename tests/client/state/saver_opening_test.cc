// Opening a directory that some ranks cannot use: those ranks are named, and no
// others.

#include <memory>
#include <string>
#include <vector>

#include "client/state/job_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/state/saver_job.h"
#include "tests/support/faulty_file_system.h"

namespace lockstep::state {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kOpened[] = "/jobs/opened";

class SaverOpeningTest : public testing::Test {
 protected:
  static constexpr int kRanks = 3;

  // What rank `rank` writes from now on fails; it still reads.
  void ForbidWrites(int rank) {
    files_[rank]->FailFrom(
        files_[rank]->operations() + 1,
        absl::PermissionDeniedError(absl::StrCat("no writes by ", rank)));
  }
  void AllowWrites(int rank) { files_[rank]->FailAt(0, absl::OkStatus()); }
  std::vector<absl::Status> Open() {
    return job_.Open(
        {.directory = kOpened, .nonce_patience = absl::Milliseconds(100)});
  }
  // All ranks say that `rank` is at fault, why, and no more.
  static void ExpectAllBlame(const std::vector<absl::Status>& statuses,
                             int rank) {
    for (const absl::Status& status : statuses) {
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      const std::string text(status.message());
      EXPECT_THAT(text, AllOf(HasSubstr("/jobs/opened cannot have checkpoints"),
                              HasSubstr(absl::StrCat("rank ", rank, ": ")),
                              HasSubstr(absl::StrCat("no writes by ", rank))));
      for (int other = 0; other < kRanks; ++other) {
        if (other == rank) continue;
        EXPECT_THAT(text, Not(HasSubstr(absl::StrCat("rank ", other))));
      }
    }
  }

  MemoryFileSystem memory_;
  std::unique_ptr<FaultyFileSystem> files_[kRanks] = {
      std::make_unique<FaultyFileSystem>(&memory_),
      std::make_unique<FaultyFileSystem>(&memory_),
      std::make_unique<FaultyFileSystem>(&memory_)};
  SaverJob job_{CutJobs(ModelState(), kRanks, 1),
                [this](int rank) { return files_[rank].get(); }};
};

// The others find no nonce, because none was written.
TEST_F(SaverOpeningTest, RankZeroAloneIsNamedIfItCannotOpenTheDirectory) {
  ForbidWrites(0);
  ExpectAllBlame(Open(), 0);
}

TEST_F(SaverOpeningTest, ARankThatReadsTheDirectoryButCannotWriteIsNamed) {
  ForbidWrites(2);
  ExpectAllBlame(Open(), 2);
}

// Twice rank 0, then another rank, then nobody.
TEST_F(SaverOpeningTest, AllRanksOpenAgainUntilAllCan) {
  for (const int rank : {0, 0, 1, 2, 0}) {
    ForbidWrites(rank);
    ExpectAllBlame(Open(), rank);
    AllowWrites(rank);
  }
  EXPECT_THAT(Open(), Each(absl::OkStatus()));
  EXPECT_THAT(job_.Save(20), Each(absl::OkStatus()));
  EXPECT_EQ(job_.saver(2).newest(), (CheckpointName{20, 1, 1}));
  EXPECT_THAT(memory_.List(CheckpointsIn(kOpened)).value(),
              ElementsAre("lock", "step-20-epoch-1-attempt-1"));
}

TEST_F(SaverOpeningTest, TheProbesOfAllRanksAreRemoved) {
  EXPECT_THAT(Open(), Each(absl::OkStatus()));
  EXPECT_THAT(memory_.List(CheckpointsIn(kOpened)).value(),
              ElementsAre("lock"));
}

}  // namespace
}  // namespace lockstep::state
