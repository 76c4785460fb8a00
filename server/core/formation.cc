#include "server/core/formation.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "spec/elastic.h"

namespace lockstep::core {
namespace {

using protocol::Member;
using Host = std::pair<std::string, std::string>;  // name, boot id

Host HostOf(const Member& member) {
  return {member.process.host, member.process.boot_id};
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

std::vector<Member> FormFirst(const JobSpec& spec,
                              const std::vector<Member>& sorted) {
  const int replica = spec::WorkersPerReplica(spec);
  int replicas = std::min(static_cast<int>(sorted.size()) / replica,
                          spec::ReplicasMax(spec));
  while (replicas > 0 && !spec::MayHaveReplicas(spec, replicas)) --replicas;
  return GroupByHost({sorted.begin(), sorted.begin() + replicas * replica});
}

// A rank as its replica, the coordinate in the elastic axis, and its cell, the
// coordinates in all others.
class Cells {
 public:
  Cells(const Mesh& mesh, const std::string& elastic_axis)
      : replicas_(1), inner_(mesh.WorldSize()) {
    const int axis = mesh.AxisIndex(elastic_axis);
    if (axis < 0) return;
    inner_ = 1;
    for (size_t i = static_cast<size_t>(axis) + 1; i < mesh.axes.size(); ++i) {
      inner_ *= mesh.axes[i].size;
    }
    replicas_ = mesh.axes[static_cast<size_t>(axis)].size;
  }

  int replicas() const { return replicas_; }
  int ReplicaOf(int rank) const { return rank / inner_ % replicas_; }
  int CellOf(int rank) const {
    return rank / (inner_ * replicas_) * inner_ + rank % inner_;
  }
  int RankAt(int replica, int cell) const {
    return (cell / inner_ * replicas_ + replica) * inner_ + cell % inner_;
  }

 private:
  int replicas_;
  int inner_;  // ranks between neighbours in the elastic axis
};

// A previous member that has arrived, or a worker that holds the state.
struct Returned {
  Member member;
  bool holds_state;
  int replica;  // of its previous rank; -1: it waited
};

// Assigns ranks in an epoch that follows another one.
class Formation {
 public:
  Formation(const JobSpec& spec, const std::vector<ArrivedWorker>& sorted,
            const std::vector<Member>& previous, const Mesh& before)
      : spec_(spec),
        previous_(previous),
        before_(before, spec.elastic.axis),
        cells_(static_cast<size_t>(spec::WorkersPerReplica(spec))),
        complete_(static_cast<size_t>(before_.replicas()), 0) {
    std::map<WorkerName, int> rank_of;
    for (size_t rank = 0; rank < previous.size(); ++rank) {
      rank_of[previous[rank].worker] = static_cast<int>(rank);
    }
    for (const ArrivedWorker& arrival : sorted) {
      const auto had = rank_of.find(arrival.member.worker);
      const bool holds_state = arrival.held_cell.has_value();
      if (had == rank_of.end()) {
        if (holds_state) {
          cells_[static_cast<size_t>(*arrival.held_cell)].push_back(
              {arrival.member, holds_state, -1});
        } else {
          newcomers_.push_back(arrival.member);
        }
        continue;
      }
      const int replica = before_.ReplicaOf(had->second);
      cells_[static_cast<size_t>(before_.CellOf(had->second))].push_back(
          {arrival.member, holds_state, replica});
      complete_[static_cast<size_t>(replica)] += holds_state ? 1 : 0;
    }
  }

  std::vector<Member> Form() {
    int replicas = spec::ReplicasMax(spec_);
    while (replicas > 0 && !CanFill(replicas)) --replicas;
    if (replicas == 0) return {};
    ChooseReturned(replicas);
    return Place(replicas);
  }

 private:
  // Those who hold the state stay in their cells, all others go anywhere.
  bool CanFill(int replicas) const {
    if (!spec::MayHaveReplicas(spec_, replicas)) return false;
    size_t lacking = 0;
    size_t free = newcomers_.size();
    for (const std::vector<Returned>& cell : cells_) {
      const auto holders = static_cast<size_t>(
          std::count_if(cell.begin(), cell.end(),
                        [](const Returned& one) { return one.holds_state; }));
      const auto wanted = static_cast<size_t>(replicas);
      if (holders < wanted) lacking += wanted - holders;
      free += cell.size() - holders;
    }
    return lacking <= free;
  }

  // Whether `a` is more useful in its cell: with the state, and of a replica of
  // which more workers have it.
  bool IsPreferred(const Returned& a, const Returned& b) const {
    if (a.holds_state != b.holds_state) return a.holds_state;
    const int of_a = Complete(a.replica);
    const int of_b = Complete(b.replica);
    return of_a != of_b ? of_a > of_b : a.replica < b.replica;
  }

  int Complete(int replica) const {
    return replica < 0 ? 0 : complete_[static_cast<size_t>(replica)];
  }

  // At most `replicas` of those who returned to a cell stay. The others wait
  // if they hold the state, and are newcomers if not: the first to be asked.
  void ChooseReturned(int replicas) {
    std::vector<Member> displaced;
    for (std::vector<Returned>& cell : cells_) {
      std::sort(cell.begin(), cell.end(),
                [this](const Returned& a, const Returned& b) {
                  return IsPreferred(a, b);
                });
      while (cell.size() > static_cast<size_t>(replicas)) {
        if (!cell.back().holds_state) displaced.push_back(cell.back().member);
        cell.pop_back();
      }
    }
    newcomers_.insert(newcomers_.begin(), displaced.begin(), displaced.end());
  }

  // The previous replicas that are replicas 0, 1, ... of the next epoch: all,
  // or the most complete ones.
  std::vector<int> ReplicasKept(int replicas) const {
    std::vector<int> kept;
    for (int i = 0; i < before_.replicas(); ++i) kept.push_back(i);
    if (before_.replicas() <= replicas) return kept;
    std::stable_sort(kept.begin(), kept.end(), [this](int a, int b) {
      return complete_[static_cast<size_t>(a)] >
             complete_[static_cast<size_t>(b)];
    });
    kept.resize(static_cast<size_t>(replicas));
    std::sort(kept.begin(), kept.end());
    return kept;
  }

  std::vector<Member> Place(int replicas) {
    const auto world = static_cast<size_t>(replicas) * cells_.size();
    const Cells after(*MeshOfWorld(spec_, static_cast<int>(world)),
                      spec_.elastic.axis);
    const std::vector<int> kept = ReplicasKept(replicas);
    std::vector<std::optional<Member>> ranks(world);
    std::vector<std::optional<Host>> host_of(world);  // of the rank before
    const auto at = [&](int replica, int cell) {
      return static_cast<size_t>(after.RankAt(replica, cell));
    };
    for (int cell = 0; cell < static_cast<int>(cells_.size()); ++cell) {
      std::vector<Member> moved;
      for (size_t i = 0; i < kept.size(); ++i) {
        const int rank = before_.RankAt(kept[i], cell);
        host_of[at(static_cast<int>(i), cell)] =
            HostOf(previous_[static_cast<size_t>(rank)]);
      }
      for (const Returned& one : cells_[static_cast<size_t>(cell)]) {
        const auto same = std::find(kept.begin(), kept.end(), one.replica);
        if (same == kept.end()) {
          moved.push_back(one.member);
        } else {
          ranks[at(static_cast<int>(same - kept.begin()), cell)] = one.member;
        }
      }
      for (int replica = 0; !moved.empty(); ++replica) {
        if (ranks[at(replica, cell)]) continue;
        ranks[at(replica, cell)] = moved.front();
        moved.erase(moved.begin());
      }
    }
    FillWith(newcomers_, host_of, &ranks);
    std::vector<Member> members;
    for (std::optional<Member>& rank : ranks) members.push_back(*rank);
    return members;
  }

  // First the ranks of their own hosts, then the others, in rank order.
  static void FillWith(const std::vector<Member>& newcomers,
                       const std::vector<std::optional<Host>>& host_of,
                       std::vector<std::optional<Member>>* ranks) {
    std::map<Host, std::deque<size_t>> holes;
    for (size_t rank = 0; rank < ranks->size(); ++rank) {
      if (!(*ranks)[rank] && host_of[rank]) {
        holes[*host_of[rank]].push_back(rank);
      }
    }
    std::vector<Member> others;
    for (const Member& member : newcomers) {
      std::deque<size_t>& own = holes[HostOf(member)];
      if (own.empty()) {
        others.push_back(member);
      } else {
        (*ranks)[own.front()] = member;
        own.pop_front();
      }
    }
    auto other = others.begin();
    for (std::optional<Member>& rank : *ranks) {
      if (!rank) rank = *other++;
    }
  }

  const JobSpec& spec_;
  const std::vector<Member>& previous_;
  const Cells before_;
  std::vector<std::vector<Returned>> cells_;
  std::vector<int> complete_;  // by previous replica: who holds the state
  std::vector<Member> newcomers_;
};

}  // namespace

int CellOf(const JobSpec& spec, int world, int rank) {
  return Cells(*MeshOfWorld(spec, world), spec.elastic.axis).CellOf(rank);
}

std::vector<Member> FormEpoch(const JobSpec& spec,
                              std::vector<ArrivedWorker> arrived,
                              const std::vector<Member>& previous) {
  std::sort(arrived.begin(), arrived.end(),
            [](const ArrivedWorker& a, const ArrivedWorker& b) {
              return NaturalLess(a.member.worker.value, b.member.worker.value);
            });
  const std::optional<Mesh> before =
      MeshOfWorld(spec, static_cast<int>(previous.size()));
  if (before && !previous.empty()) {
    return Formation(spec, arrived, previous, *before).Form();
  }
  std::vector<Member> sorted;
  for (ArrivedWorker& arrival : arrived)
    sorted.push_back(std::move(arrival.member));
  return FormFirst(spec, sorted);
}

}  // namespace lockstep::core
