#include "plan/verify/simulator.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace lockstep::plan {
namespace {

constexpr size_t kWaitsShown = 16;

// A unit that begins and ends as one: a task, a transfer, or a group.
struct SimulatedUnit {
  int queue;
  std::vector<PlanNode> places;
  std::vector<int> matches;  // of its places
  int blockers = 1;          // dependencies, and its position in the queue
  int launched_after = -1;   // a task of the rank, if launches are in order
  int unmet = 0;             // matches that have not taken place
  int64_t begin = 0;         // when the last blocker ended
  int64_t end = 0;           // the latest end so far
  bool ended = false;
};

// Transfers of different ranks that end together.
struct Match {
  std::vector<PlanNode> members;
  int absent = 0;     // members that have not begun
  int64_t begin = 0;  // of the latest member so far
};

class Simulator {
 public:
  // Without durations all times are zero.
  Simulator(const Plan& plan, const Traffic& traffic, QueueSharing queues,
            const Durations* durations = nullptr)
      : plan_(plan), durations_(durations) {
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
      if (!queue.empty()) Unblock(queue[0], 0, ready);
    }
    while (!ready.empty()) {
      const int unit = ready.back();
      ready.pop_back();
      Begin(unit, ready);
    }
  }

  std::vector<RankSpans> Spans() const {
    std::vector<RankSpans> spans(plan_.ranks.size());
    for (size_t rank = 0; rank < spans.size(); ++rank) {
      for (const Lane& lane : plan_.ranks[rank].lanes) {
        spans[rank].lanes.emplace_back(lane.transfers.size());
      }
      spans[rank].tasks.resize(plan_.ranks[rank].tasks.size());
    }
    for (const Match& match : matches_) {
      for (const PlanNode& member : match.members) {
        spans[member.rank].lanes[member.ref.lane][member.ref.index] = {
            match.begin, units_[UnitOf(member)].end};
      }
    }
    for (const SimulatedUnit& unit : units_) {
      const PlanNode& place = unit.places[0];
      if (!IsTask(place)) continue;
      spans[place.rank].tasks[place.ref.index] = {unit.begin, unit.end};
    }
    return spans;
  }

  std::optional<std::vector<Wait>> FindCycle() const {
    int unit = FirstUnended();
    if (unit < 0) return std::nullopt;
    // Every unit that has not ended waits for another one, so the walk closes a
    // cycle.
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

  void FormQueues(int rank, QueueSharing queues) {
    const RankPlan& ranks_plan = plan_.ranks[rank];
    std::vector<std::vector<int>>& of_lane = unit_of_.emplace_back();
    for (const Lane& lane : ranks_plan.lanes) {
      of_lane.emplace_back(lane.transfers.size(), -1);
    }
    const int first = static_cast<int>(queues_.size());
    const bool one = queues == QueueSharing::kEachRank;
    queues_.resize(queues_.size() + (one ? 1 : ranks_plan.lanes.size()));
    int launched_after = -1;  // the latest task awaited so far
    for (const TransferRef& ref : ranks_plan.launch_order) {
      Enqueue({rank, ref}, first + (one ? 0 : ref.lane));
      if (queues != QueueSharing::kInLaunchOrder) continue;
      launched_after =
          std::max(launched_after, At(plan_, {rank, ref}).after_task);
      SimulatedUnit& unit = units_[unit_of_[rank][ref.lane][ref.index]];
      unit.launched_after = launched_after;
    }
    FormTaskQueue(rank);
  }

  void FormTaskQueue(int rank) {
    const int tasks = static_cast<int>(plan_.ranks[rank].tasks.size());
    const int queue = static_cast<int>(queues_.size());
    queues_.emplace_back();
    std::vector<int>& unit_of_task = unit_of_task_.emplace_back();
    for (int task = 0; task < tasks; ++task) {
      unit_of_task.push_back(static_cast<int>(units_.size()));
      queues_[queue].push_back(unit_of_task.back());
      units_.push_back({.queue = queue, .places = {{rank, {kTaskLane, task}}}});
    }
  }

  void Enqueue(const PlanNode& place, int queue) {
    if (!JoinsGroup(place)) {
      queues_[queue].push_back(static_cast<int>(units_.size()));
      units_.push_back({.queue = queue});
    }
    const int unit = queues_[queue].back();
    units_[unit].places.push_back(place);
    unit_of_[place.rank][place.ref.lane][place.ref.index] = unit;
  }

  bool JoinsGroup(const PlanNode& place) const {
    const int group = At(plan_, place).group;
    if (group == 0 || place.ref.index == 0) return false;
    const PlanNode before{place.rank, {place.ref.lane, place.ref.index - 1}};
    return At(plan_, before).group == group;
  }

  void Depend(size_t unit) {
    for (const PlanNode& place : units_[unit].places) {
      for (const PlanNode& need : NeedsOf(plan_, place)) {
        dependents_[UnitOf(need)].push_back(static_cast<int>(unit));
        ++units_[unit].blockers;
      }
    }
    if (units_[unit].launched_after < 0) return;
    const int rank = units_[unit].places[0].rank;
    dependents_[unit_of_task_[rank][units_[unit].launched_after]].push_back(
        static_cast<int>(unit));
    ++units_[unit].blockers;
  }

  void Arrange(const Traffic& traffic) {
    for (const auto& members : traffic.collectives) {
      for (size_t k = 0; k < members[0].size(); ++k) {
        Match& match = matches_.emplace_back();
        for (const std::vector<PlanNode>& member : members) {
          Invite(member[k], match);
        }
      }
    }
    for (const auto& [key, channel] : traffic.channels) {
      for (size_t k = 0; k < channel.sends.size(); ++k) {
        Match& match = matches_.emplace_back();
        Invite(channel.sends[k], match);
        Invite(channel.receives[k], match);
      }
    }
  }

  void Invite(const PlanNode& place, Match& match) {
    match.members.push_back(place);
    ++match.absent;
    SimulatedUnit& unit = units_[UnitOf(place)];
    unit.matches.push_back(static_cast<int>(matches_.size()) - 1);
    ++unit.unmet;
  }

  // --- Simulation ---

  void Unblock(int unit, int64_t now, std::vector<int>& ready) {
    units_[unit].begin = std::max(units_[unit].begin, now);
    if (--units_[unit].blockers == 0) ready.push_back(unit);
  }

  void Begin(int unit, std::vector<int>& ready) {
    const int64_t now = units_[unit].begin;
    if (units_[unit].matches.empty()) return Compute(unit, ready);
    for (const int number : units_[unit].matches) {
      Match& match = matches_[number];
      match.begin = std::max(match.begin, now);
      if (--match.absent == 0) Meet(match, ready);
    }
  }

  void Compute(int unit, std::vector<int>& ready) {
    const PlanNode& place = units_[unit].places[0];
    const Task& task = plan_.ranks[place.rank].tasks[place.ref.index];
    units_[unit].end =
        units_[unit].begin + (durations_ ? durations_->task(task) : 0);
    End(unit, ready);
  }

  void Meet(const Match& match, std::vector<int>& ready) {
    const int64_t end =
        match.begin +
        (durations_ ? durations_->transfer(At(plan_, match.members[0])) : 0);
    for (const PlanNode& member : match.members) {
      SimulatedUnit& unit = units_[UnitOf(member)];
      unit.end = std::max(unit.end, end);
      if (--unit.unmet == 0) End(UnitOf(member), ready);
    }
  }

  void End(int unit, std::vector<int>& ready) {
    units_[unit].ended = true;
    const int64_t now = units_[unit].end;
    const std::vector<int>& queue = queues_[units_[unit].queue];
    const size_t next = ++ended_[units_[unit].queue];
    if (next < queue.size()) Unblock(queue[next], now, ready);
    for (const int dependent : dependents_[unit]) {
      Unblock(dependent, now, ready);
    }
  }

  // --- Explaining ---

  int UnitOf(const PlanNode& place) const {
    if (IsTask(place)) return unit_of_task_[place.rank][place.ref.index];
    return unit_of_[place.rank][place.ref.lane][place.ref.index];
  }

  bool HasEnded(int unit) const { return units_[unit].ended; }

  int FirstUnended() const {
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      if (!HasEnded(static_cast<int>(unit))) return static_cast<int>(unit);
    }
    return -1;
  }

