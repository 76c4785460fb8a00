#include "client/checkpoint/import.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/load.h"
#include "client/checkpoint/safetensors_reader.h"
#include "client/checkpoint/verify.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/checkpoint_folder.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ImportTest : public testing::Test {
 protected:
  ImportTest() {
    for (const DType dtype : kAllDTypes) {
      if (dtype == DType::kC128) continue;  // not in the format
      set_.Add(absl::StrCat("t.", std::string(Name(dtype))), {dtype, {5, 7}});
    }
    set_.Add("scalar", {DType::kF32, {}});
    set_.Add("empty", {DType::kBF16, {0, 3}});
    EXPECT_TRUE(WriteSafetensors(&files_, "/plain.st", set_.ToWrite(),
                                 {{"format", "pt"}})
                    .ok());
  }

  absl::StatusOr<AttemptFolder> ImportPlain(FileSystem* files,
                                            const ImportOptions& options = {}) {
    const auto source = ReadForeign(files, "/plain.st");
    if (!source.ok()) return source.status();
    return Import(files, *source, "/job", options);
  }

  TensorSet set_;
  MemoryFileSystem files_;
};

TEST_F(ImportTest, IsAVerifiedCheckpointThatLoads) {
  for (const uint64_t file_bytes_max : {kFileBytesMax, uint64_t{2000}}) {
    const int64_t step = file_bytes_max == kFileBytesMax ? 5 : 6;
    const auto folder =
        ImportPlain(&files_, {.step = step, .file_bytes_max = file_bytes_max});
    ASSERT_TRUE(folder.ok()) << folder.status();
    files_.Crash();  // all of it is durable
    EXPECT_EQ(folder->path, absl::StrCat("/job/checkpoints/step-", step,
                                         "-epoch-0-attempt-1"));
    EXPECT_THAT(Verify(&files_, *folder).wrong, IsEmpty());
    const Manifest manifest = ReadManifest(&files_, *folder).value();
    EXPECT_EQ(manifest.mesh.WorldSize(), 1);
    EXPECT_EQ(manifest.training.step, step);
    EXPECT_EQ(manifest.training.metadata.at("format"), "pt");
    EXPECT_EQ(manifest.files.size() > 1, step == 6);
    std::vector<std::string> contents;
    contents.reserve(manifest.tensors.size());
    std::vector<WantedTensor> wanted;
    for (const ManifestTensor& tensor : manifest.tensors) {
      contents.emplace_back(TensorBytes(tensor.type).value(), '?');
      wanted.push_back({tensor.name, tensor.type, WholeOf(tensor.type),
                        contents.back().data()});
    }
    ASSERT_EQ(LoadTensors(&files_, folder->path, manifest, wanted),
              absl::OkStatus());
    EXPECT_EQ(wanted.size(), 18u);
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(contents[i], set_.at(wanted[i].name)) << wanted[i].name;
    }
  }
}

TEST_F(ImportTest, ACommittedStepIsKept) {
  ASSERT_TRUE(ImportPlain(&files_, {.step = 5}).ok());
  const absl::Status refused = ImportPlain(&files_, {.step = 5}).status();
  EXPECT_TRUE(absl::IsAlreadyExists(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("/job/checkpoints/step-5-epoch-0-attempt-1"));
  EXPECT_TRUE(ImportPlain(&files_).ok());  // step 0
  EXPECT_THAT(*files_.List("/job/checkpoints"),
              ElementsAre("lock", "step-0-epoch-0-attempt-1",
                          "step-5-epoch-0-attempt-1"));
  EXPECT_TRUE(
      absl::IsInvalidArgument(ImportPlain(&files_, {.step = -1}).status()));
}

TEST_F(ImportTest, ADirectoryThatAJobUsesIsLeftAlone) {
  ASSERT_TRUE(ImportPlain(&files_, {.step = 5}).ok());
  const auto lock = files_.Lock("/job/checkpoints/lock", "pid 7 on host h");
  ASSERT_TRUE(lock.ok()) << lock.status();
  const absl::Status refused = ImportPlain(&files_, {.step = 6}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("pid 7 on host h"));
}

TEST_F(ImportTest, AnErrorAtEachOperationLeavesNoCheckpoint) {
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  FaultyFileSystem counting(&files_);
  ASSERT_TRUE(ImportPlain(&counting).ok());
  const int operations = counting.operations();
  EXPECT_GE(operations, 10);
  for (int i = 1; i <= operations; ++i) {
    MemoryFileSystem memory;
    ASSERT_TRUE(WriteSafetensors(&memory, "/plain.st", set_.ToWrite()).ok());
    FaultyFileSystem files(&memory);
    files.FailAt(i, absl::UnavailableError("EIO"));
    const auto failed = ImportPlain(&files);
    EXPECT_TRUE(absl::IsUnavailable(failed.status())) << i << failed.status();
    const auto left = ListAttempts(&memory, "/job/checkpoints");
    if (left.ok()) {
      EXPECT_THAT(*left, IsEmpty()) << i;
    }
    // The next one succeeds.
    EXPECT_TRUE(ImportPlain(&memory).ok()) << i;
  }
}

TEST_F(ImportTest, APlainFileThatIsNoneIsNamed) {
  EXPECT_TRUE(absl::IsNotFound(ReadForeign(&files_, "/nowhere").status()));
  ASSERT_TRUE(
      files_.Open("/text", OpenMode::kCreate).value()->Append("text").ok());
  EXPECT_THAT(std::string(ReadForeign(&files_, "/text").status().message()),
              HasSubstr("/text"));
}

}  // namespace
}  // namespace lockstep::checkpoint
