#include "client/checkpoint/directory.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/safetensors_writer.h"
#include "client/checkpoint/verify.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/checkpoint_files.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kDirectory[] = "/c";

// The whole of a small checkpoint of two ranks: each has half of "w", and the
// contents differ from step to step.
absl::Status Save(FileSystem* files, const CheckpointName& id) {
  const auto path = CreateAttempt(files, kDirectory, id);
  if (!path.ok()) return path.status();
  Manifest manifest{.job = "digits",
                    .step = id.step,
                    .epoch = id.epoch,
                    .attempt = id.attempt,
                    .mesh = {{{"data", 2}}},
                    .training = {.step = id.step}};
  ManifestTensor w{.name = "w", .type = {DType::kF32, {4, 3}}};
  for (int rank = 0; rank < 2; ++rank) {
    const std::string name = absl::StrCat("rank-", rank, ".safetensors");
    const std::string data =
        PatternBytes(24, static_cast<uint32_t>(id.step * 2 + rank));
    const auto written = WriteSafetensors(
        files, *path + "/" + name,
        {{"w", {DType::kF32, {2, 3}}, FromMemory(data.data())}});
    if (!written.ok()) return written.status();
    manifest.files.push_back({name, written->hashes});
    w.slices.push_back({name, "w", {{2 * rank, 0}, {2, 3}}});
  }
  manifest.tensors = {w};
  return Commit(files, {id, *path}, manifest);
}

std::vector<std::string> Paths(const std::vector<AttemptFolder>& folders) {
  std::vector<std::string> paths;
  for (const AttemptFolder& folder : folders) {
    paths.push_back(folder.path + (folder.committed ? "" : " (open)"));
  }
  return paths;
}

class DirectoryTest : public testing::Test {
 protected:
  DirectoryTest() {
    EXPECT_TRUE(files_.MakeDirectory(kDirectory).ok());
    EXPECT_TRUE(files_.SyncDirectory("/").ok());
  }

  std::vector<AttemptFolder> Listed() {
    return ListAttempts(&files_, kDirectory).value();
  }

  MemoryFileSystem files_;
};

TEST_F(DirectoryTest, NamesFoldersAndParsesOnlySuchNames) {
  const CheckpointName id{20, 3, 1};
  EXPECT_EQ(FolderName(id), "step-20-epoch-3-attempt-1");
  EXPECT_EQ(ParseFolderName("step-20-epoch-3-attempt-1"), id);
  for (const char* other :
       {"", "step-20-epoch-3-attempt-01", "step-+20-epoch-3-attempt-1",
        "step--20-epoch-3-attempt-1", "step-20-epoch-3-attempt-1 ",
        "step-20-epoch-3-attempt-1-", "step-20-epoch-3", "a-20-b-3-c-1",
        "step-20-epoch-3-attempt-9223372036854775808",
        "removed-step-20-epoch-3-attempt-1"}) {
    EXPECT_EQ(ParseFolderName(other), std::nullopt) << other;
  }
}

TEST_F(DirectoryTest, ListsByNumberAndSaysWhatIsCommitted) {
  // Back to step 9, after step 100.
  ASSERT_EQ(Save(&files_, {100, 1, 2}), absl::OkStatus());
  ASSERT_EQ(Save(&files_, {9, 1, 10}), absl::OkStatus());
  ASSERT_EQ(Save(&files_, {20, 2, 1}), absl::OkStatus());
  ASSERT_TRUE(CreateAttempt(&files_, kDirectory, {20, 1, 12}).ok());
  ASSERT_TRUE(files_.MakeDirectory("/c/other").ok());
  ASSERT_TRUE(
      files_.Open("/c/step-1-epoch-1-attempt-1", OpenMode::kCreate).ok());
  EXPECT_THAT(Paths(Listed()),
              ElementsAre("/c/step-20-epoch-2-attempt-1",
                          "/c/step-100-epoch-1-attempt-2",
                          "/c/step-9-epoch-1-attempt-10",
                          "/c/step-20-epoch-1-attempt-12 (open)"));
}