  Wait WaitOf(int index) const {
    const SimulatedUnit& unit = units_[index];
    const int head = queues_[unit.queue][ended_[unit.queue]];
    if (head != index) {
      return {unit.places[0], WaitKind::kBehind, units_[head].places[0]};
    }
    for (const PlanNode& place : unit.places) {
      for (const PlanNode& need : NeedsOf(plan_, place)) {
        if (!HasEnded(UnitOf(need))) return {place, WaitKind::kAfter, need};
      }
    }
    const int rank = unit.places[0].rank;
    if (unit.launched_after >= 0 &&
        !HasEnded(unit_of_task_[rank][unit.launched_after])) {
      return {unit.places[0],
              WaitKind::kAfter,
              {rank, {kTaskLane, unit.launched_after}}};
    }
    return PartnerWaitOf(index);
  }

  Wait PartnerWaitOf(int index) const {
    for (const int number : units_[index].matches) {
      const std::vector<PlanNode>& members = matches_[number].members;
      const auto self =
          std::find_if(members.begin(), members.end(),
                       [&](const PlanNode& p) { return UnitOf(p) == index; });
      const auto absent = std::find_if(
          members.begin(), members.end(),
          [&](const PlanNode& p) { return units_[UnitOf(p)].blockers > 0; });
      if (absent != members.end()) return {*self, WaitKind::kPartner, *absent};
    }
    Fatal("a transfer that waits for nothing did not end");
  }

  const Plan& plan_;
  const Durations* const durations_;
  std::vector<SimulatedUnit> units_;
  std::vector<std::vector<int>> queues_;
  std::vector<size_t> ended_;  // units of each queue that have
  std::vector<std::vector<std::vector<int>>> unit_of_;  // rank, lane, index
  std::vector<std::vector<int>> unit_of_task_;          // rank, task
  std::vector<std::vector<int>> dependents_;            // of each unit
  std::vector<Match> matches_;
};

absl::string_view Verb(WaitKind kind) {
  switch (kind) {
    case WaitKind::kBehind: return "is queued behind";
    case WaitKind::kAfter: return "comes after";
    case WaitKind::kPartner: return "waits for its partner,";
  }
  return "?";
}

std::string Named(const Plan& plan, const PlanNode& place) {
  return absl::StrFormat("rank %d %s", place.rank, Describe(plan, place));
}

}  // namespace

std::optional<std::vector<Wait>> FindDeadlock(const Plan& plan,
                                              const Traffic& traffic,
                                              QueueSharing queues) {
  Simulator simulator(plan, traffic, queues);
  simulator.Play();
  return simulator.FindCycle();
}

std::optional<std::vector<RankSpans>> PlayInTime(const Plan& plan,
                                                 const Traffic& traffic,
                                                 QueueSharing queues,
                                                 const Durations& durations) {
  Simulator simulator(plan, traffic, queues, &durations);
  simulator.Play();
  if (simulator.FindCycle().has_value()) return std::nullopt;
  return simulator.Spans();
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
