#include "plan/verify/player.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace lockstep::plan {
namespace {

constexpr size_t kWaitsShown = 16;

// What begins and ends as one: a transfer, or neighbours of one group.
struct Unit {
  int queue;
  std::vector<Place> places;
  std::vector<int> meetings;  // that its places take part in
  int blockers = 1;           // dependencies, and its turn in the queue
  int unmet = 0;              // meetings that have not taken place
};

// Transfers of different ranks that end together.
struct Meeting {
  std::vector<Place> members;
  int absent = 0;  // members that have not begun
};

class Player {
 public:
  Player(const Plan& plan, const Traffic& traffic, Queues queues)
      : plan_(plan) {
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      FormQueues(static_cast<int>(rank), queues);
    }
    ended_.assign(queues_.size(), 0);
    dependents_.resize(units_.size());
    for (size_t unit = 0; unit < units_.size(); ++unit) Depend(unit);
    Arrange(traffic);
  }

  void Play() {
    std::vector<int> ready;
    for (const std::vector<int>& queue : queues_) {
      if (!queue.empty()) Unblock(queue[0], ready);
    }
    while (!ready.empty()) {
      const int unit = ready.back();
      ready.pop_back();
      Begin(unit, ready);
    }
  }

  std::optional<std::vector<Wait>> FindCircle() const {
    int unit = FirstUnended();
    if (unit < 0) return std::nullopt;
    // Everything unended waits for something unended, so the walk comes back.
    std::vector<Wait> walk;
    std::map<int, size_t> visited;
    while (visited.try_emplace(unit, walk.size()).second) {
      walk.push_back(WaitOf(unit));
      unit = UnitOf(walk.back().awaited);
    }
    walk.erase(walk.begin(), walk.begin() + visited[unit]);
    return walk;
  }

 private:
  // --- Setting up ---

  void FormQueues(int rank, Queues queues) {
    const RankPlan& ranks_plan = plan_.ranks[rank];
    std::vector<std::vector<int>>& of_lane = unit_of_.emplace_back();
    for (const Lane& lane : ranks_plan.lanes) {
      of_lane.emplace_back(lane.transfers.size(), -1);
    }
    const int first = static_cast<int>(queues_.size());
    const size_t lanes = ranks_plan.lanes.size();
    queues_.resize(queues_.size() + (queues == Queues::kEachLane ? lanes : 1));
    for (const TransferRef& ref : ranks_plan.launch_order) {
      const int queue = first + (queues == Queues::kEachLane ? ref.lane : 0);
      Enqueue({rank, ref}, queue);
    }
  }

  void Enqueue(const Place& place, int queue) {
    if (!JoinsGroup(place)) {
      queues_[queue].push_back(static_cast<int>(units_.size()));
      units_.push_back({.queue = queue});
    }
    const int unit = queues_[queue].back();
    units_[unit].places.push_back(place);
    unit_of_[place.rank][place.ref.lane][place.ref.index] = unit;
  }

  bool JoinsGroup(const Place& place) const {
    const int group = At(plan_, place).group;
    if (group == 0 || place.ref.index == 0) return false;
    const Place before{place.rank, {place.ref.lane, place.ref.index - 1}};
    return At(plan_, before).group == group;
  }

  void Depend(size_t unit) {
    for (const Place& place : units_[unit].places) {
      for (const TransferRef& ref : At(plan_, place).after) {
        dependents_[UnitOf({place.rank, ref})].push_back(
            static_cast<int>(unit));
        ++units_[unit].blockers;
      }
    }
  }

  void Arrange(const Traffic& traffic) {
    for (const auto& members : traffic.collectives) {
      for (size_t k = 0; k < members[0].size(); ++k) {
        Meeting& meeting = meetings_.emplace_back();
        for (const std::vector<Place>& member : members) {
          Invite(member[k], meeting);
        }
      }
    }
    for (const auto& [key, channel] : traffic.channels) {
      for (size_t k = 0; k < channel.sends.size(); ++k) {
        Meeting& meeting = meetings_.emplace_back();
        Invite(channel.sends[k], meeting);
        Invite(channel.receives[k], meeting);
      }
    }
  }