TEST_F(DirectoryTest, FindsAFolderADirectoryAndOneAboveIt) {
  ASSERT_EQ(Save(&files_, {10, 1, 1}), absl::OkStatus());
  ASSERT_EQ(Save(&files_, {20, 1, 1}), absl::OkStatus());
  ASSERT_TRUE(files_.MakeDirectory("/job").ok());
  ASSERT_TRUE(files_.Rename("/c", "/job/checkpoints").ok());
  const std::string in = "/job/checkpoints";
  const std::string first = in + "/step-10-epoch-1-attempt-1";
  const std::string second = in + "/step-20-epoch-1-attempt-1";
  for (const std::string& path : {std::string("/job"), in, in + "//"}) {
    const auto found = FindCommitted(&files_, path);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT(Paths(*found), ElementsAre(first, second)) << path;
  }
  EXPECT_THAT(Paths(*FindCommitted(&files_, first + "/")), ElementsAre(first));
}

TEST_F(DirectoryTest, FindingNothingIsAnErrorThatNamesThePath) {
  EXPECT_THAT(FindCommitted(&files_, "/nowhere").status().message(),
              HasSubstr("/nowhere"));
  EXPECT_THAT(FindCommitted(&files_, "/c").status().message(),
              HasSubstr("/c has no committed checkpoint"));
  ASSERT_TRUE(CreateAttempt(&files_, kDirectory, {20, 1, 2}).ok());
  EXPECT_THAT(
      FindCommitted(&files_, "/c/step-20-epoch-1-attempt-2").status().message(),
      HasSubstr("is not committed"));
}

TEST(PlantedLinkTest, LeftoversThatAreLinksStay) {
  PosixFileSystem files;
  std::string root = testing::TempDir() + "lockstep-link-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const std::string link = root + "/c/removed-step-1-epoch-1-attempt-1";
  ASSERT_TRUE(files.MakeDirectory(root + "/home").ok());
  ASSERT_TRUE(files.MakeDirectory(root + "/c").ok());
  ASSERT_TRUE(PublishFile(&files, root + "/home/a", "precious").ok());
  ASSERT_EQ(symlink((root + "/home").c_str(), link.c_str()), 0);
  const auto removed = RemoveLeftovers(&files, root + "/c");
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_EQ(*removed, 0);
  EXPECT_EQ(ReadWhole(&files, root + "/home/a").value_or("(gone)"), "precious");
  std::filesystem::remove_all(root);
}

TEST_F(DirectoryTest, DamagedCheckpointsNeitherCountNorGo) {
  for (int64_t attempt : {1, 2, 3}) {
    ASSERT_EQ(Save(&files_, {attempt, 1, attempt}), absl::OkStatus());
  }
  const std::string manifest = "/c/step-3-epoch-1-attempt-3/MANIFEST.json";
  ASSERT_TRUE(ReplaceFile(&files_, manifest, "{").ok());
  auto folders = ListAttempts(&files_, kDirectory).value();
  MarkDamaged(&files_, &folders);
  EXPECT_THAT(Paths(ToRemove(folders, {.keep_last = 1})),
              ElementsAre("/c/step-1-epoch-1-attempt-1"));
}

TEST_F(DirectoryTest, ACopyUnderAnotherNameIsACheckpoint) {
  ASSERT_EQ(Save(&files_, {20, 3, 1}), absl::OkStatus());
  ASSERT_TRUE(files_.Rename("/c/step-20-epoch-3-attempt-1", "/best").ok());
  const auto found = FindCommitted(&files_, "/best");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(Paths(*found), ElementsAre("/best"));
  EXPECT_EQ(found->front().id, (CheckpointName{20, 3, 1}));
  EXPECT_TRUE(ReadManifest(&files_, found->front()).ok());
}

TEST_F(DirectoryTest, AnAttemptIsMadeOnce) {
  ASSERT_TRUE(CreateAttempt(&files_, kDirectory, {20, 1, 1}).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(
      CreateAttempt(&files_, kDirectory, {20, 1, 1}).status()));
}

TEST_F(DirectoryTest, RefusesTheManifestOfAnotherAttempt) {
  ASSERT_EQ(Save(&files_, {20, 1, 1}), absl::OkStatus());
  const AttemptFolder folder = Listed()[0];
  Manifest manifest = ReadManifest(&files_, folder).value();
  manifest.attempt = 2;
  EXPECT_THAT(Commit(&files_, folder, manifest).message(),
              HasSubstr("the manifest is that of step-20-epoch-1-attempt-2"));
  ASSERT_TRUE(files_.Rename(folder.path, "/c/step-30-epoch-1-attempt-1").ok());
  EXPECT_THAT(ReadManifest(&files_, Listed()[0]).status().message(),
              HasSubstr("/c/step-30-epoch-1-attempt-1/MANIFEST.json: the "
                        "manifest is that of step-20-epoch-1-attempt-1"));
}

