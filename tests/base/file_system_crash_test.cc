// Crashes of the file system in memory, and injected faults.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "gtest/gtest.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"

namespace lockstep {
namespace {

// --- Crashes ----------------------------------------------------------------

class CrashTest : public testing::Test {
 protected:
  // Leaves the file open, as a program that crashes does.
  WritableFile* Write(const std::string& path, absl::string_view bytes) {
    auto file = files_.Open(path, OpenMode::kAppend);
    EXPECT_TRUE(file.ok() && (*file)->Append(bytes).ok());
    open_.push_back(std::move(*file));
    return open_.back().get();
  }
  std::string Get(const std::string& path) {
    const auto bytes = ReadWhole(&files_, path);
    return bytes.ok() ? *bytes : "(gone)";
  }

  MemoryFileSystem files_;
  std::vector<std::unique_ptr<WritableFile>> open_;
};

TEST_F(CrashTest, LosesANameThatWasNotSynced) {
  ASSERT_TRUE(Write("/a", "x")->Sync().ok());
  files_.Crash();
  EXPECT_EQ(Get("/a"), "(gone)");
}

TEST_F(CrashTest, LosesBytesThatWereNotSynced) {
  WritableFile* file = Write("/a", "one");
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  ASSERT_TRUE(file->Append("two").ok());
  EXPECT_EQ(Get("/a"), "onetwo");
  files_.Crash();
  EXPECT_EQ(Get("/a"), "one");
  EXPECT_EQ(file->Append("three").code(), absl::StatusCode::kAborted);
}

TEST_F(CrashTest, WritebackMakesNothingDurable) {
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  WritableFile* file = Write("/a", "one");
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  ASSERT_TRUE(file->StartWriteback().ok());
  files_.Crash();
  EXPECT_EQ(Get("/a"), "");
}

TEST_F(CrashTest, FilesOpenForReadingFailAfterIt) {
  ASSERT_TRUE(ReplaceFile(&files_, "/a", "one").ok());
  auto file = files_.OpenForReading("/a");
  ASSERT_TRUE(file.ok());
  files_.Crash();
  char byte;
  EXPECT_EQ((*file)->Read(0, 1, &byte).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Get("/a"), "one");
}

TEST_F(CrashTest, APartialCrashKeepsWhatWasSyncedAndSomeOfTheRest) {
  const std::string synced(1000, 's'), rest(5000, 'r');
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    MemoryFileSystem files;
    ASSERT_TRUE(ReplaceFile(&files, "/a", synced).ok());
    auto file = files.Open("/a", OpenMode::kAppend);
    ASSERT_TRUE(file.ok() && (*file)->Append(rest).ok());
    ASSERT_TRUE(files.Open("/new", OpenMode::kCreate).ok());
    files.CrashPartly(seed);
    const std::string left = ReadWhole(&files, "/a").value();
    EXPECT_EQ(left.substr(0, 1000), synced);
    EXPECT_LE(left.size(), 6000u);
    EXPECT_EQ(left.find_first_not_of(std::string("r\0", 2), 1000),
              std::string::npos);
    const bool has_zeros = left.find('\0') != std::string::npos;
    const bool has_name = files.KindOf("/new").ok();
    seen.insert(absl::StrCat(left.size() > 1000, has_zeros, has_name));
  }
  EXPECT_EQ(seen.size(), 6u);  // all of them: zeros only in bytes that are kept
}

TEST_F(CrashTest, UndoesARenameThatWasNotSynced) {
  ASSERT_TRUE(Write("/a", "x")->Sync().ok());
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  ASSERT_TRUE(files_.Rename("/a", "/b").ok());
  files_.Crash();
  EXPECT_EQ(Get("/a"), "x");
  EXPECT_EQ(Get("/b"), "(gone)");
}

TEST_F(CrashTest, BringsBackWhatWasRemovedAndNotSynced) {
  ASSERT_TRUE(Write("/a", "x")->Sync().ok());
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  ASSERT_TRUE(files_.Remove("/a").ok());
  files_.Crash();
  EXPECT_EQ(Get("/a"), "x");
  ASSERT_TRUE(files_.Remove("/a").ok());
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  files_.Crash();
  EXPECT_EQ(Get("/a"), "(gone)");
}

TEST_F(CrashTest, AReplacedFileHoldsTheNewBytesForGood) {
  ASSERT_TRUE(ReplaceFile(&files_, "/a", "one").ok());
  ASSERT_TRUE(ReplaceFile(&files_, "/a", "two").ok());
  files_.Crash();
  EXPECT_EQ(Get("/a"), "two");
}

// --- Faults -----------------------------------------------------------------

class FaultTest : public testing::Test {
 protected:
  std::string Get(const std::string& path) {
    return ReadWhole(&memory_, path).value_or("(gone)");
  }

  MemoryFileSystem memory_;
  FaultyFileSystem files_{&memory_};
};

TEST_F(FaultTest, OperationsAreCountedAndFailFromTheGivenOne) {
  ASSERT_TRUE(ReplaceFile(&files_, "/a", "one").ok());
  const int operations = files_.operations();
  EXPECT_EQ(operations, 5);  // open, append, sync, rename, sync the directory
  for (int first = 1; first <= operations; ++first) {
    SCOPED_TRACE(first);
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    files.FailFrom(first, absl::AbortedError("crashed"));
    EXPECT_EQ(ReplaceFile(&files, "/a", "one").code(),
              absl::StatusCode::kAborted);
    memory.Crash();
    EXPECT_FALSE(memory.KindOf("/a").ok());
  }
}

TEST_F(FaultTest, TheErrorOfOneOperationStaysInItsFile) {
  auto file = files_.Open("/a", OpenMode::kCreate);
  ASSERT_TRUE(file.ok());
  files_.FailAt(2, absl::DataLossError("EIO"));
  EXPECT_EQ((*file)->Append("x").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ((*file)->Sync().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(files_.Open("/b", OpenMode::kCreate).ok());
}

TEST_F(FaultTest, AFullDiskTakesWhatFits) {
  files_.SetSpace(4);
  auto file = files_.Open("/a", OpenMode::kCreate);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->Append("one").ok());
  EXPECT_EQ((*file)->Append("two").code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Get("/a"), "onet");
  files_.SetSpace(100);
  EXPECT_EQ((*file)->Sync().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep
