// The members of an epoch in rank order, and the workers of the roster that
// they are.
//
// Immutable, except that a member's worker becomes ready. A member that is lost
// or has left keeps its rank in the epoch.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_MEMBERS_H_
#define LOCKSTEP_SERVER_CORE_MEMBERS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "protocol/ids.h"
#include "protocol/shared_list.h"
#include "protocol/types.h"
#include "server/core/roster.h"
#include "server/core/status_text.h"

namespace lockstep::core {

class Members {
 public:
  // `roster` must outlive it and has every member before a worker is asked for.
  Members(EpochId epoch, SharedList<protocol::Member> list, Roster& roster)
      : epoch_(epoch), list_(std::move(list)), roster_(roster) {
    for (int rank = 0; rank < size(); ++rank)
      rank_of_[NameAt(rank).value] = rank;
  }

  EpochId epoch() const { return epoch_; }
  const SharedList<protocol::Member>& list() const { return list_; }
  int size() const { return static_cast<int>(list_.size()); }

  // -1: no member.
  int RankOf(const WorkerName& worker) const {
    const auto found = rank_of_.find(worker.value);
    return found == rank_of_.end() ? -1 : found->second;
  }
  const WorkerName& NameAt(int rank) const { return list_[rank].worker; }
  std::vector<WorkerName> NamesOf(const std::vector<int>& ranks) const {
    std::vector<WorkerName> names;
    for (const int rank : ranks) names.push_back(NameAt(rank));
    return names;
  }

  const Worker& At(int rank) const { return *roster_.Find(NameAt(rank)); }
  // "worker-3 (rank 3, host a, pid 123)"; without the rank once it is free.
  std::string WhoIs(int rank) const {
    const Worker& worker = At(rank);
    return Who(worker.name, worker.holds_rank() ? rank : -1, worker.process);
  }

  // The data plane of the rank is connected.
  void SetReady(int rank) {
    roster_.Move(roster_.Find(NameAt(rank)), WorkerState::kReady);
  }

 private:
  const EpochId epoch_;
  const SharedList<protocol::Member> list_;
  absl::flat_hash_map<std::string, int> rank_of_;
  Roster& roster_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_MEMBERS_H_