// A writer that does not know that its attempt was given up.
TEST_F(DirectoryTest, ALateWriterFails) {
  const CheckpointName id{20, 1, 1};
  const std::string path = CreateAttempt(&files_, kDirectory, id).value();
  ASSERT_EQ(RemoveAttempt(&files_, {id, path}), absl::OkStatus());
  const std::string data = PatternBytes(4, 1);
  EXPECT_TRUE(absl::IsNotFound(
      WriteSafetensors(&files_, path + "/rank-0.safetensors",
                       {{"w", {DType::kF32, {}}, FromMemory(data.data())}})
          .status()));
  EXPECT_TRUE(absl::IsNotFound(Commit(&files_, {id, path},
                                      {.job = "digits",
                                       .step = 20,
                                       .epoch = 1,
                                       .attempt = 1,
                                       .mesh = {{{"data", 1}}}})));
}

// --- Retention ---------------------------------------------------------------

std::vector<AttemptFolder> Folders(
    std::initializer_list<std::pair<int64_t, bool>> steps) {
  std::vector<AttemptFolder> folders;
  for (const auto& [step, committed] : steps) {
    folders.push_back({{step, 1, 1}, std::to_string(step), committed});
  }
  return folders;
}

TEST(RetentionTest, KeepsTheNewestTheMultiplesAndWhatMayStillBeWritten) {
  const auto folders = Folders({{10, true},
                                {15, false},
                                {20, true},
                                {25, true},
                                {30, true},
                                {35, false}});
  EXPECT_THAT(Paths(ToRemove(folders, {.keep_last = 1})),
              ElementsAre("10", "15 (open)", "20", "25"));
  EXPECT_THAT(Paths(ToRemove(folders, {.keep_last = 2, .keep_every = 20})),
              ElementsAre("10", "15 (open)"));
  EXPECT_THAT(Paths(ToRemove(folders, {.keep_last = 100})),
              ElementsAre("15 (open)"));
  // The last one always stays.
  EXPECT_THAT(Paths(ToRemove(folders, {.keep_last = 0})),
              ElementsAre("10", "15 (open)", "20", "25"));
  EXPECT_THAT(Paths(ToRemove(Folders({{10, false}, {20, false}}), {})),
              IsEmpty());
}

// --- Crashes -----------------------------------------------------------------

// Saves and then removes, on a file system that fails from one operation on and
// crashes then: what is committed afterwards verifies, and what was reported
// done is done.
TEST_F(DirectoryTest, EveryCrashPointOfASaveAndARemovalLeavesWholeCheckpoints) {
  int committed = 0, not_committed = 0, removed = 0;
  for (int operation = 1;; ++operation) {
    bool reached_end = false;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(absl::StrCat("operation ", operation, ", seed ", seed));
      MemoryFileSystem disk;
      ASSERT_TRUE(disk.MakeDirectory(kDirectory).ok());
      ASSERT_TRUE(disk.SyncDirectory("/").ok());
      ASSERT_EQ(Save(&disk, {10, 1, 1}), absl::OkStatus());

      FaultyFileSystem files(&disk);
      files.FailFrom(operation, absl::AbortedError("the machine stops"));
      const absl::Status saved = Save(&files, {20, 1, 1});
      absl::Status gone = saved;
      if (saved.ok()) {
        gone =
            RemoveAttempt(&files, {{10, 1, 1}, "/c/step-10-epoch-1-attempt-1"});
      }
      reached_end = gone.ok();
      if (seed == 0) {
        disk.Crash();
      } else {
        disk.CrashPartly(seed);
      }

      std::vector<int64_t> steps;
      const auto listed = ListAttempts(&disk, kDirectory).value();
      for (const AttemptFolder& folder : listed) {
        if (!folder.committed) continue;
        steps.push_back(folder.id.step);
        EXPECT_THAT(Verify(&disk, folder).wrong, IsEmpty()) << folder.path;
      }
      if (saved.ok()) {
        EXPECT_THAT(steps, testing::Contains(20));
        ++committed;
      } else {
        EXPECT_THAT(steps, testing::Contains(10));
        ++not_committed;
      }
      if (gone.ok()) {
        EXPECT_THAT(steps, ElementsAre(20));
        ++removed;
      }
      EXPECT_TRUE(RemoveLeftovers(&disk, kDirectory).ok());
      const auto names = disk.List(kDirectory).value();
      for (const std::string& name : names) {
        EXPECT_TRUE(ParseFolderName(name).has_value()) << name;
      }
    }
    if (reached_end) break;
    ASSERT_LT(operation, 500);
  }
  EXPECT_GT(committed, 6);
  EXPECT_GT(not_committed, 60);
  EXPECT_EQ(removed, 6);
}

