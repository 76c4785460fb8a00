// The journal's frames in a folder, in an SQLite database.
//
//   DIR/lock           locked by the process that uses the folder; has its pid
//   DIR/journal.db     table format    one frame: the version of this format
//                      table snapshot  frames of the snapshot: a header, parts
//                      table record    frames of the records after it
//   DIR/journal.db-wal SQLite's write-ahead log
//   DIR/mark           a frame without payload: the newest record that was
//                      reported durable
//
// SQLite notices neither a flipped bit in a page nor, in the log, what it drops
// behind one. So every row is a frame (frame.h), the mark (durable_mark.h)
// tells how many records there must be, and a check of the log (wal_check.h)
// tells how those that are missing were lost.
//
// Threads: one at a time.
// Errors:  DataLoss: damage, with the record. FailedPrecondition: another
//          process uses the folder, a newer version wrote it, others may write
//          to it, it is another user's, or a link of another user.
//          ResourceExhausted: the disk is full; the same call may succeed
//          later. NotFound: no file of a journal. Internal: other errors of
//          SQLite and of files.

#ifndef LOCKSTEP_SERVER_JOURNAL_SQLITE_STORE_H_
#define LOCKSTEP_SERVER_JOURNAL_SQLITE_STORE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "base/file_system.h"
#include "server/journal/durable_mark.h"
#include "server/journal/frame.h"
#include "server/journal/journal.h"
#include "server/journal/private_file.h"
#include "server/journal/store.h"
#include "server/journal/wal_check.h"

struct sqlite3;

namespace lockstep::journal {

inline constexpr uint32_t kFormatVersion = 1;

// What to do about the damage of the journal in `folder`, for people.
std::string DamageAdvice(absl::string_view folder);

class SqliteStore final : public Store {
 public:
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(
      const std::string& folder, StoreAccess access);
  ~SqliteStore() override;
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  absl::StatusOr<StoredJournal> Read() override;
  // One write to the log and one fdatasync. Without any effect unless it
  // returns OK, and so the next one. DataLoss: the files are no longer those
  // that were opened.
  absl::Status Append(uint64_t first, const std::vector<std::string>& frames,
                      const Chain& end) override;
  absl::Status ReplaceBySnapshot(
      const Chain& of, const std::vector<std::string>& parts) override;

  // Replaces an inspected journal by one that has only this snapshot, of
  // the records up to `of`. Keeps the old files in a new folder DIR/damaged-N
  // and returns its path. If it fails or is interrupted, it may be repeated;
  // what needs room on the disk comes before any change.
  absl::StatusOr<std::string> ReplaceDamaged(
      uint64_t of, const std::vector<std::string>& parts);

  // Copies the log into the database if the log has become long. An error is
  // only a reason to try again later.
  void Maintain() override;

 private:
  SqliteStore(std::string folder, StoreAccess access);

  std::string PathOf(const char* name) const;
  absl::Status Create();
  bool WasBeingCreated();
  absl::Status WriteMark(const char* name, const Chain& newest);
  absl::Status WriteNewDatabase(const Chain& of,
                                const std::vector<std::string>& parts);
  absl::Status FillNewDatabase(const Chain& of,
                               const std::vector<std::string>& parts);
  absl::StatusOr<std::string> LinkAside();
  absl::Status InsertSnapshot(const Chain& of,
                              const std::vector<std::string>& parts);
  absl::Status Lock();
  absl::Status LockForReading(const std::string& path);
  absl::Status OpenDatabase(const std::string& path);
  int OpenForReading(const std::string& path);
  absl::Status CheckFormat();
  absl::Status ReadSnapshot(StoredJournal* stored);
  absl::Status ReadRecords(StoredJournal* stored);
  absl::Status ReadLog();
  void NoteHashAtMark(const Chain& chain);
  absl::Status CheckMark(StoredJournal* stored) const;
  absl::Status BeginMark(StoredJournal* stored);
  absl::Status CheckFiles() const;
  absl::Status Execute(const char* sql);
  absl::Status Transact(const std::function<absl::Status()>& change);
  absl::Status Failed(const std::string& what) const;

  const std::string folder_;
  const StoreAccess access_;
  PosixFileSystem files_;
  std::unique_ptr<FileLock> lock_;  // null with kRead
  FileDescriptor read_lock_;        // with kRead, if there is a lock
  sqlite3* db_ = nullptr;
  DurableMark mark_;                      // as it was read
  std::optional<uint64_t> hash_at_mark_;  // as JournalEnd's
  std::optional<WalExtent> log_;          // before SQLite opened it
  std::optional<MarkFile> mark_file_;     // with kWrite, after Read
  std::optional<ino_t> opened_;           // the database's, with kWrite
  int log_pages_ = 0;                     // after the last commit
};

// A journal that survives kill -9 and a power failure. Locks the folder until
// it is destroyed.
absl::StatusOr<std::unique_ptr<Journal>> OpenSqliteJournal(
    const std::string& folder);

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_SQLITE_STORE_H_
