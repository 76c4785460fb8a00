#include "server/core/group_waits.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lockstep::core {

GroupWaits::GroupWaits(const ProgressTracker& progress, const plan::Plan& plan)
    : groups_of_(progress.size()), in_circle_(progress.size()) {
  // What each rank reports of each communicator. A member without a report has
  // made no call.
  std::map<int, std::map<int, const protocol::GroupProgress*>> reports;
  for (int rank = 0; rank < progress.size(); ++rank) {
    for (const protocol::GroupProgress& group : progress.of(rank).groups) {
      reports[group.communicator][rank] = &group;
    }
  }
  for (const auto& [communicator, by_rank] : reports) {
    if (communicator >= static_cast<int>(plan.communicators.size())) continue;
    Group group;
    uint64_t waiting = 0;  // the furthest call that a member waits in
    for (const int rank : plan.communicators[communicator].ranks) {
      if (!progress.of(rank).present) continue;
      Caller& member = group.members.emplace_back(Caller{.rank = rank});
      const auto report = by_rank.find(rank);
      if (report == by_rank.end()) continue;
      member.calls = report->second->calls;
      if (!report->second->waits()) continue;
      member.waits_in = report->second->completed + 1;
      member.call = &report->second->call;
      waiting = std::max(waiting, member.waits_in);
    }
    std::stable_sort(
        group.members.begin(), group.members.end(),
        [](const Caller& a, const Caller& b) { return a.calls < b.calls; });
    if (group.members.empty() || group.members[0].calls >= waiting) continue;
    for (const Caller& member : group.members) {
      groups_of_[member.rank].push_back(groups_.size());
    }
    groups_.push_back(std::move(group));
  }
  FindCircles(progress.size());
}

void GroupWaits::AddFor(int rank, size_t max, std::vector<int>* others) const {
  if (groups_of_.empty()) return;
  for (const size_t g : groups_of_[rank]) {
    const std::vector<Caller>& members = groups_[g].members;
    const auto self =
        std::find_if(members.begin(), members.end(),
                     [rank](const Caller& m) { return m.rank == rank; });
    for (const Caller& other : members) {
      if (others->size() >= max || !self->WaitsFor(other)) break;
      const bool known = std::find(others->begin(), others->end(),
                                   other.rank) != others->end();
      if (!known) others->push_back(other.rank);
    }
  }
}

std::vector<int> GroupWaits::On(int rank) const {
  std::set<int> waiters;
  if (groups_of_.empty()) return {};
  for (const size_t g : groups_of_[rank]) {
    const std::vector<Caller>& members = groups_[g].members;
    const auto self =
        std::find_if(members.begin(), members.end(),
                     [rank](const Caller& m) { return m.rank == rank; });
    for (const Caller& other : members) {
      if (other.WaitsFor(*self)) waiters.insert(other.rank);
    }
  }
  return {waiters.begin(), waiters.end()};
}

std::string GroupWaits::CallMissing(int rank) const {
  if (groups_of_.empty()) return "";
  for (const size_t g : groups_of_[rank]) {
    const std::vector<Caller>& members = groups_[g].members;
    const auto self =
        std::find_if(members.begin(), members.end(),
                     [rank](const Caller& m) { return m.rank == rank; });
    for (const Caller& other : members) {
      if (other.WaitsFor(*self)) return *other.call;
    }
  }
  return "";
}

// Follows each rank to the first that it waits for, and on; visits each once.
void GroupWaits::FindCircles(int ranks) {
  std::vector<int> next(ranks, -1), walk_of(ranks, -1);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> others;
    AddFor(rank, 1, &others);
    if (!others.empty()) next[rank] = others[0];
  }
  for (int start = 0; start < ranks; ++start) {
    int at = start;
    while (at >= 0 && walk_of[at] < 0) {
      walk_of[at] = start;
      at = next[at];
    }
    if (at < 0 || walk_of[at] != start) continue;
    for (; !in_circle_[at]; at = next[at]) in_circle_[at] = true;
  }
}

}  // namespace lockstep::core
