// Collects the handles of each communicator of a plan until all its members
// have published theirs.
//
//   communicator "data@1" of ranks 1, 3      rank 3 done   rank 1 missing
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_HANDLE_EXCHANGE_H_
#define LOCKSTEP_SERVER_CORE_HANDLE_EXCHANGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plan/ir.h"
#include "protocol/registration.h"
#include "protocol/shared_list.h"

namespace lockstep::core {

class HandleExchange {
 public:
  explicit HandleExchange(const plan::Plan& plan);

  // Stores the handles that a rank publishes and returns the communicators that
  // become complete. A repeated handle replaces the former one while its
  // communicator is incomplete and is ignored afterwards. InvalidArgument: not
  // a communicator of this rank.
  absl::StatusOr<std::vector<int>> Publish(
      int rank, const std::vector<protocol::GroupHandle>& handles);

  // The messages for every member of a complete communicator, in order, each
  // below 1 MiB.
  const std::vector<protocol::GroupHandles>& Complete(int communicator) const {
    return exchanges_[communicator].pieces;
  }

  const std::vector<int>& Members(int communicator) const {
    return exchanges_[communicator].ranks;
  }
  // The complete communicators of the rank, in order.
  std::vector<int> CompleteOf(int rank) const;

  // The rank has published a handle for each of its communicators.
  bool HasAll(int rank) const { return missing_of_rank_[rank] == 0; }
  bool complete() const { return missing_ == 0; }

 private:
  struct GroupExchange {
    std::vector<int> ranks;
    std::vector<std::string> handles;  // by position in ranks
    std::vector<bool> given;
    int missing = 0;
    std::vector<protocol::GroupHandles> pieces;  // once complete
  };
  // A rank's position in one of its communicators.
  struct MemberPosition {
    int communicator;
    int position;
  };

  // nullptr: the rank is no member.
  const MemberPosition* PlaceOf(int rank, int communicator) const;

  std::vector<GroupExchange> exchanges_;
  std::vector<std::vector<MemberPosition>> places_of_rank_;  // by communicator
  std::vector<int> missing_of_rank_;
  int missing_ = 0;  // communicators
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_HANDLE_EXCHANGE_H_
