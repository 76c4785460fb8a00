#include "server/core/group_waits.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lockstep::core {

GroupWaits::GroupWaits(const ProgressTracker& progress, const plan::Plan& plan)
    : places_of_(progress.size()) {
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
    for (size_t i = 0; i < group.members.size(); ++i) {
      places_of_[group.members[i].rank].push_back({groups_.size(), i});
    }
    groups_.push_back(std::move(group));
  }
}

void GroupWaits::AddFor(int rank, size_t max, std::vector<int>* others) const {
  if (places_of_.empty()) return;
  for (const Place& place : places_of_[rank]) {
    for (const Caller& other : groups_[place.group].members) {
      if (others->size() >= max || !At(place).WaitsFor(other)) break;
      const bool known = std::find(others->begin(), others->end(),
                                   other.rank) != others->end();
      if (!known) others->push_back(other.rank);
    }
  }
}

bool GroupWaits::Any(int rank) const {
  std::vector<int> others;
  AddFor(rank, 1, &others);
  return !others.empty();
}

std::vector<int> GroupWaits::On(int rank) const {
  std::set<int> waiters;
  if (places_of_.empty()) return {};
  for (const Place& place : places_of_[rank]) {
    for (const Caller& other : groups_[place.group].members) {
      if (other.WaitsFor(At(place))) waiters.insert(other.rank);
    }
  }
  return {waiters.begin(), waiters.end()};
}

std::string GroupWaits::CallMissing(int rank) const {
  if (places_of_.empty()) return "";
  for (const Place& place : places_of_[rank]) {
    for (const Caller& other : groups_[place.group].members) {
      if (other.WaitsFor(At(place))) return *other.call;
    }
  }
  return "";
}

}  // namespace lockstep::core
