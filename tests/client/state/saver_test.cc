// A job's checkpoints from Open to Load, in memory.

#include "client/state/saver.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "client/checkpoint/verify.h"
#include "client/state/attempt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/state/saver_job.h"
#include "tests/support/sanitizers.h"

namespace lockstep::state {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kDirectory[] = "/jobs/digits";

SaverOptions InMemory() {
  return {.directory = kDirectory, .nonce_patience = absl::Milliseconds(100)};
}

class SaverTest : public testing::Test {
 protected:
  std::unique_ptr<SaverJob> Opened(int ranks, uint64_t seed = 1,
                                   SaverOptions options = InMemory()) {
    auto job =
        std::make_unique<SaverJob>(CutJobs(ModelState(), ranks, seed), &files_);
    EXPECT_THAT(job->Open(options), Each(absl::OkStatus()));
    return job;
  }

  std::vector<std::string> Names(const std::string& path) {
    return files_.List(path).value();
  }
  std::vector<std::string> Checkpoints() {
    return Names(std::string(kDirectory) + "/checkpoints");
  }

  MemoryFileSystem files_;
};

// AddressSanitizer sees all of them.
constexpr int kEachNumber = kUnderThreadSanitizer ? 3 : 1;

TEST_F(SaverTest, LoadsOnEveryNumberOfRanksWhatAnyNumberSaved) {
  for (int from = 1; from <= 8; from += kEachNumber) {
    {
      auto job = Opened(from, 100 + from);
      ASSERT_THAT(job->Save(from), Each(absl::OkStatus()));
    }
    for (int to = 1; to <= 8; to += kEachNumber) {
      auto job = Opened(to, 200 + to);
      ASSERT_EQ(job->saver(0).newest()->step, from);
      job->SetStep(77);
      ASSERT_THAT(job->Load(), Each(absl::OkStatus()));
      EXPECT_THAT(job->Different(from), IsEmpty()) << from << " to " << to;
    }
  }
}

TEST_F(SaverTest, ReturnsTheTrainingStateAndLeavesOnlyTheCheckpointsFiles) {
  auto job = Opened(2);
  ASSERT_THAT(job->Save(20), Each(absl::OkStatus()));
  const auto loaded = job->saver(1).Load({});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded, SaverJob::TrainingAt(20));
  const CheckpointName name{20, 1, 1};
  EXPECT_EQ(job->saver(0).newest(), name);
  EXPECT_EQ(job->saver(1).newest(), name);
  EXPECT_THAT(Checkpoints(), ElementsAre("lock", "step-20-epoch-1-attempt-1"));
  const auto folder = FolderOf(kDirectory, name);
  EXPECT_THAT(Names(folder.path),
              ElementsAre("MANIFEST.json", "model.safetensors.index.json",
                          "rank-0.safetensors", "rank-1.safetensors"));
  EXPECT_THAT(checkpoint::Verify(&files_, folder).wrong, IsEmpty());
}

TEST_F(SaverTest, SavesWhatMemoryWasWhenSaveWasCalled) {
  auto job = Opened(2);
  job->SetStep(20);
  job->coordinator().Hold();
  EXPECT_THAT(job->OnAll([&](int rank) {
    return job->saver(rank).Save(SaverJob::TrainingAt(20), nullptr);
  }),
              Each(absl::OkStatus()));
  job->SetStep(21);
  EXPECT_TRUE(job->saver(0).progress().saving);
  job->coordinator().Release();
  EXPECT_THAT(job->OnAll([&](int rank) { return job->saver(rank).Wait(); }),
              Each(absl::OkStatus()));
  ASSERT_THAT(job->Load(), Each(absl::OkStatus()));
  EXPECT_THAT(job->Different(20), IsEmpty());
  const SaveProgress progress = job->saver(0).progress();
  EXPECT_FALSE(progress.saving);
  EXPECT_EQ(progress.step, 20);
  EXPECT_GT(progress.bytes_total, 0u);
  EXPECT_EQ(progress.bytes_done, progress.bytes_total);
}

TEST_F(SaverTest, ASecondSaveWaitsForTheFirst) {
  auto job = Opened(2);
  job->coordinator().Hold();
  job->SetStep(1);
  for (int rank : {0, 1}) {
    EXPECT_EQ(job->saver(rank).Save(SaverJob::TrainingAt(1), nullptr),
              absl::OkStatus());
  }
  std::thread release([&] {
    // Until both have written, the second Save cannot have begun.
    for (int rank : {0, 1}) {
      while (job->coordinator().report(rank).save->stage !=
             protocol::CheckpointSave::Stage::kWritten) {
        std::this_thread::yield();
      }
      EXPECT_EQ(job->coordinator().report(rank).save->number, 1u);
    }
    job->coordinator().Release();
  });
  EXPECT_THAT(job->Save(2), Each(absl::OkStatus()));
  release.join();
  EXPECT_THAT(Checkpoints(), ElementsAre("lock", "step-1-epoch-1-attempt-1",
                                         "step-2-epoch-1-attempt-2"));
}

