// A disk without room, and one that fails, under a journal: SQLite's files
// behind a layer of this test.

#include <sqlite3.h>

#include <atomic>
#include <cstring>

#include "tests/server/journal/journal_contract.h"
#include "tests/server/journal/journal_folder.h"

namespace lockstep::journal {
namespace {

// What the disk answers to writes and to flushes; SQLITE_OK: it works.
std::atomic<int> write_answer{SQLITE_OK};
std::atomic<int> sync_answer{SQLITE_OK};
std::atomic<int> writes_refused{0};

// A file of the default VFS in `real`, which follows this in memory.
struct FlakyFile {
  sqlite3_file base;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
FlakyFile* Flaky(sqlite3_file* file) {
  return reinterpret_cast<FlakyFile*>(file);
}

const sqlite3_io_methods* FlakyMethods() {
  static const sqlite3_io_methods methods = {
      .iVersion = 1,
      .xClose =
          [](sqlite3_file* f) {
            return Flaky(f)->real()->pMethods->xClose(Flaky(f)->real());
          },
      .xRead =
          [](sqlite3_file* f, void* to, int bytes, sqlite3_int64 at) {
            return Flaky(f)->real()->pMethods->xRead(Flaky(f)->real(), to,
                                                     bytes, at);
          },
      .xWrite =
          [](sqlite3_file* f, const void* from, int bytes, sqlite3_int64 at) {
            if (const int answer = write_answer; answer != SQLITE_OK) {
              ++writes_refused;
              // Half of it is written, as on a disk that becomes full.
              Flaky(f)->real()->pMethods->xWrite(Flaky(f)->real(), from,
                                                 bytes / 2, at);
              return answer;
            }
            return Flaky(f)->real()->pMethods->xWrite(Flaky(f)->real(), from,
                                                      bytes, at);
          },
      .xTruncate =
          [](sqlite3_file* f, sqlite3_int64 size) {
            return Flaky(f)->real()->pMethods->xTruncate(Flaky(f)->real(),
                                                         size);
          },
      .xSync =
          [](sqlite3_file* f, int flags) {
            if (const int answer = sync_answer; answer != SQLITE_OK) {
              return answer;
            }
            return Flaky(f)->real()->pMethods->xSync(Flaky(f)->real(), flags);
          },
      .xFileSize =
          [](sqlite3_file* f, sqlite3_int64* size) {
            return Flaky(f)->real()->pMethods->xFileSize(Flaky(f)->real(),
                                                         size);
          },
      .xLock =
          [](sqlite3_file* f, int kind) {
            return Flaky(f)->real()->pMethods->xLock(Flaky(f)->real(), kind);
          },
      .xUnlock =
          [](sqlite3_file* f, int kind) {
            return Flaky(f)->real()->pMethods->xUnlock(Flaky(f)->real(), kind);
          },
      .xCheckReservedLock =
          [](sqlite3_file* f, int* held) {
            return Flaky(f)->real()->pMethods->xCheckReservedLock(
                Flaky(f)->real(), held);
          },
      .xFileControl =
          [](sqlite3_file* f, int op, void* argument) {
            return Flaky(f)->real()->pMethods->xFileControl(Flaky(f)->real(),
                                                            op, argument);
          },
      .xSectorSize =
          [](sqlite3_file* f) {
            return Flaky(f)->real()->pMethods->xSectorSize(Flaky(f)->real());
          },
      .xDeviceCharacteristics =
          [](sqlite3_file* f) {
            return Flaky(f)->real()->pMethods->xDeviceCharacteristics(
                Flaky(f)->real());
          },
  };
  return &methods;
}

// Makes the layer the default while alive.
class FlakyDisk {
 public:
  FlakyDisk() : real_(sqlite3_vfs_find(nullptr)), vfs_(*real_) {
    vfs_.zName = "flaky";
    vfs_.pNext = nullptr;
    vfs_.szOsFile = static_cast<int>(sizeof(FlakyFile)) + real_->szOsFile;
    vfs_.xOpen = [](sqlite3_vfs*, const char* name, sqlite3_file* file,
                    int flags, int* out_flags) {
      sqlite3_vfs* const real = sqlite3_vfs_find("unix");
      file->pMethods = nullptr;
      const int code =
          real->xOpen(real, name, Flaky(file)->real(), flags, out_flags);
      if (code == SQLITE_OK) file->pMethods = FlakyMethods();
      return code;
    };
    sqlite3_vfs_register(&vfs_, /*makeDflt=*/1);
  }
  ~FlakyDisk() {
    write_answer = sync_answer = SQLITE_OK;
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(real_, 1);
  }

