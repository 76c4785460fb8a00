#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "server/journal/sqlite_statement.h"
#include "server/journal/sqlite_store.h"
#include "tests/server/journal/journal_contract.h"
#include "tests/server/journal/journal_folder.h"

namespace lockstep::journal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class SqliteShelf : public JournalShelf {
 public:
  std::unique_ptr<Journal> Open() override {
    auto journal = OpenSqliteJournal(folder_.path());
    EXPECT_TRUE(journal.ok()) << journal.status();
    return *std::move(journal);
  }
  void FlipBit(int number) override {
    folder_.Run(absl::StrCat(
        "UPDATE record SET frame = substr(frame, 1, length(frame) - 1) || "
        "x'00' WHERE id = ",
        number));
  }
  void Remove(int number) override {
    folder_.Run(absl::StrCat("DELETE FROM record WHERE id = ", number));
  }
  // Appends the last record anew, so that it is in the log, and cuts the log.
  // The mark is that of the record before, as in a crash before the commit of
  // the last one was reported.
  void TearLast() override {
    SetMarkBeforeLast();
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(folder_.File("journal.db").c_str(), &db), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    const char* const move =
        "CREATE TEMP TABLE torn AS SELECT * FROM record ORDER BY id DESC "
        "LIMIT 1;"
        "DELETE FROM record WHERE id = (SELECT id FROM torn);"
        "INSERT INTO record SELECT * FROM torn;";
    ASSERT_EQ(sqlite3_exec(db, move, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
    const std::string log = folder_.Read("journal.db-wal");
    ASSERT_FALSE(log.empty());
    ASSERT_EQ(truncate(folder_.File("journal.db-wal").c_str(),
                       static_cast<off_t>(log.size()) - 10),
              0);
  }

 private:
  void SetMarkBeforeLast() {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(folder_.File("journal.db").c_str(), &db), SQLITE_OK);
    {
      SqliteStatement select(
          db, "SELECT id, frame FROM record ORDER BY id DESC LIMIT 1, 1");
      ASSERT_TRUE(select.Step());
      folder_.Write("mark", Encode({.number = select.Number(0),
                                    .predecessor = HashOf(select.Column(1))}));
    }
    sqlite3_close(db);
  }

  JournalFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, JournalContract, testing::Values([] {
                           return std::make_unique<SqliteShelf>();
                         }));

int ModeOf(const std::string& path) {
  struct stat found = {};
  EXPECT_EQ(stat(path.c_str(), &found), 0) << path;
  return found.st_mode & 0777;
}

TEST(SqliteJournalTest, NobodyElseMayReadIt) {
  const JournalFolder folder;
  auto journal = OpenSqliteJournal(folder.path());
  ASSERT_TRUE(journal.ok()) << journal.status();
  ASSERT_TRUE((*journal)->Load().ok());
  Appender appender(journal->get());
  appender.Append("one");
  appender.AwaitAll();
  EXPECT_EQ(ModeOf(folder.path()), 0700);
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(file.path().filename());
    EXPECT_EQ(ModeOf(file.path()), 0600) << file.path();
  }
  EXPECT_THAT(names, UnorderedElementsAre("journal.db", "journal.db-wal",
                                          "lock", "mark"));
}

// As an older version left its lock.
TEST(SqliteJournalTest, FilesThatOthersMayReadBecomePrivate) {
  const JournalFolder folder;
  folder.AppendAll({"one"});
  for (const char* name : {"journal.db", "lock", "mark"}) {
    ASSERT_EQ(chmod(folder.File(name).c_str(), 0644), 0);
  }
  ASSERT_TRUE(folder.Load().ok());
  for (const char* name : {"journal.db", "lock", "mark"}) {
    EXPECT_EQ(ModeOf(folder.File(name)), 0600) << name;
  }
}

