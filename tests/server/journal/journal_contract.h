// The contract of every journal, as tests that belong to the interface.
//
// An implementation defines how its store is opened again and damaged, and
// instantiates the suite:
//
//   class MemoryShelf : public JournalShelf { ... };
//   INSTANTIATE_TEST_SUITE_P(Memory, JournalContract,
//                            testing::Values([] { return
//                            std::make_unique<MemoryShelf>(); }));

#ifndef LOCKSTEP_TESTS_SERVER_JOURNAL_JOURNAL_CONTRACT_H_
#define LOCKSTEP_TESTS_SERVER_JOURNAL_JOURNAL_CONTRACT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/journal/journal.h"

namespace lockstep::journal {

// One store, which outlives the journals that are opened on it in turn.
class JournalShelf {
 public:
  virtual ~JournalShelf() = default;
  virtual std::unique_ptr<Journal> Open() = 0;
  // Flips a bit of record `number` (1, 2, ...) in the store. There is no
  // snapshot, here and below.
  virtual void FlipBit(int number) = 0;
  // Removes record `number`.
  virtual void Remove(int number) = 0;
  // Truncates the last record, as a crash would.
  virtual void TearLast() = 0;
};

// Appends and waits; records the order of the callbacks.
class Appender {
 public:
  explicit Appender(Journal* journal) : journal_(journal) {}

  void Append(const std::string& record) {
    journal_->Append(record, [this, record](absl::Status status) {
      MutexLock lock(&mutex_);
      done_.push_back(status.ok() ? record : status.ToString());
      changed_.NotifyAll();
    });
    ++appended_;
  }
  std::vector<std::string> DoneSoFar() {
    MutexLock lock(&mutex_);
    return done_;
  }
  std::vector<std::string> AwaitAll() {
    MutexLock lock(&mutex_);
    while (done_.size() < appended_) changed_.Wait(&mutex_);
    return done_;
  }

 private:
  Journal* const journal_;
  size_t appended_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> done_ ABSL_GUARDED_BY(mutex_);
};

using MakeShelf = std::function<std::unique_ptr<JournalShelf>()>;

class JournalContract : public testing::TestWithParam<MakeShelf> {
 protected:
  void AppendAll(const std::vector<std::string>& records) {
    const auto journal = shelf_->Open();
    ASSERT_TRUE(journal->Load().ok());
    Appender appender(journal.get());
    for (const std::string& record : records) appender.Append(record);
    EXPECT_EQ(appender.AwaitAll(), records);
  }

  absl::StatusOr<std::vector<std::string>> Load() {
    absl::StatusOr<LoadedJournal> kept = shelf_->Open()->Load();
    if (!kept.ok()) return kept.status();
    return std::move(kept->records);
  }

  // Appends the records, and then has them replaced by a snapshot of the parts.
  void AppendAndCompact(const std::vector<std::string>& records,
                        const std::vector<std::string>& parts) {
    const auto journal = shelf_->Open();
    ASSERT_TRUE(journal->Load().ok());
    Appender appender(journal.get());
    for (const std::string& record : records) appender.Append(record);
    journal->Compact([parts] { return parts; });
    EXPECT_EQ(appender.AwaitAll(), records);
  }

  const std::unique_ptr<JournalShelf> shelf_ = GetParam()();
};

TEST_P(JournalContract, BeginsEmpty) {
  EXPECT_THAT(*Load(), testing::IsEmpty());
}

TEST_P(JournalContract, CallsBackOnceForEachRecordInTheirOrder) {
  std::vector<std::string> records;
  for (int i = 0; i < 1000; ++i) records.push_back(absl::StrCat("record ", i));
  AppendAll(records);
}

TEST_P(JournalContract, KeepsWhatWasDurableForTheNextLife) {
  AppendAll({"one", "two"});
  AppendAll({"three"});
  EXPECT_THAT(*Load(), testing::ElementsAre("one", "two", "three"));
}

TEST_P(JournalContract, KeepsAnyBytes) {
  const std::string all_bytes = [] {
    std::string bytes;
    for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
    return bytes;
  }();
  const std::string large(3 << 20, 'x');
  AppendAll({"", all_bytes, large});
  EXPECT_THAT(*Load(), testing::ElementsAre("", all_bytes, large));
}

TEST_P(JournalContract, DropsATornTailAndGoesOnBehindWhatIsSound) {
  AppendAll({"one", "two", "torn"});
  shelf_->TearLast();
  EXPECT_THAT(*Load(), testing::ElementsAre("one", "two"));
  AppendAll({"three"});
  EXPECT_THAT(*Load(), testing::ElementsAre("one", "two", "three"));
}

TEST_P(JournalContract, NamesADamagedRecordThatHasSoundOnesBehindIt) {
  AppendAll({"one", "two", "three"});
  shelf_->FlipBit(2);
  const auto loaded = Load();
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(loaded.status().message()),
              testing::HasSubstr("record 2"));
}

TEST_P(JournalContract, ReplacesRecordsByASnapshotAndGoesOnBehindIt) {
  AppendAndCompact({"one", "two"}, {"sum", ""});
  AppendAll({"three"});
  const auto kept = shelf_->Open()->Load();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_THAT(kept->snapshot, testing::ElementsAre("sum", ""));
  EXPECT_EQ(kept->snapshot_of, 2u);
  EXPECT_THAT(kept->records, testing::ElementsAre("three"));
}

TEST_P(JournalContract, ReplacesASnapshotByTheNext) {
  AppendAndCompact({"one"}, {"first", "first", "first"});
  AppendAndCompact({"two", "three"}, {"second"});
  AppendAll({"four", "five"});
  const auto kept = shelf_->Open()->Load();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_THAT(kept->snapshot, testing::ElementsAre("second"));
  EXPECT_EQ(kept->snapshot_of, 3u);
  EXPECT_THAT(kept->records, testing::ElementsAre("four", "five"));
}

TEST_P(JournalContract, KeepsWhatIsAppendedWhileItCompacts) {
  std::vector<std::string> before, after;
  for (int i = 0; i < 200; ++i) before.push_back(absl::StrCat("before ", i));
  for (int i = 0; i < 200; ++i) after.push_back(absl::StrCat("after ", i));
  {
    const auto journal = shelf_->Open();
    ASSERT_TRUE(journal->Load().ok());
    Appender appender(journal.get());
    for (const std::string& record : before) appender.Append(record);
    journal->Compact([] { return std::vector<std::string>(1, "sum"); });
    for (const std::string& record : after) appender.Append(record);
    EXPECT_EQ(appender.AwaitAll().size(), 400u);
  }
  const auto kept = shelf_->Open()->Load();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->snapshot_of, 200u);
  EXPECT_EQ(kept->records, after);
}

TEST_P(JournalContract, NoticesARecordThatIsGone) {
  AppendAll({"one", "two", "three"});
  shelf_->Remove(2);
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace lockstep::journal

#endif  // LOCKSTEP_TESTS_SERVER_JOURNAL_JOURNAL_CONTRACT_H_
