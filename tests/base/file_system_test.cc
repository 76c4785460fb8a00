// The contract of every file system, and what only a disk has.

#include "base/file_system.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kExists = absl::StatusCode::kAlreadyExists;
constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;

// A file system and an empty folder in it.
struct Subject {
  virtual ~Subject() = default;
  virtual FileSystem& files() = 0;
  std::string root;
};

struct Posix : Subject {
  Posix() {
    std::string name = testing::TempDir() + "lockstep-files-XXXXXX";
    root = mkdtemp(name.data());
  }
  ~Posix() override { std::filesystem::remove_all(root); }
  FileSystem& files() override { return files_; }
  PosixFileSystem files_;
};

struct Memory : Subject {
  Memory() { root = ""; }
  FileSystem& files() override { return files_; }
  MemoryFileSystem files_;
};

// --- The contract -----------------------------------------------------------

template <typename S>
class FileSystemContract : public testing::Test {
 protected:
  FileSystem& files() { return subject_.files(); }
  std::string At(const std::string& name) { return subject_.root + "/" + name; }
  absl::Status Put(const std::string& name, absl::string_view bytes,
                   OpenMode mode = OpenMode::kTruncate) {
    auto file = files().Open(At(name), mode);
    return file.ok() ? (*file)->Append(bytes) : file.status();
  }
  std::string Get(const std::string& name) {
    const auto bytes = ReadWhole(&files(), At(name));
    return bytes.ok() ? *bytes : bytes.status().ToString();
  }
  std::vector<std::string> Names(const std::string& directory = "") {
    const auto names = files().List(At(directory));
    EXPECT_TRUE(names.ok()) << names.status();
    return names.value_or(std::vector<std::string>{});
  }

  S subject_;
};

// Another one behind faults that do not happen.
struct WithoutFaults : Subject {
  WithoutFaults() { root = ""; }
  FileSystem& files() override { return files_; }
  MemoryFileSystem memory_;
  FaultyFileSystem files_{&memory_};
};

using Subjects = testing::Types<Posix, Memory, WithoutFaults>;
TYPED_TEST_SUITE(FileSystemContract, Subjects);

TYPED_TEST(FileSystemContract, WhatIsWrittenIsRead) {
  ASSERT_TRUE(this->Put("a", "hello").ok());
  EXPECT_EQ(this->Get("a"), "hello");
  EXPECT_EQ(*this->files().Size(this->At("a")), 5u);
  EXPECT_EQ(*this->files().Read(this->At("a"), 1, 3), "ell");
  EXPECT_EQ(*this->files().Read(this->At("a"), 3, 100), "lo");
  EXPECT_EQ(*this->files().Read(this->At("a"), 9, 1), "");
}

