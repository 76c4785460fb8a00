// Saves that fail on a rank: all ranks learn which one, and why, and the next
// save works.

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "client/checkpoint/directory.h"
#include "client/state/attempt.h"
#include "client/state/part.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/state/saver_job.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/sanitizers.h"

namespace lockstep::state {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ResultOf;

constexpr char kAt[] = "/digits";

// Statuses with this code and text.
auto Fails(absl::StatusCode code, const std::string& text) {
  return AllOf(
      ResultOf([](const absl::Status& status) { return status.code(); }, code),
      ResultOf(
          [](const absl::Status& status) {
            return std::string(status.message());
          },
          HasSubstr(text)));
}

// Rank 1 has a large tensor, which is not gathered with others.
std::vector<CheckpointJob> WithLargeTensor(std::vector<CheckpointJob> jobs) {
  const JobTensor large = {"large", {DType::kF32, {200, 100}}};
  const StatePart part = {jobs[0].tensors.size(),
                          checkpoint::WholeOf(large.type)};
  for (CheckpointJob& job : jobs) job.tensors.push_back(large);
  jobs[1].held.push_back(part);
  jobs[1].written.push_back(part);
  return jobs;
}

class SaverFaultsTest : public testing::Test {
 protected:
  static constexpr int kRanks = 3;
  SaverFaultsTest() {
    for (auto& files : files_) {
      files = std::make_unique<FaultyFileSystem>(&memory_);
    }
    job_ = std::make_unique<SaverJob>(
        WithLargeTensor(CutJobs(ModelState(), kRanks, 1)),
        [this](int rank) { return files_[rank].get(); });
    EXPECT_THAT(
        job_->Open({.directory = kAt, .nonce_patience = absl::Seconds(1)}),
        Each(absl::OkStatus()));
    EXPECT_THAT(job_->Save(10), Each(absl::OkStatus()));
  }

  void ExpectLoads(int64_t step) {
    job_->SetStep(1);
    EXPECT_THAT(job_->Load(), Each(absl::OkStatus()));
    EXPECT_THAT(job_->Different(step), IsEmpty());
  }
  // Until all ranks have written this save.
  void AwaitWritten(uint64_t number) {
    for (int rank = 0; rank < kRanks; ++rank) {
      while (true) {
        const auto save = job_->coordinator().report(rank).save;
        if (save.has_value() && save->number == number &&
            save->stage == protocol::CheckpointSave::Stage::kWritten) {
          break;
        }
        std::this_thread::yield();
      }
    }
  }
  std::vector<std::string> Attempts() {
    // The thread that removes has ended.
    job_->Close();
    std::vector<std::string> names;
    const auto folders =
        checkpoint::ListAttempts(&memory_, std::string(kAt) + "/checkpoints");
    for (const checkpoint::AttemptFolder& folder : folders.value()) {
      names.push_back(checkpoint::FolderName(folder.id));
    }
    return names;
  }