  void Invite(const Place& place, Meeting& meeting) {
    meeting.members.push_back(place);
    ++meeting.absent;
    Unit& unit = units_[UnitOf(place)];
    unit.meetings.push_back(static_cast<int>(meetings_.size()) - 1);
    ++unit.unmet;
  }

  // --- Playing ---

  void Unblock(int unit, std::vector<int>& ready) {
    if (--units_[unit].blockers == 0) ready.push_back(unit);
  }

  void Begin(int unit, std::vector<int>& ready) {
    for (const int meeting : units_[unit].meetings) {
      if (--meetings_[meeting].absent > 0) continue;
      for (const Place& member : meetings_[meeting].members) {
        const int ending = UnitOf(member);
        if (--units_[ending].unmet == 0) End(ending, ready);
      }
    }
  }

  void End(int unit, std::vector<int>& ready) {
    const std::vector<int>& queue = queues_[units_[unit].queue];
    const size_t next = ++ended_[units_[unit].queue];
    if (next < queue.size()) Unblock(queue[next], ready);
    for (const int dependent : dependents_[unit]) Unblock(dependent, ready);
  }

  // --- Explaining ---

  int UnitOf(const Place& place) const {
    return unit_of_[place.rank][place.ref.lane][place.ref.index];
  }

  bool HasEnded(int unit) const { return units_[unit].unmet == 0; }

  int FirstUnended() const {
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      if (!HasEnded(static_cast<int>(unit))) return static_cast<int>(unit);
    }
    return -1;
  }

  Wait WaitOf(int index) const {
    const Unit& unit = units_[index];
    const int head = queues_[unit.queue][ended_[unit.queue]];
    if (head != index) {
      return {unit.places[0], WaitKind::kBehind, units_[head].places[0]};
    }
    for (const Place& place : unit.places) {
      for (const TransferRef& ref : At(plan_, place).after) {
        const Place awaited{place.rank, ref};
        if (!HasEnded(UnitOf(awaited))) {
          return {place, WaitKind::kAfter, awaited};
        }
      }
    }
    return PartnerWaitOf(index);
  }

  Wait PartnerWaitOf(int index) const {
    for (const int number : units_[index].meetings) {
      const std::vector<Place>& members = meetings_[number].members;
      const auto self =
          std::find_if(members.begin(), members.end(),
                       [&](const Place& p) { return UnitOf(p) == index; });
      const auto absent = std::find_if(
          members.begin(), members.end(),
          [&](const Place& p) { return units_[UnitOf(p)].blockers > 0; });
      if (absent != members.end()) return {*self, WaitKind::kPartner, *absent};
    }
    Fatal("a transfer that waits for nothing did not end");
  }

  const Plan& plan_;
  std::vector<Unit> units_;
  std::vector<std::vector<int>> queues_;
  std::vector<size_t> ended_;  // units of each queue that have
  std::vector<std::vector<std::vector<int>>> unit_of_;  // rank, lane, index
  std::vector<std::vector<int>> dependents_;            // of each unit
  std::vector<Meeting> meetings_;
};

absl::string_view Verb(WaitKind kind) {
  switch (kind) {
    case WaitKind::kBehind: return "is queued behind";
    case WaitKind::kAfter: return "comes after";
    case WaitKind::kPartner: return "waits for its partner,";
  }
  return "?";
}

std::string Named(const Plan& plan, const Place& place) {
  return absl::StrFormat("rank %d %s", place.rank, Describe(plan, place));
}

}  // namespace

std::optional<std::vector<Wait>> FindDeadlock(const Plan& plan,
                                              const Traffic& traffic,
                                              Queues queues) {
  Player player(plan, traffic, queues);
  player.Play();
  return player.FindCircle();
}

std::string Describe(const Plan& plan, const std::vector<Wait>& circle) {
  std::string text;
  const size_t shown = std::min(circle.size(), kWaitsShown);
  for (size_t i = 0; i < shown; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "; ", Named(plan, circle[i].waiter),
                    " ", Verb(circle[i].kind), " ",
                    Named(plan, circle[i].awaited));
  }
  if (shown < circle.size()) {
    absl::StrAppend(&text, "; and ", circle.size() - shown, " more waits");
  }
  return text;
}

}  // namespace lockstep::plan