TEST_F(SaverTest, GoesOnFromWhatWasSavedLastWhateverItsStep) {
  {
    auto job = Opened(2);
    for (int64_t step : {10, 30}) {
      ASSERT_THAT(job->Save(step), Each(absl::OkStatus()));
    }
    ASSERT_TRUE(job->saver(0).Load({.step = 10}).ok());
    ASSERT_THAT(job->Save(15), Each(absl::OkStatus()));
    EXPECT_EQ(job->saver(1).newest()->step, 15);
    job->Close();  // and what is old is removed
    EXPECT_THAT(Checkpoints(), ElementsAre("lock", "step-15-epoch-1-attempt-3",
                                           "step-30-epoch-1-attempt-2"));
  }
  auto later = Opened(3, 2);
  EXPECT_EQ(later->saver(2).newest()->step, 15);
}

TEST_F(SaverTest, OpeningRemovesSavesThatWereGivenUp) {
  {
    auto job = Opened(2);
    ASSERT_THAT(job->Save(10), Each(absl::OkStatus()));
  }
  const std::string torn =
      std::string(kDirectory) + "/checkpoints/step-20-epoch-1-attempt-2";
  ASSERT_TRUE(files_.MakeDirectory(torn).ok());
  ASSERT_TRUE(PublishFile(&files_, torn + "/rank-0.safetensors", "torn").ok());
  auto job = Opened(2, 2);
  EXPECT_THAT(Checkpoints(), ElementsAre("lock", "step-10-epoch-1-attempt-1"));
  // The number of the torn one is not used again.
  ASSERT_THAT(job->Save(20), Each(absl::OkStatus()));
  EXPECT_EQ(job->saver(0).newest(), (CheckpointName{20, 2, 3}));
}

TEST_F(SaverTest, AStepThatIsRefusedIsNotReported) {
  auto job = Opened(2);
  EXPECT_THAT(job->OnAll([&](int rank) {
    return job->saver(rank).Save({.step = -5}, nullptr);
  }),
              Each(::testing::Truly(absl::IsInvalidArgument)));
  ASSERT_THAT(job->Save(10), Each(absl::OkStatus()));
}

TEST_F(SaverTest, KeepsWhatTheRetentionSays) {
  SaverOptions options = InMemory();
  options.retention = {.keep_last = 1, .keep_every = 20};
  auto job = Opened(3, 1, options);
  for (const int64_t step : {10, 20, 30, 40, 50}) {
    ASSERT_THAT(job->Save(step), Each(absl::OkStatus()));
  }
  job->Close();
  EXPECT_THAT(Checkpoints(), ElementsAre("lock", "step-20-epoch-1-attempt-2",
                                         "step-40-epoch-1-attempt-4",
                                         "step-50-epoch-1-attempt-5"));
}

TEST_F(SaverTest, GoesOnFromAnEarlierStepWithoutLosingWhatItSaves) {
  auto first = Opened(2);
  for (const int64_t step : {10, 20, 30}) {
    ASSERT_THAT(first->Save(step), Each(absl::OkStatus()));
  }
  first->Close();
  auto job = Opened(2);
  ASSERT_THAT(job->Load({.step = 20}), Each(absl::OkStatus()));
  EXPECT_THAT(job->Different(20), IsEmpty());
  ASSERT_THAT(job->Save(25), Each(absl::OkStatus()));
  ASSERT_THAT(job->Save(26), Each(absl::OkStatus()));
  EXPECT_THAT(job->Load({.step = 26}), Each(absl::OkStatus()));
  EXPECT_THAT(job->Different(26), IsEmpty());
}

TEST_F(SaverTest, FindsNoCheckpointWhereThereIsNone) {
  auto job = Opened(2);
  EXPECT_EQ(job->saver(0).newest(), std::nullopt);
  EXPECT_TRUE(absl::IsNotFound(job->Load()[1]));
  ASSERT_THAT(job->Save(20), Each(absl::OkStatus()));
  const absl::Status missing = job->Load({.step = 21})[0];
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(missing.message(), HasSubstr("20"));
}

TEST_F(SaverTest, RefusesADirectoryThatAnotherJobUses) {
  auto job = Opened(2);
  SaverJob other(CutJobs(ModelState(), 3, 2), &files_);
  EXPECT_THAT(other.Open(InMemory()),
              Each(::testing::Truly([](const absl::Status& status) {
                return absl::IsFailedPrecondition(status) &&
                       absl::StrContains(status.message(),
                                         "another job uses /jobs/digits") &&
                       absl::StrContains(status.message(), "pid ");
              })));
  // It disturbs nothing.
  EXPECT_THAT(job->Save(20), Each(absl::OkStatus()));
  job->Close();
  SaverJob later(CutJobs(ModelState(), 3, 3), &files_);
  EXPECT_THAT(later.Open(InMemory()), Each(absl::OkStatus()));
}

