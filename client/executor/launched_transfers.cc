#include "client/executor/launched_transfers.h"

#include <utility>

namespace lockstep::executor {
namespace {

std::set<plan::TransferRef> AwaitedByAnother(const plan::RankPlan& rank) {
  std::set<plan::TransferRef> awaited;
  for (size_t lane = 0; lane < rank.lanes.size(); ++lane) {
    for (const plan::Transfer& transfer : rank.lanes[lane].transfers) {
      const auto before = BeforeInOtherLanes(static_cast<int>(lane), transfer);
      awaited.insert(before.begin(), before.end());
    }
  }
  return awaited;
}

}  // namespace

std::vector<plan::TransferRef> BeforeInOtherLanes(
    int lane, const plan::Transfer& transfer) {
  std::vector<plan::TransferRef> before;
  for (const plan::TransferRef& ref : transfer.after) {
    if (ref.lane != lane) before.push_back(ref);
  }
  return before;
}

LaunchedTransfers::LaunchedTransfers(const plan::RankPlan& rank)
    : awaited_(AwaitedByAnother(rank)) {}

void LaunchedTransfers::MarkLaunched(const plan::TransferRef& ref, Event done) {
  if (!awaited_.contains(ref)) return;
  {
    MutexLock lock(&mutex_);
    launched_[ref] = std::move(done);
  }
  MutexLock lock(&listener_mutex_);
  if (listener_) listener_();
}

std::optional<std::vector<Event>> LaunchedTransfers::EventsBefore(
    absl::Span<const plan::TransferRef> before, uint64_t step) const {
  std::vector<Event> events;
  if (before.empty()) return events;
  MutexLock lock(&mutex_);
  if (step < step_) return events;  // Finish was called: they are over
  for (const plan::TransferRef& ref : before) {
    const auto launched = launched_.find(ref);
    if (launched == launched_.end()) return std::nullopt;
    events.push_back(launched->second);
  }
  return events;
}

bool LaunchedTransfers::AreLaunched(
    absl::Span<const plan::TransferRef> transfers) const {
  MutexLock lock(&mutex_);
  for (const plan::TransferRef& ref : transfers) {
    if (!launched_.contains(ref)) return false;
  }
  return true;
}

void LaunchedTransfers::BeginRun() {
  MutexLock lock(&mutex_);
  launched_.clear();
  running_ = true;
}

void LaunchedTransfers::EndRun() {
  MutexLock lock(&mutex_);
  running_ = false;
}

bool LaunchedTransfers::running() const {
  MutexLock lock(&mutex_);
  return running_;
}

void LaunchedTransfers::EndStep() {
  MutexLock lock(&mutex_);
  launched_.clear();
  ++step_;
}

void LaunchedTransfers::SetListener(std::function<void()> listener) {
  MutexLock lock(&listener_mutex_);
  listener_ = std::move(listener);
}

}  // namespace lockstep::executor
