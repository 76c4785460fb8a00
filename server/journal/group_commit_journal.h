// A journal in a store, which is written in groups.
//
//   Append ─▶ queue ─▶ ls-journal: one transaction for all that was appended
//                      while the last one ran, then the callbacks
//
//   Append:  1   2 3 4         5 6
//   commit:  |--1--|--2 3 4-----|--5 6--|
//
// Compact is a transaction of its own; records that are appended meanwhile wait
// for it.
//
// A full store is waited for: the transaction is tried again every second, and
// OnTrouble's callback is told. Any other error is final: it is unknown then
// what the store has, and a restart reads it.
//
// Threads: as journal.h; ls-journal calls the callbacks.
// Errors:  those of the store.

#ifndef LOCKSTEP_SERVER_JOURNAL_GROUP_COMMIT_JOURNAL_H_
#define LOCKSTEP_SERVER_JOURNAL_GROUP_COMMIT_JOURNAL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/journal/journal.h"
#include "server/journal/store.h"

namespace lockstep::journal {

class GroupCommitJournal final : public Journal {
 public:
  explicit GroupCommitJournal(std::unique_ptr<Store> store)
      : store_(std::move(store)) {}
  // Commits what was appended, unless the store is full.
  ~GroupCommitJournal() override;

  absl::StatusOr<LoadedJournal> Load() override;
  void Append(std::string record, Durable durable) override;
  void Compact(MakeSnapshot make) override;
  void OnTrouble(Trouble trouble) override { trouble_ = std::move(trouble); }

 private:
  // A record, or a request to compact.
  struct JournalRequest {
    std::string record;
    Durable durable;
    MakeSnapshot make;
  };

  void Push(JournalRequest request);
  void Run();
  std::deque<JournalRequest> AwaitRequests();
  void Commit(std::deque<JournalRequest> batch);
  absl::Status CommitFrames(const std::vector<std::string>& frames,
                            const Chain& end);
  void CompactNow(MakeSnapshot make);
  void Tell(const absl::Status& trouble);
  // False if the journal is being destroyed.
  bool PauseBeforeRetry();

  const std::unique_ptr<Store> store_;
  Trouble trouble_;

  // Used by ls-journal, after Load.
  Chain chain_;
  absl::Status failed_;
  bool troubled_ = false;

  Mutex mutex_;
  CondVar changed_;
  std::deque<JournalRequest> requests_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // from Load on
};

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_GROUP_COMMIT_JOURNAL_H_