TYPED_TEST(FileSystemContract, AnOpenedFileReadsExactlyTheBytesAskedFor) {
  ASSERT_TRUE(this->Put("a", "hello").ok());
  auto file = this->files().OpenForReading(this->At("a"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Size().value(), 5u);
  char bytes[8] = "-------";
  EXPECT_TRUE((*file)->Read(1, 3, bytes).ok());
  EXPECT_STREQ(bytes, "ell----");
  EXPECT_TRUE((*file)->Read(5, 0, bytes).ok());
  for (const auto& [offset, size] : {std::pair{4, 2}, {5, 1}, {100, 1}}) {
    EXPECT_EQ((*file)->Read(offset, size, bytes).code(),
              absl::StatusCode::kOutOfRange)
        << offset;
  }
}

TYPED_TEST(FileSystemContract, AnOpenedFileIsReadAfterItsNameIsGone) {
  ASSERT_TRUE(this->Put("a", "hello").ok());
  auto file = this->files().OpenForReading(this->At("a"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(this->Put("b", "other").ok());
  ASSERT_TRUE(this->files().Rename(this->At("b"), this->At("a")).ok());
  ASSERT_TRUE(this->files().Remove(this->At("a")).ok());
  char bytes[6] = {};
  EXPECT_TRUE((*file)->Read(0, 5, bytes).ok());
  EXPECT_STREQ(bytes, "hello");
}

// More than a page, so that writeback begins on a real disk.
TYPED_TEST(FileSystemContract, WritebackBetweenAppendsChangesNoByte) {
  auto file = this->files().Open(this->At("a"), OpenMode::kCreate);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string all;
  for (const size_t size : {100, 5000, 0, 20000, 1}) {
    const std::string part(size, static_cast<char>('a' + size % 26));
    all += part;
    EXPECT_TRUE((*file)->Append(part).ok());
    EXPECT_EQ((*file)->StartWriteback(), absl::OkStatus());
  }
  EXPECT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(this->Get("a"), all);
}

TYPED_TEST(FileSystemContract, ModesDifferInWhatIsThereAlready) {
  EXPECT_TRUE(this->Put("a", "one", OpenMode::kCreate).ok());
  EXPECT_EQ(this->Put("a", "x", OpenMode::kCreate).code(), kExists);
  EXPECT_TRUE(this->Put("a", "two", OpenMode::kAppend).ok());
  EXPECT_EQ(this->Get("a"), "onetwo");
  EXPECT_TRUE(this->Put("a", "new", OpenMode::kTruncate).ok());
  EXPECT_EQ(this->Get("a"), "new");
  EXPECT_TRUE(this->Put("b", "made", OpenMode::kAppend).ok());
}

TYPED_TEST(FileSystemContract, AFailedCreateLeavesNoName) {
  EXPECT_EQ(this->Put("no/such/folder", "x").code(), kNotFound);
  EXPECT_THAT(this->Names(), IsEmpty());
}

TYPED_TEST(FileSystemContract, WhatDoesNotExistIsNotFound) {
  FileSystem& files = this->files();
  EXPECT_EQ(files.Read(this->At("a"), 0, 1).status().code(), kNotFound);
  EXPECT_EQ(files.OpenForReading(this->At("a")).status().code(), kNotFound);
  EXPECT_EQ(files.Size(this->At("a")).status().code(), kNotFound);
  EXPECT_EQ(files.List(this->At("a")).status().code(), kNotFound);
  EXPECT_EQ(files.Remove(this->At("a")).code(), kNotFound);
  EXPECT_EQ(files.Rename(this->At("a"), this->At("b")).code(), kNotFound);
  EXPECT_EQ(files.SyncDirectory(this->At("a")).code(), kNotFound);
  EXPECT_EQ(files.MakeDirectory(this->At("a/b")).code(), kNotFound);
}

TYPED_TEST(FileSystemContract, DirectoriesListTheirNamesSorted) {
  ASSERT_TRUE(this->files().MakeDirectory(this->At("d")).ok());
  EXPECT_EQ(this->files().MakeDirectory(this->At("d")).code(), kExists);
  ASSERT_TRUE(this->Put("d/b", "").ok());
  ASSERT_TRUE(this->Put("d/a", "").ok());
  EXPECT_THAT(this->Names("d"), ElementsAre("a", "b"));
  EXPECT_THAT(this->Names(), ElementsAre("d"));
  EXPECT_TRUE(this->files().SyncDirectory(this->At("d")).ok());
}

TYPED_TEST(FileSystemContract, AFileIsNoDirectoryAndAFolderNoFile) {
  ASSERT_TRUE(this->Put("f", "").ok());
  ASSERT_TRUE(this->files().MakeDirectory(this->At("d")).ok());
  FileSystem& files = this->files();
  EXPECT_EQ(files.List(this->At("f")).status().code(), kPrecondition);
  EXPECT_EQ(files.Read(this->At("d"), 0, 1).status().code(), kPrecondition);
  EXPECT_EQ(files.OpenForReading(this->At("d")).status().code(), kPrecondition);
  EXPECT_EQ(this->Put("d", "x").code(), kPrecondition);
  EXPECT_EQ(this->Put("f/x", "x").code(), kPrecondition);
}

TYPED_TEST(FileSystemContract, RemoveTakesFilesAndEmptyDirectories) {
  ASSERT_TRUE(this->files().MakeDirectory(this->At("d")).ok());
  ASSERT_TRUE(this->Put("d/a", "").ok());
  EXPECT_EQ(this->files().Remove(this->At("d")).code(), kPrecondition);
  EXPECT_TRUE(this->files().Remove(this->At("d/a")).ok());
  EXPECT_TRUE(this->files().Remove(this->At("d")).ok());
  EXPECT_THAT(this->Names(), IsEmpty());
}

TYPED_TEST(FileSystemContract, OneAtATimeLocksAFile) {
  ASSERT_TRUE(this->Put("lock", "an earlier holder, with a long name").ok());
  auto lock = this->files().Lock(this->At("lock"), "job a");
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(this->Get("lock"), "job a");
  const auto second = this->files().Lock(this->At("lock"), "job b");
  EXPECT_EQ(second.status().code(), kPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              testing::HasSubstr("locked by job a"));
  EXPECT_EQ(this->Get("lock"), "job a");
  lock->reset();
  EXPECT_TRUE(this->files().Lock(this->At("lock"), "job b").ok());
  EXPECT_TRUE(this->files().Lock(this->At("new"), "job c").ok());
}

TYPED_TEST(FileSystemContract, RenameReplacesAFile) {
  ASSERT_TRUE(this->Put("a", "new").ok());
  ASSERT_TRUE(this->Put("b", "old").ok());
  ASSERT_TRUE(this->files().Rename(this->At("a"), this->At("b")).ok());
  EXPECT_EQ(this->Get("b"), "new");
  EXPECT_THAT(this->Names(), ElementsAre("b"));
}

TYPED_TEST(FileSystemContract, RenameMovesADirectoryWithWhatIsInIt) {
  ASSERT_TRUE(this->files().MakeDirectory(this->At("d")).ok());
  ASSERT_TRUE(this->Put("d/a", "x").ok());
  ASSERT_TRUE(this->files().Rename(this->At("d"), this->At("e")).ok());
  EXPECT_EQ(this->Get("e/a"), "x");
  ASSERT_TRUE(this->files().MakeDirectory(this->At("f")).ok());
  EXPECT_EQ(this->files().Rename(this->At("f"), this->At("e")).code(),
            kPrecondition);
}

TYPED_TEST(FileSystemContract, ReplaceFileLeavesNothingBesides) {
  ASSERT_TRUE(ReplaceFile(&this->files(), this->At("a"), "one").ok());
  ASSERT_TRUE(ReplaceFile(&this->files(), this->At("a"), "two").ok());
  EXPECT_EQ(this->Get("a"), "two");
  EXPECT_THAT(this->Names(), ElementsAre("a"));
  EXPECT_EQ(ReplaceFile(&this->files(), this->At("no/a"), "x").code(),
            kNotFound);
}

TYPED_TEST(FileSystemContract, PublishFileLeavesNothingBesides) {
  ASSERT_TRUE(PublishFile(&this->files(), this->At("a"), "one").ok());
  ASSERT_TRUE(PublishFile(&this->files(), this->At("a"), "two").ok());
  EXPECT_EQ(this->Get("a"), "two");
  EXPECT_THAT(this->Names(), ElementsAre("a"));
  EXPECT_EQ(PublishFile(&this->files(), this->At("no/a"), "x").code(),
            kNotFound);
}

// A crash, or another user of a shared folder, has left a file with the name
// that the new bytes are first written to.
TYPED_TEST(FileSystemContract, AFileThatIsPublishedDoesNotUseWhatIsBesideIt) {
  ASSERT_TRUE(this->Put("a.new", "left by a crash").ok());
  ASSERT_TRUE(this->files().MakeDirectory(this->At("a.new1")).ok());
  for (auto* const write : {&PublishFile, &ReplaceFile}) {
    ASSERT_TRUE(write(&this->files(), this->At("a"), "one").ok());
    EXPECT_EQ(this->Get("a"), "one");
    EXPECT_EQ(this->Get("a.new"), "left by a crash");
    EXPECT_THAT(this->Names(), ElementsAre("a", "a.new", "a.new1"));
  }
}

TYPED_TEST(FileSystemContract, NamesBesideAFileAreNotTriedForEver) {
  for (int i = 0; i < 100; ++i) {
    const std::string name = i == 0 ? "a.new" : absl::StrCat("a.new", i);
    ASSERT_TRUE(this->files().MakeDirectory(this->At(name)).ok());
  }
  for (auto* const write : {&PublishFile, &ReplaceFile}) {
    const absl::Status refused = write(&this->files(), this->At("a"), "x");
    EXPECT_EQ(refused.code(), kPrecondition);
    EXPECT_NE(refused.message().find("a.new99"), std::string::npos) << refused;
  }
  EXPECT_EQ(this->Names().size(), 100u);
}

TYPED_TEST(FileSystemContract, ADirectoryIsNotReplacedByAFile) {
  ASSERT_TRUE(this->files().MakeDirectory(this->At("d")).ok());
  for (auto* const write : {&PublishFile, &ReplaceFile}) {
    EXPECT_EQ(write(&this->files(), this->At("d"), "x").code(), kPrecondition);
  }
  EXPECT_THAT(this->Names(), ElementsAre("d"));
  EXPECT_EQ(this->files().KindOf(this->At("d")).value(), FileKind::kDirectory);
  EXPECT_EQ(this->files().KindOf(this->At("e")).status().code(), kNotFound);
}

TYPED_TEST(FileSystemContract, AFolderIsRemovedWithItsFiles) {
  ASSERT_TRUE(this->files().MakeDirectory(this->At("d")).ok());
  ASSERT_TRUE(PublishFile(&this->files(), this->At("d/a"), "x").ok());
  ASSERT_TRUE(PublishFile(&this->files(), this->At("d/b"), "y").ok());
  EXPECT_TRUE(this->files().RemoveFolder(this->At("d")).ok());
  EXPECT_EQ(this->files().KindOf(this->At("d")).status().code(), kNotFound);
  EXPECT_EQ(this->files().RemoveFolder(this->At("d")).code(), kNotFound);
  ASSERT_TRUE(PublishFile(&this->files(), this->At("f"), "x").ok());
  EXPECT_EQ(this->files().RemoveFolder(this->At("f")).code(), kPrecondition);
  EXPECT_THAT(this->Names(), ElementsAre("f"));
}

class PlantedNamesTest : public testing::Test {
 protected:
  std::string At(const std::string& name) { return posix_.root + "/" + name; }
  std::string Get(const std::string& name) {
    return ReadWhole(&posix_.files_, At(name)).value_or("(gone)");
  }
  void PlantVictim() {
    ASSERT_TRUE(PublishFile(&posix_.files_, At("victim"), "precious").ok());
  }

  Posix posix_;
};

TEST_F(PlantedNamesTest, ALinkBesideTheFileIsNotFollowed) {
  PlantVictim();
  ASSERT_EQ(symlink(At("victim").c_str(), At("a.new").c_str()), 0);
  for (auto* const write : {&PublishFile, &ReplaceFile}) {
    ASSERT_TRUE(write(&posix_.files_, At("a"), "mine").ok());
    EXPECT_EQ(Get("victim"), "precious");
    EXPECT_EQ(Get("a"), "mine");
    EXPECT_EQ(posix_.files_.KindOf(At("a")).value(), FileKind::kRegular);
  }
  EXPECT_EQ(posix_.files_.KindOf(At("a.new")).value(), FileKind::kOther);
}

TEST_F(PlantedNamesTest, NothingBehindALinkIsRemoved) {
  ASSERT_TRUE(posix_.files_.MakeDirectory(At("home")).ok());
  ASSERT_TRUE(PublishFile(&posix_.files_, At("home/a"), "precious").ok());
  ASSERT_EQ(symlink(At("home").c_str(), At("link").c_str()), 0);
  EXPECT_EQ(posix_.files_.RemoveFolder(At("link")).code(), kPrecondition);
  EXPECT_EQ(Get("home/a"), "precious");
  EXPECT_EQ(posix_.files_.KindOf(At("link")).value(), FileKind::kOther);
  // As an entry of a folder, the link is removed itself.
  ASSERT_TRUE(posix_.files_.MakeDirectory(At("d")).ok());
  ASSERT_EQ(symlink(At("home/a").c_str(), At("d/file").c_str()), 0);
  ASSERT_EQ(symlink(At("home").c_str(), At("d/folder").c_str()), 0);
  EXPECT_TRUE(posix_.files_.RemoveFolder(At("d")).ok());
  EXPECT_EQ(Get("home/a"), "precious");
}

TEST_F(PlantedNamesTest, AFifoIsRefusedInsteadOfRead) {
  ASSERT_EQ(mkfifo(At("fifo").c_str(), 0600), 0);
  EXPECT_EQ(posix_.files_.OpenForReading(At("fifo")).status().code(),
            kPrecondition);
  EXPECT_EQ(ReadWhole(&posix_.files_, At("fifo")).status().code(),
            kPrecondition);
}

// Files can be created but not written.
class FullDisk final : public PosixFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Open(const std::string& path,
                                                     OpenMode mode) override {
    auto made = PosixFileSystem::Open(path, mode);
    if (!made.ok()) return made;
    return PosixFileSystem::Open("/dev/full", OpenMode::kAppend);
  }
};

TEST_F(PlantedNamesTest, NothingIsLeftBesideAFileThatCannotBeWritten) {
  FullDisk disk;
  for (auto* const write : {&PublishFile, &ReplaceFile}) {
    EXPECT_EQ(write(&disk, At("a"), "x").code(),
              absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(posix_.files_.List(posix_.root).value().empty());
  }
}

TEST(FullDiskTest, TheFirstErrorOfAFileStays) {
  PosixFileSystem files;
  auto full = files.Open("/dev/full", OpenMode::kAppend);
  ASSERT_TRUE(full.ok()) << full.status();
  ASSERT_EQ((*full)->StartWriteback(), absl::OkStatus());
  const absl::Status error = (*full)->Append("x");
  EXPECT_EQ(error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ((*full)->Append(""), error);
  EXPECT_EQ((*full)->StartWriteback(), error);
  EXPECT_EQ((*full)->Sync(), error);
}

TEST_F(PlantedNamesTest, WhatIsNoRegularFileIsRefusedAndStays) {
  PlantVictim();
  ASSERT_EQ(symlink(At("victim").c_str(), At("link").c_str()), 0);
  ASSERT_EQ(symlink(At("nothing").c_str(), At("dangling").c_str()), 0);
  ASSERT_EQ(mkfifo(At("fifo").c_str(), 0600), 0);
  for (const char* name : {"link", "dangling", "fifo"}) {
    for (auto* const write : {&PublishFile, &ReplaceFile}) {
      const absl::Status refused = write(&posix_.files_, At(name), "x");
      EXPECT_EQ(refused.code(), kPrecondition) << name;
      EXPECT_NE(refused.message().find(At(name)), std::string::npos);
    }
    EXPECT_EQ(posix_.files_.KindOf(At(name)).value(), FileKind::kOther);
  }
  EXPECT_EQ(Get("victim"), "precious");
}

// The reader of a published file removes it, and its folder, at once.
class Taken final : public PosixFileSystem {
 public:
  absl::Status Rename(const std::string& from, const std::string& to) override {
    absl::Status renamed = PosixFileSystem::Rename(from, to);
    std::filesystem::remove_all(std::filesystem::path(to).parent_path());
    return renamed;
  }
};

TEST(PublishFileTest, ItsFolderMayGoAsSoonAsItIsThere) {
  std::string folder = testing::TempDir() + "published-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  Taken files;
  EXPECT_EQ(PublishFile(&files, folder + "/port", "1"), absl::OkStatus());
}

}  // namespace
}  // namespace lockstep