TEST(SqliteJournalTest, AFolderThatOthersMayWriteToIsRefused) {
  const JournalFolder folder;
  ASSERT_EQ(mkdir(folder.path().c_str(), 0700), 0);
  ASSERT_EQ(chmod(folder.path().c_str(), 0770), 0);
  const auto journal = OpenSqliteJournal(folder.path());
  EXPECT_EQ(journal.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(journal.status().message()), HasSubstr("mode 770"));
}

TEST(SqliteJournalTest, ASecondOneIsRefusedAndNamesTheProcessOfTheFirst) {
  const JournalFolder folder;
  const auto first = OpenSqliteJournal(folder.path());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = OpenSqliteJournal(folder.path());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(absl::StrCat("process ", getpid())));
}

TEST(SqliteJournalTest, ANewerFormatIsRefused) {
  const JournalFolder folder;
  folder.AppendAll({"one"});
  const std::string frame = Encode({.payload = "lockstep journal 2"});
  std::string hex;
  for (const unsigned char byte : frame) {
    absl::StrAppend(&hex, absl::Hex(byte, absl::kZeroPad2));
  }
  folder.Run(absl::StrCat("UPDATE format SET frame = x'", hex, "'"));
  const absl::Status status = folder.Load().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("format 2"));
}

TEST(SqliteJournalTest, WithoutItsDatabaseItDoesNotBeginAnew) {
  const JournalFolder folder;
  for (const char* left : {"mark", "journal.db-wal"}) {
    folder.AppendAll({"one"});
    folder.Write("journal.db-wal", "");
    for (const char* name : {"journal.db", "journal.db-wal", "mark"}) {
      if (name != std::string(left)) unlink(folder.File(name).c_str());
    }
    const absl::Status status = folder.Load().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << left;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("journal.db is missing"), HasSubstr(left)));
    EXPECT_FALSE(std::filesystem::exists(folder.File("journal.db")));
    unlink(folder.File(left).c_str());
  }
}

// As after rm mark journal.db-wal, or of a copy of journal.db alone: the
// records of a process that was killed are in the log.
TEST(SqliteJournalTest, ADatabaseAloneIsRefusedThoughItIsEmpty) {
  const JournalFolder folder;
  ASSERT_TRUE(folder.Load().ok());
  unlink(folder.File("mark").c_str());
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = folder.Load().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("mark is missing"));
  }
}

TEST(SqliteJournalTest, ACreationThatWasInterruptedBeginsAnew) {
  const JournalFolder folder;
  ASSERT_TRUE(folder.Load().ok());
  const std::string mark = folder.Read("mark");
  for (const std::string& left : {std::string(), mark.substr(0, 9), mark}) {
    std::filesystem::rename(folder.File("journal.db"),
                            folder.File("journal.db.new"));
    folder.Write("mark", left);
    const auto loaded = folder.Load();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_FALSE(std::filesystem::exists(folder.File("journal.db.new")));
    EXPECT_EQ(folder.Read("mark"), mark);
  }
}

TEST(SqliteJournalTest, AnInspectionNamesAMissingDatabase) {
  const JournalFolder folder;
  ASSERT_EQ(mkdir(folder.path().c_str(), 0700), 0);
  const auto open = [&](StoreAccess access) {
    return SqliteStore::Open(folder.path(), access).status();
  };
  for (const StoreAccess access : {StoreAccess::kInspect, StoreAccess::kRead}) {
    EXPECT_EQ(open(access).code(), absl::StatusCode::kNotFound);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "it made no lock";
  for (const char* left : {"lock", "mark", "journal.db-wal"}) {
    folder.Write(left, "");
    for (const StoreAccess access :
         {StoreAccess::kInspect, StoreAccess::kRead}) {
      const absl::Status missing = open(access);
      EXPECT_EQ(missing.code(), absl::StatusCode::kDataLoss) << left;
      EXPECT_THAT(std::string(missing.message()),
                  AllOf(HasSubstr("journal.db is missing"), HasSubstr(left)));
    }
  }
}

TEST(SqliteJournalTest, ReadersExcludeADaemonAndNotOneAnother) {
  const JournalFolder folder;
  folder.AppendAll({"one"});
  const auto open = [&](StoreAccess access) {
    return SqliteStore::Open(folder.path(), access);
  };
  {
    const auto reader = open(StoreAccess::kRead);
    ASSERT_TRUE(reader.ok()) << reader.status();
    const auto stored = (*reader)->Read();
    ASSERT_TRUE(stored.ok()) << stored.status();
    EXPECT_TRUE(stored->damage.ok()) << stored->damage;
    EXPECT_EQ(stored->records, std::vector<std::string>{"one"});
    EXPECT_TRUE(open(StoreAccess::kRead).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(open(StoreAccess::kWrite).status()));
  }
  const auto daemon = open(StoreAccess::kWrite);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  const absl::Status refused = open(StoreAccess::kRead).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("is in use"),
                    HasSubstr(absl::StrCat("process ", getpid()))));
}

