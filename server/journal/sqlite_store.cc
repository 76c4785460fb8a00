#include "server/journal/sqlite_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "server/journal/group_commit_journal.h"
#include "server/journal/sqlite_statement.h"
#include "server/journal/wal_check.h"

namespace lockstep::journal {
namespace {

constexpr char kDatabase[] = "journal.db";
constexpr char kLog[] = "journal.db-wal";
constexpr char kNewDatabase[] = "journal.db.new";
constexpr char kMark[] = "mark";
constexpr char kNewMark[] = "mark.new";
constexpr char kLock[] = "lock";
constexpr char kFormatPrefix[] = "lockstep journal ";

// Pages of the log from which it is copied into the database: 4 MB.
constexpr int kLogPagesLong = 1000;

// https://www.sqlite.org/fileformat2.html#walformat
constexpr int64_t kLogHeaderBytes = 32;
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kLogPageBytes = kPageBytes + 24;

std::string WithoutTrailingSlash(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

// Nullopt: there is no such file.
std::optional<ino_t> InodeOf(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return std::nullopt;
  return found.st_ino;
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

absl::Status Damaged(const std::string& what) {
  return absl::DataLossError(what);
}

// The files of a journal that exist, other than its database.
std::vector<std::string> OtherFiles(const std::string& folder) {
  std::vector<std::string> found;
  for (const char* name : {kMark, kLog, kNewDatabase, kLock}) {
    if (Exists(absl::StrCat(folder, "/", name))) found.emplace_back(name);
  }
  return found;
}

absl::Status NoDatabase(const std::string& folder,
                        const std::vector<std::string>& others) {
  return Damaged(absl::StrFormat(
      "%s is missing in %s, which has %s: put it back with all files of one "
      "copy; without it nothing is left of the journal, and a coordinator "
      "begins anew in an empty folder",
      kDatabase, folder, absl::StrJoin(others, ", ")));
}

}  // namespace

// --- Opening -----------------------------------------------------------------

SqliteStore::SqliteStore(std::string folder, StoreAccess access)
    : folder_(std::move(folder)), access_(access) {}

SqliteStore::~SqliteStore() {
  if (db_ != nullptr) sqlite3_close(db_);
}

std::string SqliteStore::PathOf(const char* name) const {
  return absl::StrCat(folder_, "/", name);
}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(
    const std::string& path, StoreAccess access) {
  const std::string folder = WithoutTrailingSlash(path);
  PosixFileSystem files;
  if (absl::Status ready = PrepareFolder(&files, folder, access); !ready.ok()) {
    return ready;
  }
  const std::string database = absl::StrCat(folder, "/", kDatabase);
  const std::vector<std::string> others = OtherFiles(folder);
  if (access != StoreAccess::kWrite && others.empty() && !Exists(database)) {
    return absl::NotFoundError(absl::StrCat("there is no journal in ", folder));
  }
  std::unique_ptr<SqliteStore> store(new SqliteStore(folder, access));
  if (absl::Status locked = store->Lock(); !locked.ok()) return locked;
  if (Exists(database)) return store;
  // SQLite would apply a log that is there to the new database.
  if (access != StoreAccess::kWrite || Exists(store->PathOf(kLog)) ||
      (Exists(store->PathOf(kMark)) && !store->WasBeingCreated())) {
    return NoDatabase(folder, others);
  }
  if (absl::Status created = store->Create(); !created.ok()) return created;
  return store;
}

absl::Status SqliteStore::Lock() {
  const std::string path = PathOf(kLock);
  absl::Status locked;
  if (access_ == StoreAccess::kRead) {
    locked = LockForReading(path);
  } else {
    if (auto made = OpenPrivateFile(path); !made.ok()) return made.status();
    auto lock = files_.Lock(path, absl::StrCat("process ", getpid()));
    locked = lock.status();
    if (lock.ok()) lock_ = *std::move(lock);
  }
  return WithContext(absl::StrCat("journal ", folder_, " is in use"), locked);
}

// Without the file nobody uses the journal: it is the first that is made.
absl::Status SqliteStore::LockForReading(const std::string& path) {
  FileDescriptor lock(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!lock.valid()) {
    return errno == ENOENT ? absl::OkStatus()
                           : absl::ErrnoToStatus(errno, path);
  }
  if (flock(lock.get(), LOCK_SH | LOCK_NB) == 0) {
    read_lock_ = std::move(lock);
    return absl::OkStatus();
  }
  if (errno != EWOULDBLOCK) return absl::ErrnoToStatus(errno, path);
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is locked by ",
                   ReadWhole(&files_, path).value_or("another process")));
}

// Whether a process that created the journal was killed behind the mark.
bool SqliteStore::WasBeingCreated() {
  const auto mark = ReadMark(&files_, PathOf(kMark));
  return mark.ok() && mark->newest.last_number() == 0 &&
         Exists(PathOf(kNewDatabase));
}

// The mark exists durably before the database has its name: one without a mark
// was copied or changed by hand.
absl::Status SqliteStore::Create() {
  absl::Status made = WriteNewDatabase({}, {});
  if (made.ok()) made = WriteMark(kMark, {});
  if (made.ok()) made = files_.SyncDirectory(folder_);
  if (made.ok()) made = files_.Rename(PathOf(kNewDatabase), PathOf(kDatabase));
  if (made.ok()) made = files_.SyncDirectory(folder_);
  return WithContext(absl::StrCat("cannot create a journal in ", folder_),
                     made);
}

absl::Status SqliteStore::WriteMark(const char* name, const Chain& newest) {
  absl::StatusOr<MarkFile> mark = MarkFile::Open(PathOf(name));
  return mark.ok() ? mark->Renew(newest) : mark.status();
}

// Under another name than the database's, which is complete or absent.
absl::Status SqliteStore::WriteNewDatabase(
    const Chain& of, const std::vector<std::string>& parts) {
  const std::string fresh = PathOf(kNewDatabase);
  for (const char* suffix : {"", "-wal", "-journal"}) {
    unlink(absl::StrCat(fresh, suffix).c_str());
  }
  absl::Status made = FillNewDatabase(of, parts);
  if (db_ != nullptr && sqlite3_close(db_) != SQLITE_OK && made.ok()) {
    made = absl::InternalError(absl::StrCat("cannot close ", fresh));
  }
  db_ = nullptr;
  return made;
}

absl::Status SqliteStore::FillNewDatabase(
    const Chain& of, const std::vector<std::string>& parts) {
  absl::Status made = OpenDatabase(PathOf(kNewDatabase));
  if (!made.ok()) return made;
  made = Execute(
      "BEGIN IMMEDIATE;"
      "CREATE TABLE format(id INTEGER PRIMARY KEY, frame BLOB NOT NULL);"
      "CREATE TABLE snapshot(id INTEGER PRIMARY KEY, frame BLOB NOT NULL);"
      "CREATE TABLE record(id INTEGER PRIMARY KEY, frame BLOB NOT NULL);");
  if (!made.ok()) return made;
  const std::string frame =
      Encode({.payload = absl::StrCat(kFormatPrefix, kFormatVersion)});
  {
    SqliteStatement insert(db_, "INSERT INTO format VALUES (0, ?)");
    insert.Bind(1, frame);
    insert.Step();
    if (!insert.ok()) return Failed("create");
  }
  if (!parts.empty()) made = InsertSnapshot(of, parts);
  if (!made.ok()) return made;
  made = Execute("COMMIT; PRAGMA journal_mode=WAL");
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  return made;
}

// SQLite makes a log where there is none, unless the database cannot change.
// One that is there is applied, in memory; for that SQLite wants to lock the
// database exclusively, which a file that is open for reading does not allow:
// without locks of its own it leaves that to the lock of the journal.
int SqliteStore::OpenForReading(const std::string& path) {
  const std::string escaped =
      absl::StrReplaceAll(path, {{"%", "%25"}, {"?", "%3f"}, {"#", "%23"}});
  const std::string uri =
      absl::StrCat("file:", absl::StartsWith(path, "/") ? "//" : "", escaped,
                   log_.has_value() ? "?vfs=unix-none" : "?immutable=1");
  return sqlite3_open_v2(
      uri.c_str(), &db_,
      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
}

absl::Status SqliteStore::OpenDatabase(const std::string& path) {
  if (access_ == StoreAccess::kRead) {
    if (OpenForReading(path) != SQLITE_OK) return Failed("open");
  } else {
    // SQLite gives the log the mode of the database.
    if (auto made = OpenPrivateFile(path); !made.ok()) return made.status();
    const int rc =
        sqlite3_open_v2(path.c_str(), &db_,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    if (rc != SQLITE_OK) return Failed("open");
  }
  sqlite3_extended_result_codes(db_, 1);
  // What cannot be read must stay as it is.
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  // Exclusive: the index of the log is in this process, not in a file.
  return Execute(absl::StrFormat("PRAGMA page_size=%d;"
                                 "PRAGMA locking_mode=EXCLUSIVE;"
                                 "PRAGMA synchronous=FULL;",
                                 kPageBytes)
                     .c_str());
}

// --- Reading -----------------------------------------------------------------

absl::StatusOr<StoredJournal> SqliteStore::Read() {
  StoredJournal stored;
  if (absl::Status log = ReadLog(); !log.ok()) return log;
  auto mark = ReadMark(&files_, PathOf(kMark));
  if (!mark.ok()) return mark.status();
  mark_ = *std::move(mark);
  absl::Status read = OpenDatabase(PathOf(kDatabase));
  if (read.ok()) {
    SqliteStatement check(db_, "PRAGMA quick_check(1)");
    if (!check.Step()) {
      read = Failed("check");
    } else if (check.Column(0) != "ok") {
      read =
          Damaged(absl::StrCat("the database is damaged: ", check.Column(0)));
    }
  }
  if (read.ok()) read = CheckFormat();
  if (absl::IsFailedPrecondition(read)) return WithContext(folder_, read);
  // What the check found need not concern all records.
  if (db_ != nullptr) {
    absl::Status rest = ReadSnapshot(&stored);
    if (rest.ok()) rest = ReadRecords(&stored);
    if (!rest.ok()) read = rest;
  }
  if (!read.ok() && !absl::IsDataLoss(read)) return read;
  stored.promised = mark_.newest.last_number();
  if (read.ok()) read = CheckMark(&stored);
  stored.damage = WithContext(PathOf(kDatabase), read);
  if (access_ != StoreAccess::kWrite || !stored.damage.ok()) return stored;

  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  sqlite3_wal_hook(
      db_,
      [](void* pages, sqlite3*, const char*, int in_log) {
        *static_cast<int*>(pages) = in_log;
        return SQLITE_OK;
      },
      &log_pages_);
  if (absl::Status begun = BeginMark(&stored); !begun.ok()) return begun;
  opened_ = InodeOf(PathOf(kDatabase));
  return stored;
}

absl::Status SqliteStore::ReadLog() {
  const std::string path = PathOf(kLog);
  if (!Exists(path)) return absl::OkStatus();
  const absl::StatusOr<std::string> log = ReadWhole(&files_, path);
  if (!log.ok()) return log.status();
  // SQLite creates an empty one where there is none, also for a journal that is
  // then refused.
  if (!log->empty()) log_ = ExamineWal(*log);
  if (access_ != StoreAccess::kWrite) return absl::OkStatus();
  // A killed process may have left records that the disk does not have yet.
  // They count as durable from now on.
  auto file = files_.Open(path, OpenMode::kAppend);
  return file.ok() ? (*file)->Sync() : file.status();
}

absl::Status SqliteStore::CheckMark(StoredJournal* stored) const {
  const uint64_t last = stored->chain.last_number();
  if (!mark_.unreadable.ok() && last > 0) {
    stored->notes.push_back(
        absl::StrCat(PathOf(kMark),
                     " is damaged, so records may be missing unnoticed; a "
                     "coordinator writes it anew: ",
                     mark_.unreadable.message()));
  }
  return CompareWithMark(
      mark_, {.last = last, .hash_at_mark = hash_at_mark_, .log = log_});
}

absl::Status SqliteStore::BeginMark(StoredJournal* stored) {
  absl::StatusOr<MarkFile> file = MarkFile::Open(PathOf(kMark));
  if (!file.ok()) return file.status();
  absl::Status begun = file->Renew(stored->chain);
  mark_file_ = *std::move(file);
  if (!absl::IsResourceExhausted(begun)) return begun;
  stored->notes.push_back(
      absl::StrCat("the mark of the journal stays old until there is room: ",
                   begun.message()));
  return absl::OkStatus();
}

absl::Status SqliteStore::CheckFormat() {
  SqliteStatement select(db_, "SELECT frame FROM format WHERE id = 0");
  if (!select.Step()) {
    return select.ok() ? Damaged("its format is missing") : Failed("read");
  }
  const absl::StatusOr<Frame> frame = Decode(select.Column(0));
  if (!frame.ok()) return WithContext("its format is damaged", frame.status());
  uint32_t version = 0;
  absl::string_view text = frame->payload;
  if (!absl::ConsumePrefix(&text, kFormatPrefix) ||
      !absl::SimpleAtoi(text, &version)) {
    return Damaged(absl::StrCat("its format is ", frame->payload));
  }
  if (version == kFormatVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "the journal has format %d, written by another version of lockstepd; "
      "this one reads format %d",
      version, kFormatVersion));
}

// The header: the end of the records that the snapshot replaces, and how many
// parts follow it, as a chain that begins with it.
absl::Status SqliteStore::ReadSnapshot(StoredJournal* stored) {
  SqliteStatement select(db_, "SELECT id, frame FROM snapshot ORDER BY id");
  std::vector<std::string> frames;
  while (select.Step()) frames.emplace_back(select.Column(1));
  if (!select.ok()) return Failed("read");
  if (frames.empty()) return absl::OkStatus();
  auto snapshot = journal::ReadSnapshot(frames);
  if (!snapshot.ok()) return snapshot.status();
  stored->snapshot = std::move(snapshot->parts);
  stored->snapshot_end = snapshot->of;
  return absl::OkStatus();
}

absl::Status SqliteStore::ReadRecords(StoredJournal* stored) {
  stored->chain = stored->snapshot_end;
  NoteHashAtMark(stored->chain);
  SqliteStatement select(db_, "SELECT id, frame FROM record ORDER BY id");
  while (select.Step()) {
    const uint64_t due = stored->chain.last_number() + 1;
    if (select.Number(0) != due) {
      return DamagedRecord(
          due, absl::StrCat("row ", select.Number(0), " is in its place"));
    }
    auto record = stored->chain.Follow(select.Column(1));
    if (!record.ok()) return DamagedRecord(due, record.status().message());
    stored->records.push_back(*std::move(record));
    NoteHashAtMark(stored->chain);
  }
  if (select.ok()) return absl::OkStatus();
  return DamagedRecord(stored->chain.last_number() + 1,
                       Failed("read").message());
}

void SqliteStore::NoteHashAtMark(const Chain& chain) {
  if (chain.last_number() == mark_.newest.last_number()) {
    hash_at_mark_ = chain.last_hash();
  }
}

// --- Writing -----------------------------------------------------------------

// SQLite writes on into files that were cut, removed or moved, where no
// successor finds what it promises.
absl::Status SqliteStore::CheckFiles() const {
  struct stat log = {};
  const std::string log_path = PathOf(kLog);
  const int64_t written =
      log_pages_ == 0 ? 0 : kLogHeaderBytes + log_pages_ * kLogPageBytes;
  const bool log_is_there = stat(log_path.c_str(), &log) == 0;
  const char* changed = nullptr;
  if (InodeOf(PathOf(kDatabase)) != opened_) changed = kDatabase;
  if (written > 0 && (!log_is_there || log.st_size < written)) changed = kLog;
  if (changed == nullptr) return absl::OkStatus();
  return Damaged(absl::StrCat(
      PathOf(changed), " was cut, removed or replaced under the coordinator"));
}

absl::Status SqliteStore::Append(uint64_t first,
                                 const std::vector<std::string>& frames,
                                 const Chain& end) {
  if (absl::Status same = CheckFiles(); !same.ok()) return same;
  absl::Status done = Transact([&]() -> absl::Status {
    SqliteStatement insert(db_, "INSERT INTO record VALUES (?, ?)");
    uint64_t number = first;
    for (const std::string& frame : frames) {
      insert.Reset();
      insert.Bind(1, number++);
      insert.Bind(2, frame);
      insert.Step();
      if (!insert.ok()) return Failed("append");
    }
    return absl::OkStatus();
  });
  if (done.ok()) mark_file_->Write(end);
  return done;
}

absl::Status SqliteStore::ReplaceBySnapshot(
    const Chain& of, const std::vector<std::string>& parts) {
  return Transact([&]() -> absl::Status {
    if (absl::Status gone = Execute("DELETE FROM snapshot"); !gone.ok()) {
      return gone;
    }
    absl::Status inserted = InsertSnapshot(of, parts);
    if (!inserted.ok()) return inserted;
    SqliteStatement remove(db_, "DELETE FROM record WHERE id <= ?");
    remove.Bind(1, of.last_number());
    remove.Step();
    return remove.ok() ? absl::OkStatus() : Failed("compact");
  });
}

absl::Status SqliteStore::InsertSnapshot(
    const Chain& of, const std::vector<std::string>& parts) {
  SqliteStatement insert(db_, "INSERT INTO snapshot VALUES (?, ?)");
  uint64_t id = 0;
  for (const std::string& frame : SnapshotFrames(of, parts)) {
    insert.Reset();
    insert.Bind(1, id++);
    insert.Bind(2, frame);
    insert.Step();
    if (!insert.ok()) return Failed("compact");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SqliteStore::ReplaceDamaged(
    uint64_t of, const std::vector<std::string>& parts) {
  sqlite3_close(std::exchange(db_, nullptr));
  // All that needs room first.
  const Chain end(of, 0);
  if (absl::Status made = WriteNewDatabase(end, parts); !made.ok()) return made;
  if (absl::Status made = WriteMark(kNewMark, end); !made.ok()) return made;
  absl::StatusOr<std::string> aside = LinkAside();
  if (!aside.ok()) return aside.status();

  // The log before the new database has its name, so that SQLite never applies
  // it there; the mark last, so that the old database is not taken for whole.
  absl::Status done = absl::OkStatus();
  if (Exists(PathOf(kLog))) done = files_.Remove(PathOf(kLog));
  if (done.ok()) done = files_.SyncDirectory(folder_);
  if (done.ok()) done = files_.Rename(PathOf(kNewDatabase), PathOf(kDatabase));
  if (done.ok()) done = files_.SyncDirectory(folder_);
  if (done.ok()) done = files_.Rename(PathOf(kNewMark), PathOf(kMark));
  if (done.ok()) done = files_.SyncDirectory(folder_);
  if (!done.ok()) return done;
  return aside;
}

// Gives the files a second name in a new folder, durably.
absl::StatusOr<std::string> SqliteStore::LinkAside() {
  std::string aside;
  for (int number = 1; aside.empty() || Exists(aside); ++number) {
    aside = absl::StrCat(folder_, "/damaged-", number);
  }
  if (mkdir(aside.c_str(), 0700) != 0) return absl::ErrnoToStatus(errno, aside);
  for (const char* name : {kLog, kDatabase, kMark}) {
    const std::string second = absl::StrCat(aside, "/", name);
    if (Exists(PathOf(name)) &&
        link(PathOf(name).c_str(), second.c_str()) != 0) {
      return absl::ErrnoToStatus(errno, second);
    }
  }
  absl::Status synced = files_.SyncDirectory(aside);
  if (synced.ok()) synced = files_.SyncDirectory(folder_);
  if (!synced.ok()) return synced;
  return aside;
}

void SqliteStore::Maintain() {
  if (log_pages_ < kLogPagesLong) return;
  sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr,
                            nullptr);
}

absl::Status SqliteStore::Transact(
    const std::function<absl::Status()>& change) {
  absl::Status done = Execute("BEGIN IMMEDIATE");
  if (done.ok()) done = change();
  if (done.ok()) done = Execute("COMMIT");
  if (!done.ok() && sqlite3_get_autocommit(db_) == 0) {
    sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return done;
}

absl::Status SqliteStore::Execute(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) {
    return absl::OkStatus();
  }
  return Failed("write");
}

absl::Status SqliteStore::Failed(const std::string& what) const {
  const int code = sqlite3_extended_errcode(db_);
  const int cause = sqlite3_system_errno(db_);
  const std::string text =
      absl::StrFormat("cannot %s the journal in %s: %s (SQLite's error %d)",
                      what, folder_, sqlite3_errmsg(db_), code);
  const int kind = code & 0xff;
  const bool is_full =
      kind == SQLITE_FULL ||
      (kind == SQLITE_IOERR && (cause == ENOSPC || cause == EDQUOT));
  if (is_full) return absl::ResourceExhaustedError(text);
  // A schema that is not this program's is damage too: nobody else writes it.
  if (kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || kind == SQLITE_ERROR) {
    return absl::DataLossError(text);
  }
  return absl::InternalError(
      kind == SQLITE_IOERR && cause != 0
          ? absl::StrCat(text, ": ", std::generic_category().message(cause))
          : text);
}

std::string DamageAdvice(absl::string_view folder) {
  return absl::StrCat(
      "nothing was changed; put back all files of one intact copy, or keep "
      "what "
      "is left: lockstepctl journal repair ",
      folder);
}

absl::StatusOr<std::unique_ptr<Journal>> OpenSqliteJournal(
    const std::string& folder) {
  auto store = SqliteStore::Open(folder, StoreAccess::kWrite);
  if (!store.ok()) return store.status();
  return std::make_unique<GroupCommitJournal>(*std::move(store));
}

}  // namespace lockstep::journal
