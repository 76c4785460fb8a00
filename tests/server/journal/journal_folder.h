// A journal's folder in a test: made empty, removed at the end.

#ifndef LOCKSTEP_TESTS_SERVER_JOURNAL_JOURNAL_FOLDER_H_
#define LOCKSTEP_TESTS_SERVER_JOURNAL_JOURNAL_FOLDER_H_

#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/journal/sqlite_store.h"
#include "tests/server/journal/journal_contract.h"

namespace lockstep::journal {

class JournalFolder {
 public:
  JournalFolder() {
    std::string pattern = testing::TempDir() + "lockstep-journal-XXXXXX";
    parent_ = mkdtemp(pattern.data());
  }
  ~JournalFolder() { std::filesystem::remove_all(parent_); }

  std::string path() const { return parent_ + "/journal"; }
  std::string File(const std::string& name) const {
    return path() + "/" + name;
  }

  std::string Read(const std::string& name) const {
    std::ifstream in(File(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(File(name), std::ios::binary) << bytes;
  }

  // Runs SQL on the database as another program would.
  void Run(const std::string& sql) const {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(File("journal.db").c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr),
              SQLITE_OK)
        << sqlite3_errmsg(db);
    sqlite3_close(db);
  }

  absl::StatusOr<LoadedJournal> Load() const {
    auto journal = OpenSqliteJournal(path());
    if (!journal.ok()) return journal.status();
    return (*journal)->Load();
  }

  // Appends one record after the other, each in a commit of its own.
  void AppendAll(const std::vector<std::string>& records) const {
    auto journal = OpenSqliteJournal(path());
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_TRUE((*journal)->Load().ok());
    Appender appender(journal->get());
    for (const std::string& record : records) {
      appender.Append(record);
      appender.AwaitAll();
    }
  }

 private:
  std::string parent_;
};

}  // namespace lockstep::journal

#endif  // LOCKSTEP_TESTS_SERVER_JOURNAL_JOURNAL_FOLDER_H_
