// Damaged files of a journal: no flipped byte and no cut makes a wrong record.

#include <filesystem>
#include <random>

#include "tests/server/journal/journal_contract.h"
#include "tests/server/journal/journal_folder.h"

namespace lockstep::journal {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

const std::vector<std::string>& DamageRecords() {
  static const auto& records = *new std::vector<std::string>{
      "one", std::string(300, 'b'), "three", std::string(9'000, 'd'), "five"};
  return records;
}

// A journal whose newest records are in the log, as after kill -9, and a copy
// of its files.
class KilledJournal {
 public:
  // The first `in_database` records are in the database file.
  explicit KilledJournal(size_t in_database) {
    const auto& all = DamageRecords();
    folder_.AppendAll({all.begin(), all.begin() + in_database});
    auto journal = SqliteJournal::Open(folder_.path());
    EXPECT_TRUE(journal.ok() && (*journal)->Load().ok());
    Appender appender(journal->get());
    for (size_t i = in_database; i < all.size(); ++i) {
      appender.Append(all[i]);
      appender.AwaitAll();
    }
    for (const char* name : {"journal.db", "journal.db-wal", "mark"}) {
      files_[name] = folder_.Read(name);
    }
  }

  const std::map<std::string, std::string>& files() const { return files_; }

  // Loads a copy of which one file has other bytes.
  absl::StatusOr<LoadedJournal> LoadWith(const std::string& changed,
                                         const std::string& bytes) {
    for (const auto& [name, content] : files_) {
      folder_.Write(name, name == changed ? bytes : content);
    }
    return folder_.Load();
  }
  const JournalFolder& folder() const { return folder_; }

 private:
  JournalFolder folder_;
  std::map<std::string, std::string> files_;
};

// All records, or an error that names what is damaged. A damaged mark proves
// nothing, and a note says so.
void ExpectNothingWrong(const absl::StatusOr<LoadedJournal>& kept,
                        const std::string& what) {
  if (kept.ok()) {
    EXPECT_EQ(kept->records, DamageRecords()) << what;
    return;
  }
  EXPECT_THAT(kept.status().code(),
              AnyOf(absl::StatusCode::kDataLoss, absl::StatusCode::kInternal))
      << what << ": " << kept.status();
  EXPECT_THAT(std::string(kept.status().message()),
              AnyOf(HasSubstr("damaged"), HasSubstr("journal.db"),
                    HasSubstr("malformed"), HasSubstr("SQLite")))
      << what;
}

class DamageTest : public testing::TestWithParam<size_t> {
 protected:
  KilledJournal killed_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(InTheDatabase, DamageTest, testing::Values(0, 2, 5));

// LOCKSTEP_JOURNAL_BYTES=all: every byte, which takes minutes.
TEST_P(DamageTest, AFlippedBitIsNoticedOrHarmless) {
  const bool all = getenv("LOCKSTEP_JOURNAL_BYTES") != nullptr;
  std::mt19937 random(7 + GetParam());
  int refused = 0;
  for (const auto& [name, content] : killed_.files()) {
    for (size_t at = 0; at < content.size(); ++at) {
      // The structure of SQLite's pages is at their beginnings and ends.
      const size_t in_page = at % 4096;
      const bool often = in_page < 120 || name == "mark";
      if (!all && random() % (often ? 10 : 300) != 0) continue;
      std::string flipped = content;
      const int bit = static_cast<int>(random() % 8);
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      const auto kept = killed_.LoadWith(name, flipped);
      ExpectNothingWrong(kept,
                         absl::StrCat(name, ", byte ", at, ", bit ", bit));
      refused += !kept.ok();
    }
  }
  EXPECT_GT(refused, 10);
}

TEST_P(DamageTest, ACutLogLosesItsEndOnlyAndANoteSaysSo) {
  const std::string& log = killed_.files().at("journal.db-wal");
  for (size_t size = 1; size <= log.size(); size += 997) {
    const auto kept = killed_.LoadWith("journal.db-wal", log.substr(0, size));
    ASSERT_TRUE(kept.ok()) << size << ": " << kept.status();
    const auto& all = DamageRecords();
    const size_t left = kept->records.size();
    EXPECT_GE(left, GetParam());
    EXPECT_EQ(kept->records,
              std::vector<std::string>(all.begin(), all.begin() + left));
    EXPECT_EQ(kept->notes.empty(), left == all.size()) << size;
    if (left == all.size()) continue;
    EXPECT_THAT(kept->notes[0],
                HasSubstr(absl::StrCat("from record ", left + 1, " on")));
  }
}

// An attempt to load it leaves an empty log behind, which is no torn one.
TEST_P(DamageTest, AMissingLogIsRefusedEachTime) {
  if (GetParam() == DamageRecords().size()) return;  // it has no record
  for (const auto& [name, content] : killed_.files()) {
    killed_.folder().Write(name, content);
  }
  std::filesystem::remove(killed_.folder().File("journal.db-wal"));
  for (int i = 0; i < 3; ++i) {
    const auto kept = killed_.folder().Load();
    ASSERT_FALSE(kept.ok()) << kept->records.size() << " records";
    EXPECT_EQ(kept.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(kept.status().message()), HasSubstr("are gone"));
  }
}

TEST_P(DamageTest, ACutDatabaseIsRefused) {
  const std::string& database = killed_.files().at("journal.db");
  for (size_t size = 0; size < database.size(); size += 511) {
    const auto kept = killed_.LoadWith("journal.db", database.substr(0, size));
    ExpectNothingWrong(kept, absl::StrCat("cut at ", size));
  }
}

TEST_P(DamageTest, WhatWasRefusedIsNotChanged) {
  std::string flipped =
      killed_.files().at(GetParam() == 5 ? "journal.db" : "journal.db-wal");
  const std::string name = GetParam() == 5 ? "journal.db" : "journal.db-wal";
  const size_t at = flipped.rfind("ddd");
  flipped[at] = 'e';
  EXPECT_FALSE(killed_.LoadWith(name, flipped).ok());
  EXPECT_FALSE(killed_.folder().Load().ok()) << "nor the second time";
  for (const auto& [file, content] : killed_.files()) {
    EXPECT_EQ(killed_.folder().Read(file), file == name ? flipped : content)
        << file;
  }
}

TEST(DamagedSnapshotTest, APartIsNamed) {
  const JournalFolder folder;
  {
    auto journal = SqliteJournal::Open(folder.path());
    ASSERT_TRUE(journal.ok() && (*journal)->Load().ok());
    Appender appender(journal->get());
    appender.Append("one");
    (*journal)->Compact([] {
      return std::vector<std::string>{"first", "second"};
    });
    appender.AwaitAll();
  }
  folder.Run("UPDATE snapshot SET frame = frame || x'00' WHERE id = 2");
  EXPECT_THAT(std::string(folder.Load().status().message()),
              HasSubstr("part 2 of the snapshot is damaged"));
  folder.Run("DELETE FROM snapshot WHERE id = 2");
  EXPECT_THAT(std::string(folder.Load().status().message()),
              HasSubstr("the snapshot has 1 parts of 2"));
  folder.Run("DELETE FROM snapshot");
  EXPECT_THAT(std::string(folder.Load().status().message()),
              HasSubstr("record 1 of the journal is damaged"));
}

}  // namespace
}  // namespace lockstep::journal
