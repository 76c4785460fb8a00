// Damaged files of a journal: no flipped byte and no cut makes a wrong record.

#include <filesystem>
#include <random>

#include "tests/server/journal/journal_contract.h"
#include "tests/server/journal/journal_folder.h"

namespace lockstep::journal {
namespace {

using testing::AllOf;
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
    auto journal = OpenSqliteJournal(folder_.path());
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
      if (!all && random() % (often ? 15 : 450) != 0) continue;
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

// The mark as it is when the first `count` records have been reported.
std::string MarkAfter(size_t count) {
  Chain chain;
  for (size_t i = 0; i < count; ++i) chain.Extend(DamageRecords()[i]);
  return Encode(
      {.number = chain.last_number(), .predecessor = chain.last_hash()});
}

// Sizes at which a log may be cut: between two frames, and within them.
std::vector<size_t> CutsOf(size_t log_bytes) {
  constexpr size_t kHeader = 32;
  constexpr size_t kFrame = 24 + 4096;
  std::vector<size_t> cuts = {1, kHeader - 1};
  for (size_t frame = kHeader; frame < log_bytes; frame += kFrame) {
    cuts.push_back(frame);
    cuts.push_back(frame + 10);
    cuts.push_back(frame + kFrame / 2);
  }
  return cuts;
}

TEST_P(DamageTest, ACutLogIsRefusedIfADurableRecordIsGone) {
  const std::string& log = killed_.files().at("journal.db-wal");
  int refused = 0;
  for (const size_t size : CutsOf(log.size())) {
    const auto kept = killed_.LoadWith("journal.db-wal", log.substr(0, size));
    if (kept.ok()) {
      EXPECT_EQ(kept->records, DamageRecords()) << size;
      continue;
    }
    ++refused;
    EXPECT_EQ(kept.status().code(), absl::StatusCode::kDataLoss) << size;
    EXPECT_THAT(std::string(kept.status().message()),
                AllOf(HasSubstr("of 5 records that were durable are gone"),
                      HasSubstr("journal.db-wal ends at byte")))
        << size;
    EXPECT_EQ(killed_.folder().Read("journal.db-wal"), log.substr(0, size));
  }
  EXPECT_EQ(refused > 5, GetParam() < DamageRecords().size());
}

// As a crash leaves it: the records behind the mark were not reported.
TEST_P(DamageTest, ATornLogLosesOnlyRecordsThatWereNotReported) {
  const std::string& log = killed_.files().at("journal.db-wal");
  const auto& all = DamageRecords();
  for (const size_t marked : {GetParam(), size_t{5}}) {
    int kept_some = 0;
    for (const size_t size : CutsOf(log.size())) {
      for (const auto& [name, content] : killed_.files()) {
        killed_.folder().Write(name, content);
      }
      killed_.folder().Write("journal.db-wal", log.substr(0, size));
      killed_.folder().Write("mark", MarkAfter(marked));
      const auto kept = killed_.folder().Load();
      if (!kept.ok()) {
        EXPECT_EQ(kept.status().code(), absl::StatusCode::kDataLoss) << size;
        continue;
      }
      ++kept_some;
      const size_t left = kept->records.size();
      ASSERT_GE(left, marked) << size;
      EXPECT_EQ(kept->records,
                std::vector<std::string>(all.begin(), all.begin() + left));
    }
    if (marked == GetParam()) {
      EXPECT_EQ(kept_some, CutsOf(log.size()).size());
    }
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

// Too short, too long and flipped: a note says so once, and the next daemon has
// a mark that proves something again.
TEST_P(DamageTest, ADamagedMarkIsWrittenAnew) {
  const std::string whole = killed_.files().at("mark");
  std::string flipped = whole;
  flipped[10] = static_cast<char>(flipped[10] ^ 1);
  for (const std::string& mark :
       {std::string(), whole.substr(0, 10), whole + "x", flipped,
        whole + std::string(9'000, 'x')}) {
    const auto kept = killed_.LoadWith("mark", mark);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(kept->records, DamageRecords());
    EXPECT_THAT(kept->notes,
                testing::ElementsAre(HasSubstr("mark is damaged")));
    EXPECT_EQ(killed_.folder().Read("mark"), whole) << mark.size() << " bytes";
    EXPECT_THAT(killed_.folder().Load()->notes, testing::IsEmpty());
  }
}

// Copies of a journal's files, taken after each record.
class OlderCopyTest : public testing::Test {
 protected:
  using Files = std::map<std::string, std::string>;

  OlderCopyTest() {
    auto journal = OpenSqliteJournal(folder_.path());
    EXPECT_TRUE(journal.ok() && (*journal)->Load().ok());
    Appender appender(journal->get());
    for (const std::string& record : DamageRecords()) {
      appender.Append(record);
      appender.AwaitAll();
      // A snapshot is another transaction; it has the same records.
      if (copies_.size() == 2) {
        (*journal)->Compact([] { return std::vector<std::string>{"sum"}; });
        appender.Append("after the snapshot");
        appender.AwaitAll();
      }
      Files copy;
      for (const char* name : {"journal.db", "journal.db-wal", "mark"}) {
        copy[name] = folder_.Read(name);
      }
      copies_.push_back(std::move(copy));
    }
  }

  absl::StatusOr<LoadedJournal> LoadFiles(const Files& files) {
    std::filesystem::remove_all(folder_.path());
    std::filesystem::create_directory(folder_.path());
    std::filesystem::permissions(folder_.path(),
                                 std::filesystem::perms::owner_all);
    for (const auto& [name, content] : files) folder_.Write(name, content);
    return folder_.Load();
  }

  JournalFolder folder_;
  std::vector<Files> copies_;
};

// The newest record of a journal.
uint64_t EndOf(const LoadedJournal& journal) {
  return journal.snapshot_of + journal.records.size();
}

TEST_F(OlderCopyTest, BesideANewerMarkIsRefused) {
  for (size_t old = 0; old < copies_.size(); ++old) {
    const auto whole = LoadFiles(copies_[old]);
    ASSERT_TRUE(whole.ok()) << whole.status();  // no file knows of a newer one
    for (size_t later = old + 1; later < copies_.size(); ++later) {
      Files mixed = copies_[old];
      mixed["mark"] = copies_[later]["mark"];
      const absl::Status status = LoadFiles(mixed).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << old << later;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(absl::StrCat("record ", EndOf(*whole) + 1)),
                        HasSubstr("older copy")));
    }
  }
}

TEST_F(OlderCopyTest, OfOneFileIsRefusedOrHarmless) {
  int refused = 0;
  for (const char* name : {"journal.db", "journal.db-wal"}) {
    for (size_t old = 0; old + 1 < copies_.size(); ++old) {
      Files mixed = copies_.back();
      mixed[name] = copies_[old][name];
      const auto kept = LoadFiles(mixed);
      refused += !kept.ok();
      if (!kept.ok()) {
        EXPECT_EQ(kept.status().code(), absl::StatusCode::kDataLoss);
      } else {
        EXPECT_EQ(EndOf(*kept), 6u) << name << " of " << old;
      }
    }
  }
  EXPECT_GE(refused, 4);
}

TEST_F(OlderCopyTest, WithoutAMarkIsRefused) {
  for (Files files : copies_) {
    files.erase("mark");
    for (int i = 0; i < 2; ++i) {
      const absl::Status status =
          i == 0 ? LoadFiles(files).status() : folder_.Load().status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(status.message()), HasSubstr("mark is missing"));
    }
  }
}

TEST_F(OlderCopyTest, OfAnotherJournalIsRefusedIfItIsLongerToo) {
  Files files = copies_.back();
  const JournalFolder other;
  other.AppendAll({"another"});
  files["mark"] = other.Read("mark");
  EXPECT_TRUE(LoadFiles(files).ok()) << "record 1 is in the snapshot";
  files = copies_[1];
  files["mark"] = other.Read("mark");
  const absl::Status status = LoadFiles(files).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another journal"));
}

TEST(DamagedSnapshotTest, APartIsNamed) {
  const JournalFolder folder;
  {
    auto journal = OpenSqliteJournal(folder.path());
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
