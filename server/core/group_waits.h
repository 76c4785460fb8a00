// The waits of ranks for each other in collectives of declared groups
// (Session::Group): a member waits in its first call that is not complete, for
// the members that have not made it.
//
//   calls on group/model@2     rank 2: 5, 4 complete ──▶ rank 3: 4
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_GROUP_WAITS_H_
#define LOCKSTEP_SERVER_CORE_GROUP_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/ir.h"
#include "server/core/progress_tracker.h"

namespace lockstep::core {

class GroupWaits {
 public:
  GroupWaits() = default;
  // Refers to `progress`.
  GroupWaits(const ProgressTracker& progress, const plan::Plan& plan);

  // Adds ranks that `rank` waits for, those with the fewest calls first, until
  // there are `max`.
  void AddFor(int rank, size_t max, std::vector<int>* others) const;
  // The ranks that wait for this one.
  std::vector<int> On(int rank) const;
  bool Needed(int rank) const { return !CallMissing(rank).empty(); }
  // The call that another rank waits in and this one has not made: "psum over
  // model"; empty if there is none.
  std::string CallMissing(int rank) const;
  // Whether it waits for another rank.
  bool Any(int rank) const;

 private:
  struct Caller {
    int rank = 0;
    uint64_t calls = 0;
    uint64_t waits_in = 0;  // the number of the call, from 1; 0: none
    const std::string* call = nullptr;  // its name
    bool WaitsFor(const Caller& other) const { return other.calls < waits_in; }
  };
  struct Group {
    std::vector<Caller> members;  // that are present, by calls
  };

  struct Place {
    size_t group = 0;
    size_t index = 0;  // among its callers
  };
  const Caller& At(const Place& place) const {
    return groups_[place.group].members[place.index];
  }

  std::vector<Group> groups_;  // in which some member waits for another
  std::vector<std::vector<Place>> places_of_;  // by rank
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_GROUP_WAITS_H_