TEST(SqliteJournalTest, AnOlderCopyOfItsDatabaseIsRefused) {
  const JournalFolder folder;
  folder.AppendAll({"one"});
  const std::string old = folder.Read("journal.db");
  folder.AppendAll({"two"});
  folder.Write("journal.db", old);
  const absl::Status status = folder.Load().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("record 2"));
}

// As by a clean-up of /tmp, or by somebody who restores a copy too early.
TEST(SqliteJournalTest, FilesThatChangeUnderItEndIt) {
  struct Change {
    const char* file;
    std::function<void(const std::string&)> make;
  };
  const auto remove = [](const std::string& path) { unlink(path.c_str()); };
  const auto cut = [](const std::string& path) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  };
  const auto replace = [](const std::string& path) {
    std::filesystem::copy_file(path, path + ".copy");
    std::filesystem::rename(path + ".copy", path);
  };
  for (const Change& change : {Change{"journal.db", remove},
                               {"journal.db", replace},
                               {"journal.db-wal", remove},
                               {"journal.db-wal", cut}}) {
    const JournalFolder folder;
    auto journal = OpenSqliteJournal(folder.path());
    ASSERT_TRUE(journal.ok() && (*journal)->Load().ok());
    Appender appender(journal->get());
    appender.Append("one");
    appender.AwaitAll();
    change.make(folder.File(change.file));
    appender.Append("two");
    EXPECT_THAT(appender.AwaitAll().back(),
                AllOf(HasSubstr("DATA_LOSS"), HasSubstr(change.file)));
  }
}

// The records of a year would fill any disk.
TEST(SqliteJournalTest, ItsFilesStaySmallWhenItIsCompacted) {
  const JournalFolder folder;
  auto journal = OpenSqliteJournal(folder.path());
  ASSERT_TRUE(journal.ok()) << journal.status();
  ASSERT_TRUE((*journal)->Load().ok());
  Appender appender(journal->get());
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 100; ++i) appender.Append(std::string(10'000, 'x'));
    (*journal)->Compact([] { return std::vector<std::string>(1, "sum"); });
    appender.AwaitAll();
  }
  journal->reset();
  EXPECT_LT(std::filesystem::file_size(folder.File("journal.db")), 4'000'000u);
}

TEST(SqliteJournalTest, ItsDestructorCommitsWhatWasAppended) {
  const JournalFolder folder;
  auto journal = OpenSqliteJournal(folder.path());
  ASSERT_TRUE(journal.ok()) << journal.status();
  ASSERT_TRUE((*journal)->Load().ok());
  std::vector<absl::Status> told;
  for (int i = 0; i < 50; ++i) {
    (*journal)->Append("record", [&](absl::Status status) {
      told.push_back(std::move(status));
    });
  }
  journal->reset();
  EXPECT_THAT(told, testing::SizeIs(50));
  EXPECT_EQ(folder.Load()->records.size(), 50u);
}

}  // namespace
}  // namespace lockstep::journal
