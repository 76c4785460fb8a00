#include "server/core/waits.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace lockstep::core {
namespace {

constexpr uint64_t kPhases = 8;

uint64_t Distance(uint64_t step, protocol::Phase phase) {
  return step * kPhases + static_cast<uint64_t>(phase);
}

}  // namespace

Waits::Waits(const ProgressTracker& progress)
    : at_fault_(progress.size()),
      present_(progress.size()),
      reached_(progress.size()),
      needs_(progress.size(), kNothing),
      needed_(progress.size(), kNothing),
      sender_(progress.size(), -1),
      is_sender_(progress.size()),
      groups_of_rank_(progress.size()) {
  for (int rank = 0; rank < progress.size(); ++rank) {
    present_[rank] = progress.of(rank).present;
  }
}

Waits Waits::OfStage(const ProgressTracker& progress,
                     const std::vector<bool>& done) {
  Waits waits(progress);
  for (int rank = 0; rank < progress.size(); ++rank) {
    waits.reached_[rank] = done[rank] ? 1 : 0;
    waits.needs_[rank] = done[rank] ? 1 : kNothing;
    waits.groups_of_rank_[rank] = {0};
  }
  std::vector<int> everybody(progress.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  waits.AddGroup(std::move(everybody));
  return waits;
}

Waits Waits::OfSteps(const ProgressTracker& progress, const plan::Plan* plan,
                     const std::vector<uint64_t>& passes_done) {
  Waits waits(progress);
  // A pass closes for all groups at once.
  const bool all_together = plan == nullptr || !passes_done.empty();
  for (int rank = 0; rank < progress.size(); ++rank) {
    const protocol::Position& position = progress.of(rank).position;
    waits.reached_[rank] = Distance(position.step, position.phase);
    const bool in_transfer = position.phase == protocol::Phase::kTransfer;
    const bool in_verdict = position.phase == protocol::Phase::kVerdict;
    if (in_transfer || in_verdict) waits.needs_[rank] = waits.reached_[rank];
    if (in_verdict || all_together) waits.groups_of_rank_[rank] = {0};
    if (!passes_done.empty() && passes_done[rank] > 0) {
      waits.reached_[rank] =
          std::max(waits.reached_[rank],
                   Distance(passes_done[rank] - 1, protocol::Phase::kTransfer));
    }
  }
  waits.AddSenders(progress);
  if (plan != nullptr) waits.calls_ = GroupWaits(progress, *plan);
  std::vector<int> everybody(progress.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  waits.AddGroup(std::move(everybody));
  if (!all_together) waits.AddGradientGroups(progress, *plan);
  waits.FindFaultsOfCycles();
  return waits;
}

void Waits::AddGradientGroups(const ProgressTracker& progress,
                              const plan::Plan& plan) {
  std::set<int> gradient;
  for (const plan::Bucket& bucket : plan.buckets) {
    gradient.insert(bucket.communicator);
  }
  for (const int communicator : gradient) {
    const std::vector<int>& ranks = plan.communicators[communicator].ranks;
    const int group = static_cast<int>(groups_.size());
    for (const int rank : ranks) {
      const bool in_verdict =
          progress.of(rank).position.phase == protocol::Phase::kVerdict;
      if (!in_verdict) groups_of_rank_[rank].push_back(group);
    }
    AddGroup(ranks);
  }
}

// Follows each rank to the first that it waits for, and on; visits each once.
void Waits::FindFaultsOfCycles() {
  std::vector<int> next, walk_of(present_.size(), -1);
  for (size_t rank = 0; rank < present_.size(); ++rank) {
    const std::vector<int> others = For(static_cast<int>(rank), 1);
    next.push_back(others.empty() ? -1 : others[0]);
  }
  for (size_t start = 0; start < next.size(); ++start) {
    int at = static_cast<int>(start);
    while (at >= 0 && walk_of[at] < 0) {
      walk_of[at] = static_cast<int>(start);
      at = next[at];
    }
    if (at < 0 || walk_of[at] != static_cast<int>(start)) continue;
    std::vector<int> cycle = {at};
    for (int on = next[at]; on != at; on = next[on]) cycle.push_back(on);
    std::vector<int> left_out;
    for (const int rank : cycle) {
      if (calls_.Needed(rank) && !calls_.Any(rank)) left_out.push_back(rank);
    }
    for (const int rank : left_out.empty() ? cycle : left_out) {
      at_fault_[rank] = true;
    }
  }
}

void Waits::AddSenders(const ProgressTracker& progress) {
  for (int rank = 0; rank < progress.size(); ++rank) {
    const int sender = progress.of(rank).awaits;
    const bool waits = present_[rank] && sender >= 0 &&
                       sender < progress.size() && present_[sender] &&
                       reached_[sender] <= reached_[rank];
    if (waits) sender_[rank] = sender;
  }
  LeaveOutCycles();
  for (const int sender : sender_) {
    if (sender >= 0) is_sender_[sender] = true;
  }
}

// Follows each rank to its sender and on, visiting each rank once: a path that
// reaches itself is a cycle.
void Waits::LeaveOutCycles() {
  std::vector<int> walk_of(sender_.size(), -1);
  for (int start = 0; start < static_cast<int>(sender_.size()); ++start) {
    int at = start;
    while (at >= 0 && walk_of[at] < 0) {
      walk_of[at] = start;
      at = sender_[at];
    }
    if (at < 0 || walk_of[at] != start) continue;
    while (sender_[at] >= 0) at = std::exchange(sender_[at], -1);
  }
}

void Waits::AddGroup(std::vector<int> ranks) {
  ranks.erase(std::remove_if(ranks.begin(), ranks.end(),
                             [this](int rank) { return !present_[rank]; }),
              ranks.end());
  std::stable_sort(ranks.begin(), ranks.end(),
                   [this](int a, int b) { return reached_[a] < reached_[b]; });
  const int group = static_cast<int>(groups_.size());
  uint64_t furthest = kNothing;
  for (const int rank : ranks) {
    const std::vector<int>& own = groups_of_rank_[rank];
    const bool waits_here =
        std::find(own.begin(), own.end(), group) != own.end();
    if (waits_here) furthest = std::max(furthest, needs_[rank]);
  }
  for (const int rank : ranks) {
    needed_[rank] = std::max(needed_[rank], furthest);
  }
  groups_.push_back(std::move(ranks));
}

bool Waits::Needs(int waiter, int other) const {
  return present_[waiter] && present_[other] && needs_[waiter] != kNothing &&
         reached_[other] < needs_[waiter];
}

bool Waits::Needed(int rank) const {
  return present_[rank] && (is_sender_[rank] || calls_.Needed(rank) ||
                            reached_[rank] < needed_[rank]);
}

bool Waits::Any(int rank) const {
  return !at_fault_[rank] && !For(rank, 1).empty();
}

std::vector<int> Waits::For(int rank, size_t max) const {
  std::vector<int> others;
  if (sender_[rank] >= 0 && max > 0) others.push_back(sender_[rank]);
  calls_.AddFor(rank, max, &others);
  for (const int group : groups_of_rank_[rank]) {
    for (const int other : groups_[group]) {
      if (others.size() == max || !Needs(rank, other)) break;
      const bool known =
          std::find(others.begin(), others.end(), other) != others.end();
      if (!known) others.push_back(other);
    }
  }
  return others;
}

std::vector<int> Waits::On(int rank, size_t max) const {
  std::set<int> waiters;
  for (size_t group = 0; group < groups_.size(); ++group) {
    const auto& members = groups_[group];
    if (std::find(members.begin(), members.end(), rank) == members.end()) {
      continue;
    }
    for (const int waiter : members) {
      const auto& own = groups_of_rank_[waiter];
      const bool waits_here = std::find(own.begin(), own.end(),
                                        static_cast<int>(group)) != own.end();
      if (waits_here && Needs(waiter, rank)) waiters.insert(waiter);
    }
  }
  for (size_t waiter = 0; waiter < sender_.size(); ++waiter) {
    if (sender_[waiter] == rank) waiters.insert(static_cast<int>(waiter));
  }
  for (const int waiter : calls_.On(rank)) waiters.insert(waiter);
  std::vector<int> first(waiters.begin(), waiters.end());
  if (first.size() > max) first.resize(max);
  return first;
}

}  // namespace lockstep::core
