// Fake streams, journals and logs that a test can inspect.

#ifndef LOCKSTEP_TESTS_SERVER_RUNTIME_FAKES_H_
#define LOCKSTEP_TESTS_SERVER_RUNTIME_FAKES_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "server/journal/journal.h"
#include "server/observe/event_log.h"
#include "server/runtime/coordinator_loop.h"

namespace lockstep::runtime {

// A worker's end of a stream.
class FakeStream final : public SessionStream {
 public:
  explicit FakeStream(size_t room = 1000) : room_(room) {}

  bool Send(const protocol::ToWorker& message) override {
    MutexLock lock(&mutex_);
    if (messages_.size() >= room_) return false;
    messages_.push_back(message);
    changed_.NotifyAll();
    return true;
  }
  void Close(const absl::Status& status) override {
    MutexLock lock(&mutex_);
    if (closed_.ok()) closed_ = status;
    changed_.NotifyAll();
  }
  void Abandon() override {
    MutexLock lock(&mutex_);
    abandoned_ = true;
  }
  void Applied() override {
    MutexLock lock(&mutex_);
    ++applied_;
    changed_.NotifyAll();
  }

  // Waits for the next message.
  protocol::ToWorker Next() {
    MutexLock lock(&mutex_);
    while (read_ == messages_.size()) changed_.Wait(&mutex_);
    return messages_[read_++];
  }
  absl::Status WaitUntilClosed() {
    MutexLock lock(&mutex_);
    while (closed_.ok()) changed_.Wait(&mutex_);
    return closed_;
  }
  void WaitUntilApplied(int count) {
    MutexLock lock(&mutex_);
    while (applied_ < count) changed_.Wait(&mutex_);
  }
  size_t sent() const {
    MutexLock lock(&mutex_);
    return messages_.size();
  }
  bool abandoned() const {
    MutexLock lock(&mutex_);
    return abandoned_;
  }

 private:
  const size_t room_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<protocol::ToWorker> messages_ ABSL_GUARDED_BY(mutex_);
  size_t read_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  int applied_ ABSL_GUARDED_BY(mutex_) = 0;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
};

// A disk whose speed the test controls. Its state outlives the journal.
class SlowDisk {
 public:
  // Whether records become durable at once.
  void SetQuick(bool quick) {
    MutexLock lock(&mutex_);
    quick_ = quick;
  }
  void Append(std::string record, journal::Journal::Durable durable) {
    {
      MutexLock lock(&mutex_);
      records_.push_back(std::move(record));
      changed_.NotifyAll();
      if (!quick_) {
        waiting_.push_back(std::move(durable));
        return;
      }
    }
    durable(absl::OkStatus());
  }
  // Completes all waiting records, on the test's thread.
  void Finish(const absl::Status& status) {
    std::deque<journal::Journal::Durable> waiting;
    {
      MutexLock lock(&mutex_);
      waiting.swap(waiting_);
    }
    for (auto& durable : waiting) durable(status);
  }
  void Compact(std::vector<std::string> parts) {
    MutexLock lock(&mutex_);
    snapshots_.push_back(std::move(parts));
    changed_.NotifyAll();
  }
  std::vector<std::string> AwaitSnapshot(size_t number) {
    MutexLock lock(&mutex_);
    while (snapshots_.size() < number) changed_.Wait(&mutex_);
    return snapshots_[number - 1];
  }
  size_t snapshots() const {
    MutexLock lock(&mutex_);
    return snapshots_.size();
  }
  void OnTrouble(journal::Journal::Trouble trouble) {
    trouble_ = std::move(trouble);
  }
  // Keeps what it tells: TSan does not see which thread uses a status last, as
  // abseil's counts are not instrumented.
  void Tell(const absl::Status& trouble) {
    told_.push_back(trouble);
    trouble_(trouble);
  }
  void WaitForRecords(size_t count) {
    MutexLock lock(&mutex_);
    while (records_.size() < count) changed_.Wait(&mutex_);
  }
  std::vector<std::string> records() const {
    MutexLock lock(&mutex_);
    return records_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool quick_ ABSL_GUARDED_BY(mutex_) = true;
  std::vector<std::string> records_ ABSL_GUARDED_BY(mutex_);
  std::deque<journal::Journal::Durable> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<std::string>> snapshots_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Status> told_;
  journal::Journal::Trouble trouble_;  // set before the loop runs
};

class FakeJournal final : public journal::Journal {
 public:
  explicit FakeJournal(SlowDisk* disk) : disk_(disk) {}
  ~FakeJournal() override { disk_->Finish(absl::CancelledError("closed")); }
  absl::StatusOr<journal::LoadedJournal> Load() override {
    return journal::LoadedJournal{};
  }
  void Append(std::string record, Durable durable) override {
    disk_->Append(std::move(record), std::move(durable));
  }
  void Compact(MakeSnapshot make) override { disk_->Compact(make()); }
  void OnTrouble(Trouble trouble) override {
    disk_->OnTrouble(std::move(trouble));
  }

 private:
  SlowDisk* const disk_;
};

class RecordingLog final : public observe::EventLog {
 public:
  void Note(const JobName& job, const std::string& text) override {
    MutexLock lock(&mutex_);
    lines_.push_back(absl::StrCat(job.value, ": ", text));
  }
  std::vector<std::string> lines() const {
    MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::runtime

#endif  // LOCKSTEP_TESTS_SERVER_RUNTIME_FAKES_H_