TEST_F(SaverTest, NamesAllRanksThatSeeAnotherDirectory) {
  MemoryFileSystem elsewhere;
  SaverJob job(CutJobs(ModelState(), 4, 1),
               [&](int rank) { return rank % 2 == 0 ? &files_ : &elsewhere; });
  for (const absl::Status& status : job.Open(InMemory())) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status));
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("rank 1: "), HasSubstr("rank 3: "),
                      ::testing::Not(HasSubstr("rank 2: "))));
  }
}

TEST_F(SaverTest, ARankThatCannotOpenIsNamedOnAllRanks) {
  for (const int refusing : {0, 1}) {
    FakeCoordinator coordinator(2);
    const auto device = transport::MakeHostDeviceContext();
    const auto jobs = CutJobs(ModelState(), 2, 1);
    std::string nonces[2];
    absl::Status opened[2];
    const auto open = [&](int rank) {
      const absl::Status ready = rank == refusing
                                     ? absl::InvalidArgumentError("no memory")
                                     : absl::OkStatus();
      opened[rank] = Saver::Open(jobs[static_cast<size_t>(rank)],
                                 {&files_, coordinator.channel(rank),
                                  device.get(), &nonces[rank]},
                                 InMemory(), ready)
                         .status();
    };
    std::thread first([&] { open(0); });
    open(1);
    first.join();
    EXPECT_EQ(opened[refusing], absl::InvalidArgumentError("no memory"));
    EXPECT_TRUE(absl::IsFailedPrecondition(opened[1 - refusing]));
    EXPECT_THAT(std::string(opened[1 - refusing].message()),
                HasSubstr(absl::StrCat("rank ", refusing, ": no memory")));
  }
}

TEST_F(SaverTest, NamesTheBoxesOfATensorThatARankWritesInParts) {
  const std::vector<JobTensor> tensors = {{"w", {DType::kF32, {4, 2}}},
                                          {"w [2,0]", {DType::kF32, {2}}}};
  CheckpointJob job{.name = "digits",
                    .epoch = 1,
                    .mesh = {{{"data", 1}}},
                    .tensors = tensors};
  job.held = {{0, {{0, 0}, {2, 2}}}, {0, {{2, 0}, {2, 2}}}, {1, {{0}, {2}}}};
  job.written = job.held;
  EXPECT_THAT(StoredNames(job), ElementsAre("w [0,0]", "w [2,0]+", "w [2,0]"));
  SaverJob one({job}, &files_);
  ASSERT_THAT(one.Open(InMemory()), Each(absl::OkStatus()));
  ASSERT_THAT(one.Save(3), Each(absl::OkStatus()));
  one.SetStep(4);
  ASSERT_THAT(one.Load(), Each(absl::OkStatus()));
  EXPECT_THAT(one.Different(3), IsEmpty());
}

TEST_F(SaverTest, DividesARanksTensorsOverFiles) {
  SaverOptions options = InMemory();
  options.file_bytes_max = 1500;
  auto job = Opened(2, 1, options);
  ASSERT_THAT(job->Save(20), Each(absl::OkStatus()));
  const auto folder = FolderOf(kDirectory, {20, 1, 1});
  EXPECT_THAT(Names(folder.path), ::testing::Contains("rank-0-1.safetensors"));
  EXPECT_THAT(checkpoint::Verify(&files_, folder).wrong, IsEmpty());
  job->SetStep(1);
  ASSERT_THAT(job->Load(), Each(absl::OkStatus()));
  EXPECT_THAT(job->Different(20), IsEmpty());
}

TEST_F(SaverTest, CopiesBehindTheWorkOfAStream) {
  auto job = Opened(2);
  job->SetStep(19);
  {
    HostStream streams[2];
    Mutex mutex;
    CondVar changed;
    bool computed = false;
    for (int rank : {0, 1}) {
      streams[rank].Enqueue([&] {
        MutexLock lock(&mutex);
        while (!computed) changed.Wait(&mutex);
        return absl::OkStatus();
      });
      ASSERT_EQ(job->saver(rank).Save(SaverJob::TrainingAt(20), &streams[rank]),
                absl::OkStatus());
    }
    job->SetStep(20);
    MutexLock lock(&mutex);
    computed = true;
    changed.NotifyAll();
  }
  EXPECT_THAT(job->OnAll([&](int rank) { return job->saver(rank).Wait(); }),
              Each(absl::OkStatus()));
  job->SetStep(1);
  ASSERT_THAT(job->Load(), Each(absl::OkStatus()));
  EXPECT_THAT(job->Different(20), IsEmpty());
}

TEST_F(SaverTest, TheDestructorWaitsForTheSave) {
  auto job = Opened(2);
  job->SetStep(20);
  for (int rank : {0, 1}) {
    ASSERT_EQ(job->saver(rank).Save(SaverJob::TrainingAt(20), nullptr),
              absl::OkStatus());
  }
  job->Close();
  auto later = Opened(2);
  EXPECT_EQ(later->saver(0).newest()->step, 20);
}

}  // namespace
}  // namespace lockstep::state
