// A prepared statement of SQLite. Its errors stay in the connection.
//
// Threads: that of the connection.

#ifndef LOCKSTEP_SERVER_JOURNAL_SQLITE_STATEMENT_H_
#define LOCKSTEP_SERVER_JOURNAL_SQLITE_STATEMENT_H_

#include <sqlite3.h>

#include <cstdint>

#include "absl/strings/string_view.h"

namespace lockstep::journal {

class SqliteStatement {
 public:
  SqliteStatement(sqlite3* db, const char* sql) {
    code_ = sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr);
  }
  ~SqliteStatement() { sqlite3_finalize(statement_); }
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  // The bytes must live until the next Reset.
  void Bind(int at, absl::string_view bytes) {
    if (!ok()) return;
    // Not null: an empty blob with a null pointer would be NULL.
    code_ =
        sqlite3_bind_blob64(statement_, at, bytes.empty() ? "" : bytes.data(),
                            bytes.size(), SQLITE_STATIC);
  }
  void Bind(int at, uint64_t number) {
    if (!ok()) return;
    code_ =
        sqlite3_bind_int64(statement_, at, static_cast<sqlite3_int64>(number));
  }

  // True if there is a row.
  bool Step() {
    if (!ok()) return false;
    code_ = sqlite3_step(statement_);
    return code_ == SQLITE_ROW;
  }
  void Reset() {
    if (ok()) code_ = sqlite3_reset(statement_);
  }

  // The current row's, valid until the next Step.
  absl::string_view Column(int at) const {
    const void* bytes = sqlite3_column_blob(statement_, at);
    const int size = sqlite3_column_bytes(statement_, at);
    return bytes == nullptr
               ? absl::string_view()
               : absl::string_view(static_cast<const char*>(bytes), size);
  }

  uint64_t Number(int at) const {
    return static_cast<uint64_t>(sqlite3_column_int64(statement_, at));
  }

  bool ok() const {
    return code_ == SQLITE_OK || code_ == SQLITE_ROW || code_ == SQLITE_DONE;
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int code_;
};

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_SQLITE_STATEMENT_H_