// --- Verify ------------------------------------------------------------------

class VerifyTest : public DirectoryTest {
 protected:
  VerifyTest() {
    EXPECT_EQ(Save(&files_, {20, 1, 1}), absl::OkStatus());
    folder_ = Listed()[0];
  }

  void Replace(const std::string& name, const std::string& bytes) {
    ASSERT_EQ(ReplaceFile(&files_, folder_.path + "/" + name, bytes),
              absl::OkStatus());
  }
  std::string Bytes(const std::string& name) {
    return ReadWhole(&files_, folder_.path + "/" + name).value();
  }
  std::string TheFault() {
    const VerifiedCheckpoint verified = Verify(&files_, folder_);
    return verified.wrong.size() == 1
               ? std::string(verified.wrong[0].message())
               : absl::StrCat(verified.wrong.size(), " faults");
  }

  AttemptFolder folder_;
};

TEST_F(VerifyTest, CountsWhatIsRight) {
  const VerifiedCheckpoint verified = Verify(&files_, folder_);
  EXPECT_THAT(verified.wrong, IsEmpty());
  EXPECT_EQ(verified.tensors, 1);
  EXPECT_EQ(verified.files, 2);
  EXPECT_EQ(verified.bytes, 2 * Bytes("rank-0.safetensors").size());
}

TEST_F(VerifyTest, NamesTheFileOfEveryFlippedBit) {
  for (const char* name :
       {"rank-0.safetensors", "rank-1.safetensors", "MANIFEST.json"}) {
    const std::string right = Bytes(name);
    for (size_t at = 0; at < right.size(); ++at) {
      std::string wrong = right;
      wrong[at] ^= static_cast<char>(1 << at % 8);
      Replace(name, wrong);
      ASSERT_THAT(TheFault(), HasSubstr(name)) << "byte " << at;
    }
    Replace(name, right);
  }
  EXPECT_THAT(Verify(&files_, folder_).wrong, IsEmpty());
}

TEST_F(VerifyTest, NamesFilesThatAreMissingShortOrTooMany) {
  const std::string right = Bytes("rank-1.safetensors");
  Replace("rank-1.safetensors", right.substr(0, right.size() - 1));
  EXPECT_THAT(TheFault(), HasSubstr("rank-1.safetensors"));
  ASSERT_TRUE(files_.Remove(folder_.path + "/rank-1.safetensors").ok());
  EXPECT_THAT(TheFault(), HasSubstr("rank-1.safetensors"));
  Replace("rank-1.safetensors", right);
  Replace("rank-2.safetensors", right);
  EXPECT_THAT(TheFault(),
              HasSubstr("rank-2.safetensors is not in the manifest"));
}

TEST_F(VerifyTest, ComparesHeadersWithTheManifest) {
  const Manifest manifest = ReadManifest(&files_, folder_).value();
  SafetensorsHeader header{.tensors = {{"w", {DType::kF32, {2, 3}}, 0, 24}}};
  const std::string file = "rank-0.safetensors";
  EXPECT_EQ(CompareHeader(manifest, file, header), absl::OkStatus());
  header.tensors[0].type.shape = {3, 2};
  EXPECT_THAT(
      CompareHeader(manifest, file, header).message(),
      HasSubstr("tensor \"w\" is f32[3,2], the manifest says f32[2,3]"));
  header.tensors[0].type = {DType::kI32, {2, 3}};
  EXPECT_THAT(CompareHeader(manifest, file, header).message(),
              HasSubstr("tensor \"w\" is i32[2,3]"));
  header.tensors[0] = {"v", {DType::kF32, {2, 3}}, 0, 24};
  EXPECT_THAT(CompareHeader(manifest, file, header).message(),
              HasSubstr("tensor \"w\" is missing"));
  header.tensors = {{"w", {DType::kF32, {2, 3}}, 0, 24},
                    {"x", {DType::kF32, {}}, 24, 28}};
  EXPECT_THAT(CompareHeader(manifest, file, header).message(),
              HasSubstr("tensor \"x\" is not in the manifest"));
}

}  // namespace
}  // namespace lockstep::checkpoint