  MemoryFileSystem memory_;
  std::unique_ptr<FaultyFileSystem> files_[kRanks];
  std::unique_ptr<SaverJob> job_;
};

TEST_F(SaverFaultsTest, NoSpaceOnARankNamesItsFileAndTensor) {
  files_[1]->SetSpace(10000);
  const auto statuses = job_->Save(20);
  EXPECT_THAT(statuses,
              Each(Fails(absl::StatusCode::kResourceExhausted, "rank 1: ")));
  EXPECT_THAT(std::string(statuses[0].message()),
              AllOf(HasSubstr("step 20"), HasSubstr("rank-1.safetensors"),
                    HasSubstr("tensor \"large\"")));
  ExpectLoads(10);
  files_[1]->SetSpace(std::numeric_limits<uint64_t>::max());
  EXPECT_THAT(job_->Save(30), Each(absl::OkStatus()));
  ExpectLoads(30);
  EXPECT_THAT(Attempts(), testing::ElementsAre("step-10-epoch-1-attempt-1",
                                               "step-30-epoch-1-attempt-3"));
}

// AddressSanitizer sees all of them.
constexpr int kEachOperation = kUnderThreadSanitizer ? 7 : 1;

// An error at any operation of any rank fails the save on all ranks, or on
// none.
TEST_F(SaverFaultsTest, AnErrorAtAnyOperationIsThatOfAllRanks) {
  testing::internal::CaptureStderr();
  int64_t step = 100;
  for (int rank = 0; rank < kRanks; ++rank) {
    int failed = 0;
    for (int after = 1; after < 60; after += kEachOperation) {
      const int64_t before = job_->saver(0).newest()->step;
      FaultyFileSystem& files = *files_[rank];
      files.FailAt(files.operations() + after, absl::DataLossError("EIO /x"));
      const auto statuses = job_->Save(++step);
      const bool saved = statuses[0].ok();
      if (!saved) {
        ++failed;
        EXPECT_THAT(statuses, Each(Fails(absl::StatusCode::kDataLoss,
                                         absl::StrCat("rank ", rank, ": "))));
      } else {
        EXPECT_THAT(statuses, Each(absl::OkStatus()));
      }
      files.FailAt(0, absl::OkStatus());
      ExpectLoads(saved ? step : before);
    }
    EXPECT_GT(failed * kEachOperation, 8);
  }
  EXPECT_THAT(job_->Save(++step), Each(absl::OkStatus()));
  testing::internal::GetCapturedStderr();
}

TEST_F(SaverFaultsTest, AFolderThatIsRemovedMeanwhileFailsTheSave) {
  job_->coordinator().Hold();
  job_->SetStep(20);
  EXPECT_THAT(job_->OnAll([&](int rank) {
    return job_->saver(rank).Save(SaverJob::TrainingAt(20), nullptr);
  }),
              Each(absl::OkStatus()));
  AwaitWritten(2);
  const auto folder = FolderOf(kAt, {20, 1, 2});
  ASSERT_EQ(checkpoint::RemoveAttempt(&memory_, folder), absl::OkStatus());
  job_->coordinator().Release();
  EXPECT_THAT(job_->OnAll([&](int rank) { return job_->saver(rank).Wait(); }),
              Each(Fails(absl::StatusCode::kNotFound, "rank-0.part.json")));
  EXPECT_THAT(job_->Save(30), Each(absl::OkStatus()));
  ExpectLoads(30);
}

TEST_F(SaverFaultsTest, APartThatIsNotWhatItsRankReportedIsNotJoined) {
  job_->coordinator().Hold();
  job_->SetStep(20);
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(job_->saver(rank).Save(SaverJob::TrainingAt(20), nullptr),
              absl::OkStatus());
  }
  AwaitWritten(2);
  const std::string path =
      FolderOf(kAt, {20, 1, 2}).path + "/" + PartFileName(1);
  std::string text = *ReadWhole(&memory_, path);
  text[text.find("\"begin\"") + 9] ^= 1;
  ASSERT_EQ(ReplaceFile(&memory_, path, text), absl::OkStatus());
  job_->coordinator().Release();
  EXPECT_THAT(job_->OnAll([&](int rank) { return job_->saver(rank).Wait(); }),
              Each(Fails(absl::StatusCode::kDataLoss, "rank-1.part.json")));
  ExpectLoads(10);
}

TEST_F(SaverFaultsTest, RanksWithOtherTrainingStatesAreNamed) {
  const auto statuses = job_->OnAll([&](int rank) {
    TrainingState training = SaverJob::TrainingAt(20);
    training.epoch += rank / 2;
    absl::Status status = job_->saver(rank).Save(training, nullptr);
    status.Update(job_->saver(rank).Wait());
    return status;
  });
  EXPECT_THAT(statuses, Each(Fails(absl::StatusCode::kInvalidArgument,
                                   "the part of rank 2 has another")));
}

