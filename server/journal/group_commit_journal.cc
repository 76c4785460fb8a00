#include "server/journal/group_commit_journal.h"

#include <utility>

#include "absl/time/time.h"
#include "base/check.h"
#include "base/thread.h"

namespace lockstep::journal {
namespace {

constexpr absl::Duration kRetryInterval = absl::Seconds(1);

}  // namespace

GroupCommitJournal::~GroupCommitJournal() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<LoadedJournal> GroupCommitJournal::Load() {
  absl::StatusOr<StoredJournal> stored = store_->Read();
  if (!stored.ok()) return stored.status();
  if (!stored->damage.ok()) return stored->damage;
  chain_ = stored->chain;
  thread_ = StartThread("ls-journal", [this] { Run(); });
  return LoadedJournal{.snapshot = std::move(stored->snapshot),
                       .snapshot_of = stored->snapshot_end.last_number(),
                       .records = std::move(stored->records),
                       .notes = std::move(stored->notes)};
}

void GroupCommitJournal::Append(std::string record, Durable durable) {
  Push({.record = std::move(record), .durable = std::move(durable)});
}

void GroupCommitJournal::Compact(MakeSnapshot make) {
  Push({.make = std::move(make)});
}

void GroupCommitJournal::Push(JournalRequest request) {
  Check(thread_.joinable(), "a journal is loaded before it is written to");
  MutexLock lock(&mutex_);
  requests_.push_back(std::move(request));
  changed_.NotifyAll();
}

// --- ls-journal --------------------------------------------------------------

void GroupCommitJournal::Run() {
  while (true) {
    std::deque<JournalRequest> requests = AwaitRequests();
    if (requests.empty()) return;
    std::deque<JournalRequest> batch;
    while (!requests.empty()) {
      JournalRequest request = std::move(requests.front());
      requests.pop_front();
      if (!request.make) {
        batch.push_back(std::move(request));
        continue;
      }
      Commit(std::exchange(batch, {}));
      CompactNow(std::move(request.make));
    }
    Commit(std::move(batch));
    store_->Maintain();
  }
}

// Empty once the journal is being destroyed and all was handled.
std::deque<GroupCommitJournal::JournalRequest>
GroupCommitJournal::AwaitRequests() {
  MutexLock lock(&mutex_);
  while (!stopping_ && requests_.empty()) changed_.Wait(&mutex_);
  return std::exchange(requests_, {});
}

void GroupCommitJournal::Commit(std::deque<JournalRequest> batch) {
  if (batch.empty()) return;
  if (failed_.ok()) {
    Chain end = chain_;
    std::vector<std::string> frames;
    for (JournalRequest& request : batch) {
      frames.push_back(end.Extend(std::move(request.record)));
    }
    failed_ = CommitFrames(frames, end);
    if (failed_.ok()) chain_ = end;
  }
  for (JournalRequest& request : batch) request.durable(failed_);
}

absl::Status GroupCommitJournal::CommitFrames(
    const std::vector<std::string>& frames, const Chain& end) {
  while (true) {
    const absl::Status done =
        store_->Append(chain_.last_number() + 1, frames, end);
    if (!absl::IsResourceExhausted(done)) {
      if (done.ok()) Tell(absl::OkStatus());
      return done;
    }
    Tell(done);
    if (!PauseBeforeRetry()) return absl::CancelledError(done.message());
  }
}

// If the store is full the records stay as they are; the next snapshot replaces
// them.
void GroupCommitJournal::CompactNow(MakeSnapshot make) {
  if (!failed_.ok()) return;
  const absl::Status done = store_->ReplaceBySnapshot(chain_, make());
  if (!done.ok() && !absl::IsResourceExhausted(done)) failed_ = done;
}

void GroupCommitJournal::Tell(const absl::Status& trouble) {
  if (troubled_ == !trouble.ok()) return;
  troubled_ = !trouble.ok();
  if (trouble_) trouble_(trouble);
}

bool GroupCommitJournal::PauseBeforeRetry() {
  MutexLock lock(&mutex_);
  if (!stopping_) changed_.WaitFor(&mutex_, kRetryInterval);
  return !stopping_;
}

}  // namespace lockstep::journal
