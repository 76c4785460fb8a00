// Journals of every release (release_journal.h): their frames, and a folder.

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/journal/frame.h"
#include "tests/server/journal/journal_folder.h"
#include "tests/server/journal/release_journal.h"

namespace lockstep::journal {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAreArray;

NamedBytes FramesOfRelease() {
  NamedBytes frames;
  Chain chain;
  const auto extend = [&](const std::string& payload) {
    const std::string frame = chain.Extend(payload);
    frames.emplace_back(absl::StrCat("record-", chain.last_number()), frame);
  };
  for (const std::string& payload : kReleaseReplaced) extend(payload);
  int part = 0;
  for (const std::string& frame : SnapshotFrames(chain, kReleaseSnapshot)) {
    frames.emplace_back(absl::StrCat("snapshot-", part++), frame);
  }
  for (const std::string& payload : kReleaseRecords) extend(payload);
  return frames;
}

void ExpectRelease(const absl::StatusOr<LoadedJournal>& loaded) {
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->snapshot, ElementsAreArray(kReleaseSnapshot));
  EXPECT_EQ(loaded->snapshot_of, kReleaseReplaced.size());
  EXPECT_THAT(loaded->records, ElementsAreArray(kReleaseRecords));
}

// A folder of this version, in the golden files.
void WriteFolder(const fs::path& to) {
  const JournalFolder folder;
  folder.AppendAll(kReleaseReplaced);
  {
    auto journal = OpenSqliteJournal(folder.path());
    ASSERT_TRUE(journal.ok() && (*journal)->Load().ok());
    (*journal)->Compact([] { return kReleaseSnapshot; });
    Appender appender(journal->get());
    for (const std::string& record : kReleaseRecords) appender.Append(record);
    EXPECT_EQ(appender.AwaitAll(), kReleaseRecords);
  }
  fs::remove_all(to);
  fs::create_directories(to);
  for (const auto& file : fs::directory_iterator(folder.path())) {
    if (file.path().filename() == "lock") continue;
    fs::copy_file(file.path(), to / file.path().filename());
  }
}

TEST(ReleaseTest, FramesHaveNotChanged) {
  const fs::path file = ReleaseFolder(LOCKSTEP_VERSION) / "frames.txt";
  if (WritesGolden()) WriteNamedBytes(file, FramesOfRelease());
  EXPECT_EQ(ReadNamedBytes(file), FramesOfRelease())
      << "a journal of the version before could not be read; if this is meant, "
         "raise the format, and run with LOCKSTEP_UPDATE_GOLDEN=1";
}

TEST(ReleaseTest, FramesOfEveryReleaseAreRead) {
  for (const std::string& version : Releases()) {
    SCOPED_TRACE(version);
    Chain chain;
    std::vector<std::string> records, snapshot;
    for (const auto& [name, bytes] :
         ReadNamedBytes(ReleaseFolder(version) / "frames.txt")) {
      if (name.rfind("snapshot-", 0) == 0) {
        snapshot.push_back(bytes);
        continue;
      }
      const auto payload = chain.Follow(bytes);
      ASSERT_TRUE(payload.ok()) << name << ": " << payload.status();
      records.push_back(*payload);
    }
    EXPECT_EQ(records.size(), 4u);
    EXPECT_EQ(records.back(), kReleaseRecords.back());
    const auto read = ReadSnapshot(snapshot);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_THAT(read->parts, ElementsAreArray(kReleaseSnapshot));
    EXPECT_EQ(read->of.last_number(), kReleaseReplaced.size());
  }
}

// And goes on behind it.
TEST(ReleaseTest, AFolderOfEveryReleaseIsRead) {
  if (WritesGolden()) WriteFolder(ReleaseFolder(LOCKSTEP_VERSION) / "folder");
  ASSERT_FALSE(Releases().empty());
  for (const std::string& version : Releases()) {
    SCOPED_TRACE(version);
    const JournalFolder folder;
    ASSERT_EQ(mkdir(folder.path().c_str(), 0700), 0);
    for (const auto& file :
         fs::directory_iterator(ReleaseFolder(version) / "folder")) {
      fs::copy_file(file.path(), folder.File(file.path().filename()));
    }
    ExpectRelease(folder.Load());
    folder.AppendAll({"five"});
    const auto then = folder.Load();
    ASSERT_TRUE(then.ok()) << then.status();
    EXPECT_EQ(then->records.back(), "five");
  }
}

}  // namespace
}  // namespace lockstep::journal
