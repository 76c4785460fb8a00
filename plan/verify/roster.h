// The positions of ranks in each communicator.

#ifndef LOCKSTEP_PLAN_VERIFY_ROSTER_H_
#define LOCKSTEP_PLAN_VERIFY_ROSTER_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/ir.h"

namespace lockstep::plan {

class CommunicatorMembers {
 public:
  explicit CommunicatorMembers(
      const std::vector<CommunicatorSpec>& communicators) {
    for (const CommunicatorSpec& communicator : communicators) {
      std::vector<std::pair<int, int>>& members = members_.emplace_back();
      for (size_t i = 0; i < communicator.ranks.size(); ++i) {
        members.emplace_back(communicator.ranks[i], static_cast<int>(i));
      }
      std::sort(members.begin(), members.end());
    }
  }

  // The rank's position in the communicator, or -1 if it is not a member.
  int PositionOf(int rank, int communicator) const {
    const std::vector<std::pair<int, int>>& members = members_[communicator];
    const auto found = std::lower_bound(members.begin(), members.end(),
                                        std::pair<int, int>(rank, -1));
    return found != members.end() && found->first == rank ? found->second : -1;
  }

 private:
  // Per communicator: (rank, position), by rank.
  std::vector<std::vector<std::pair<int, int>>> members_;
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_ROSTER_H_
