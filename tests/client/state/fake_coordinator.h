// A coordinator of checkpoints in this process: what protocol/checkpoint.h says
// for a number of ranks that do not change.
//
//   FakeCoordinator coordinator(2);
//   coordinator.channel(0), coordinator.channel(1)   one for each rank

#ifndef LOCKSTEP_TESTS_CLIENT_STATE_FAKE_COORDINATOR_H_
#define LOCKSTEP_TESTS_CLIENT_STATE_FAKE_COORDINATOR_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/mutex.h"
#include "client/session/checkpoint_channel.h"
#include "gtest/gtest.h"

namespace lockstep::state {

class FakeCoordinator {
 public:
  explicit FakeCoordinator(int ranks) : reports_(ranks), prepared_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      channels_.push_back(std::make_unique<Channel>(this, rank));
    }
  }

  session::CheckpointChannel* channel(int rank) {
    return channels_[static_cast<size_t>(rank)].get();
  }

  // Which rank writes the manifest of a save; the default is the number modulo
  // the ranks.
  void SetCommitter(std::function<int(uint64_t number)> committer) {
    MutexLock lock(&mutex_);
    committer_ = std::move(committer);
  }

  // No save is decided until Release.
  void Hold() {
    MutexLock lock(&mutex_);
    held_ = true;
  }
  void Release() {
    MutexLock lock(&mutex_);
    held_ = false;
    Decide();
    changed_.NotifyAll();
  }

  void EndSession(absl::Status reason) {
    MutexLock lock(&mutex_);
    ended_ = std::move(reason);
    changed_.NotifyAll();
  }

  protocol::CheckpointReport report(int rank) {
    MutexLock lock(&mutex_);
    return reports_[static_cast<size_t>(rank)];
  }
  int reports() {
    MutexLock lock(&mutex_);
    return count_;
  }

 private:
  using Stage = protocol::CheckpointSave::Stage;

  class Channel final : public session::CheckpointChannel {
   public:
    Channel(FakeCoordinator* owner, int rank) : owner_(owner), rank_(rank) {}
    void Report(const protocol::CheckpointReport& report) override {
      // The wire has no other: the session would end.
      if (report.save.has_value()) {
        EXPECT_GE(report.save->step, 0);
      }
      MutexLock lock(&owner_->mutex_);
      ++owner_->count_;
      owner_->reports_[static_cast<size_t>(rank_)] = report;
      owner_->Open();
      owner_->Decide();
      owner_->changed_.NotifyAll();
    }
    absl::StatusOr<protocol::CheckpointNews> Await(
        absl::FunctionRef<bool(const protocol::CheckpointNews&)> holds,
        absl::Time deadline) override {
      MutexLock lock(&owner_->mutex_);
      while (true) {
        protocol::CheckpointNews news = owner_->news_;
        news.prepared = owner_->prepared_[static_cast<size_t>(rank_)];
        if (holds(news)) return news;
        if (!owner_->ended_.ok()) return owner_->ended_;
        const absl::Duration left = deadline - absl::Now();
        if (left <= absl::ZeroDuration()) {
          return absl::DeadlineExceededError("no such news");
        }
        owner_->changed_.WaitFor(&owner_->mutex_, left);
      }
    }

   private:
    FakeCoordinator* const owner_;
    const int rank_;
  };

  void Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (news_.opened && !AllOpenAgain()) return;
    news_.opened = false;
    if (reports_[0].directory) news_.directory = reports_[0].directory;
    news_.access_faults.clear();
    for (size_t rank = 0; rank < reports_.size(); ++rank) {
      if (!reports_[rank].access.has_value()) return;
      if (reports_[rank].directory->nonce != news_.directory->nonce) return;
      if (reports_[rank].access->ok()) continue;
      news_.access_faults.push_back(
          {static_cast<int>(rank), *reports_[rank].access});
    }
    news_.opened = true;
  }

  // After an opening that failed all ranks begin another one.
  bool AllOpenAgain() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto& first = reports_[0].directory;
    return first && first->nonce != news_.directory->nonce &&
           std::all_of(reports_.begin() + 1, reports_.end(),
                       [](const auto& report) { return !report.access; });
  }

  // The next save, if all ranks have reported it.
  void Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (held_) return;
    const uint64_t number = news_.decided + 1;
    std::vector<protocol::CheckpointFault> faults;
    std::vector<std::string> hashes;
    for (size_t rank = 0; rank < reports_.size(); ++rank) {
      const auto& save = reports_[rank].save;
      if (!save.has_value() || save->number != number ||
          save->stage == Stage::kWriting) {
        return;
      }
      if (save->stage == Stage::kFailed) {
        faults.push_back({static_cast<int>(rank), save->error});
      }
      hashes.push_back(save->part_hash);
    }
    const auto committer = static_cast<size_t>(
        committer_ ? committer_(number)
                   : static_cast<int>(number % reports_.size()));
    if (faults.empty()) {
      prepared_[committer] = {number, std::move(hashes)};
      const auto& committed = reports_[committer].save->committed;
      if (!committed.has_value()) return;
      if (!committed->ok()) {
        faults.push_back({static_cast<int>(committer), *committed});
      }
    }
    news_.decided = number;
    news_.faults = std::move(faults);
    std::fill(prepared_.begin(), prepared_.end(), std::nullopt);
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<protocol::CheckpointReport> reports_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::optional<protocol::CheckpointPrepared>> prepared_
      ABSL_GUARDED_BY(mutex_);
  protocol::CheckpointNews news_ ABSL_GUARDED_BY(mutex_);
  std::function<int(uint64_t)> committer_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace lockstep::state

#endif  // LOCKSTEP_TESTS_CLIENT_STATE_FAKE_COORDINATOR_H_
