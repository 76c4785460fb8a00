#include "server/core/assignment.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace lockstep::core {
namespace {

using protocol::Member;
using Host = std::pair<std::string, std::string>;  // name, boot id

Host HostOf(const Member& member) {
  return {member.process.host, member.process.boot_id};
}

void SortByName(std::vector<Member>* members) {
  std::sort(members->begin(), members->end(),
            [](const Member& a, const Member& b) {
              return NaturalLess(a.worker.value, b.worker.value);
            });
}

// Members grouped by host; hosts in the order of their first member.
std::vector<Member> GroupByHost(const std::vector<Member>& sorted) {
  std::map<Host, size_t> index_of;
  std::vector<std::vector<Member>> hosts;
  for (const Member& member : sorted) {
    const auto [entry, is_new] =
        index_of.try_emplace(HostOf(member), hosts.size());
    if (is_new) hosts.emplace_back();
    hosts[entry->second].push_back(member);
  }
  std::vector<Member> grouped;
  for (const auto& host : hosts) {
    grouped.insert(grouped.end(), host.begin(), host.end());
  }
  return grouped;
}

using RankSlots = std::vector<std::optional<Member>>;

// Gives previous members their ranks; returns the new ones.
std::vector<Member> KeepRanks(const std::vector<Member>& sorted,
                              const std::vector<Member>& previous,
                              RankSlots* slots) {
  std::map<WorkerName, size_t> rank_of;
  for (size_t rank = 0; rank < previous.size(); ++rank) {
    rank_of[previous[rank].worker] = rank;
  }
  std::vector<Member> newcomers;
  for (const Member& member : sorted) {
    const auto had = rank_of.find(member.worker);
    if (had == rank_of.end()) {
      newcomers.push_back(member);
    } else {
      (*slots)[had->second] = member;
    }
  }
  return newcomers;
}

// Gives new members the free ranks of their own hosts; returns the rest.
std::vector<Member> FillRanksOfTheirHosts(const std::vector<Member>& newcomers,
                                          const std::vector<Member>& previous,
                                          RankSlots* slots) {
  std::map<Host, std::deque<size_t>> holes;
  for (size_t rank = 0; rank < previous.size(); ++rank) {
    if (!(*slots)[rank]) holes[HostOf(previous[rank])].push_back(rank);
  }
  std::vector<Member> others;
  for (const Member& member : newcomers) {
    std::deque<size_t>& own = holes[HostOf(member)];
    if (own.empty()) {
      others.push_back(member);
    } else {
      (*slots)[own.front()] = member;
      own.pop_front();
    }
  }
  return others;
}

void FillOtherRanks(const std::vector<Member>& others, RankSlots* slots) {
  auto slot = slots->begin();
  for (const Member& member : others) {
    while (*slot) ++slot;
    *slot = member;
  }
}

}  // namespace

std::vector<Member> AssignRanks(std::vector<Member> arrived,
                                const std::vector<Member>& previous) {
  SortByName(&arrived);
  if (previous.size() != arrived.size()) return GroupByHost(arrived);

  RankSlots slots(arrived.size());
  const auto newcomers = KeepRanks(arrived, previous, &slots);
  FillOtherRanks(FillRanksOfTheirHosts(newcomers, previous, &slots), &slots);

  std::vector<Member> ranks;
  ranks.reserve(slots.size());
  for (std::optional<Member>& slot : slots) ranks.push_back(*std::move(slot));
  return ranks;
}

}  // namespace lockstep::core