TEST_F(SaverFaultsTest, ATrainingStateThatOneRankRefusesFailsTheSaveOfAll) {
  const auto saved = job_->OnAll([&](int rank) {
    TrainingState training = SaverJob::TrainingAt(20);
    if (rank == 1) {
      training.learning_rate = std::numeric_limits<double>::infinity();
    }
    return job_->saver(rank).Save(training, nullptr);
  });
  EXPECT_TRUE(absl::IsInvalidArgument(saved[1]));
  EXPECT_EQ(saved[0], absl::OkStatus());
  const auto waited =
      job_->OnAll([&](int rank) { return job_->saver(rank).Wait(); });
  EXPECT_THAT(waited[0], Fails(absl::StatusCode::kInvalidArgument, "rank 1"));
  EXPECT_EQ(waited[1], absl::OkStatus()) << "Save has returned it";
  EXPECT_THAT(job_->Save(30), Each(absl::OkStatus()));
  ExpectLoads(30);
}

TEST_F(SaverFaultsTest, TheNextSaveReturnsAnErrorThatNoCallHasReturned) {
  files_[2]->SetSpace(0);
  job_->SetStep(20);
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(job_->saver(rank).Save(SaverJob::TrainingAt(20), nullptr),
              absl::OkStatus());
  }
  // Until it has failed, space must not come back.
  while (job_->saver(0).progress().saving) std::this_thread::yield();
  files_[2]->SetSpace(std::numeric_limits<uint64_t>::max());
  job_->SetStep(30);
  EXPECT_THAT(job_->OnAll([&](int rank) {
    return job_->saver(rank).Save(SaverJob::TrainingAt(30), nullptr);
  }),
              Each(Fails(absl::StatusCode::kResourceExhausted, "rank 2")));
  EXPECT_THAT(job_->OnAll([&](int rank) { return job_->saver(rank).Wait(); }),
              Each(absl::OkStatus()));
  ExpectLoads(30);
}

TEST_F(SaverFaultsTest, TheDestructorPrintsAnErrorThatNoCallHasReturned) {
  files_[2]->SetSpace(0);
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(job_->saver(rank).Save(SaverJob::TrainingAt(20), nullptr),
              absl::OkStatus());
  }
  testing::internal::CaptureStderr();
  job_->Close();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("step 20 was not saved"), HasSubstr("rank 2")));
}

TEST_F(SaverFaultsTest, TheEndOfTheSessionEndsAllWaits) {
  job_->coordinator().Hold();
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(job_->saver(rank).Save(SaverJob::TrainingAt(20), nullptr),
              absl::OkStatus());
  }
  const absl::Status over = absl::UnavailableError("rank 4 died");
  job_->coordinator().EndSession(over);
  EXPECT_THAT(job_->OnAll([&](int rank) { return job_->saver(rank).Wait(); }),
              Each(over));
  EXPECT_THAT(job_->Save(30), Each(over));
  // It may have been committed by others: nothing is removed.
  job_->Close();
  EXPECT_EQ(memory_.KindOf(FolderOf(kAt, {20, 1, 2}).path).value(),
            FileKind::kDirectory);
}

TEST_F(SaverFaultsTest, AFlippedBitIsFoundWithFileAndTensor) {
  const std::string path =
      FolderOf(kAt, {10, 1, 1}).path + "/rank-1.safetensors";
  std::string bytes = *ReadWhole(&memory_, path);
  bytes.back() ^= 1;
  ASSERT_EQ(ReplaceFile(&memory_, path, bytes), absl::OkStatus());
  int found = 0;
  for (const absl::Status& status : job_->Load()) {
    if (status.ok()) continue;
    ++found;
    EXPECT_THAT(status, Fails(absl::StatusCode::kDataLoss, path));
    EXPECT_THAT(status, Fails(absl::StatusCode::kDataLoss, "tensor \""));
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace lockstep::state