 private:
  sqlite3_vfs* const real_;
  sqlite3_vfs vfs_;
};

class FlakyDiskTest : public testing::Test {
 protected:
  FlakyDiskTest() {
    auto journal = OpenSqliteJournal(folder_.path());
    EXPECT_TRUE(journal.ok()) << journal.status();
    journal_ = *std::move(journal);
    EXPECT_TRUE(journal_->Load().ok());
    journal_->OnTrouble([this](absl::Status status) {
      MutexLock lock(&mutex_);
      troubles_.push_back(std::move(status));
      changed_.NotifyAll();
    });
    appender_.emplace(journal_.get());
  }

  absl::Status AwaitTrouble(size_t number) {
    MutexLock lock(&mutex_);
    while (troubles_.size() < number) changed_.Wait(&mutex_);
    return troubles_[number - 1];
  }
  absl::StatusOr<LoadedJournal> LoadAgain() {
    journal_.reset();
    return folder_.Load();
  }

  FlakyDisk disk_;
  JournalFolder folder_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<absl::Status> troubles_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Journal> journal_;
  std::optional<Appender> appender_;
};

TEST_F(FlakyDiskTest, RecordsWaitUntilThereIsRoom) {
  appender_->Append("one");
  appender_->AwaitAll();
  write_answer = SQLITE_FULL;
  appender_->Append("two");
  EXPECT_EQ(AwaitTrouble(1).code(), absl::StatusCode::kResourceExhausted);
  appender_->Append("three");
  EXPECT_EQ(appender_->DoneSoFar(), std::vector<std::string>{"one"});
  write_answer = SQLITE_OK;
  EXPECT_THAT(appender_->AwaitAll(),
              testing::ElementsAre("one", "two", "three"));
  EXPECT_TRUE(AwaitTrouble(2).ok());
  EXPECT_THAT(LoadAgain()->records,
              testing::ElementsAre("one", "two", "three"));
}

TEST_F(FlakyDiskTest, WithoutRoomASnapshotIsSkippedAndNothingIsLost) {
  appender_->Append("one");
  appender_->AwaitAll();
  write_answer = SQLITE_FULL;
  const int refused = writes_refused;
  journal_->Compact([] { return std::vector<std::string>{"sum"}; });
  while (writes_refused == refused) std::this_thread::yield();
  write_answer = SQLITE_OK;
  appender_->Append("two");
  EXPECT_THAT(appender_->AwaitAll(), testing::ElementsAre("one", "two"));
  const auto kept = LoadAgain();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_THAT(kept->records, testing::ElementsAre("one", "two"));
}

TEST_F(FlakyDiskTest, WithoutRoomItsEndIsNotHeldUp) {
  write_answer = SQLITE_FULL;
  appender_->Append("one");
  EXPECT_FALSE(AwaitTrouble(1).ok());
  journal_.reset();
  EXPECT_THAT(appender_->DoneSoFar(),
              testing::ElementsAre(testing::HasSubstr("CANCELLED")));
  write_answer = SQLITE_OK;
  EXPECT_THAT(folder_.Load()->records, testing::IsEmpty());
}

TEST_F(FlakyDiskTest, ARepairWithoutRoomChangesNothingAndMayBeRepeated) {
  appender_->Append("one");
  appender_->AwaitAll();
  journal_.reset();
  unlink(folder_.File("mark").c_str());
  const std::string database = folder_.Read("journal.db");
  const std::string log = folder_.Read("journal.db-wal");
  const auto repair = [&]() -> absl::StatusOr<std::string> {
    auto store = SqliteStore::Open(folder_.path(), StoreAccess::kInspect);
    EXPECT_TRUE(store.ok() && (*store)->Read().ok());
    return (*store)->ReplaceDamaged(1, {"all"});
  };

  write_answer = SQLITE_FULL;
  EXPECT_EQ(repair().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(folder_.Read("journal.db"), database);
  EXPECT_EQ(folder_.Read("journal.db-wal"), log);

  write_answer = SQLITE_OK;
  const auto aside = repair();
  ASSERT_TRUE(aside.ok()) << aside.status();
  EXPECT_EQ(*aside, folder_.File("damaged-1"));
  EXPECT_EQ(folder_.Read("damaged-1/journal.db"), database);
  EXPECT_EQ(folder_.Load()->snapshot, std::vector<std::string>{"all"});
}

TEST_F(FlakyDiskTest, AFlushThatFailsIsFinal) {
  appender_->Append("one");
  appender_->AwaitAll();
  sync_answer = SQLITE_IOERR_FSYNC;
  appender_->Append("two");
  appender_->AwaitAll();
  sync_answer = SQLITE_OK;
  appender_->Append("three");
  const auto done = appender_->AwaitAll();
  EXPECT_THAT(done[1], testing::HasSubstr("INTERNAL"));
  EXPECT_THAT(done[2], testing::HasSubstr("INTERNAL")) << "there are no gaps";
  const auto kept = LoadAgain();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->records[0], "one");
}

}  // namespace
}  // namespace lockstep::journal
