// Communicators of one process's ranks for conformance cases, kept for the next
// case with groups of the same ranks, and the memory of these ranks.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_CASES_GROUPS_H_
#define LOCKSTEP_TESTS_CONFORMANCE_CASES_GROUPS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/collectives/axis_group_impl.h"
#include "client/transport/transport.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"

namespace lockstep::conformance {

using Group = std::vector<std::unique_ptr<Communicator>>;  // by index

class Groups {
 public:
  using MakeTransport =
      std::function<absl::StatusOr<std::unique_ptr<transport::Transport>>(
          int rank)>;

  explicit Groups(MakeTransport make) : make_(std::move(make)) {}

  // The group of these ranks; `number`: of several groups of the same ranks.
  absl::StatusOr<Group*> Get(const std::vector<int>& members, int number = 0);

  // Where the operations of a rank find their tensors, and a stream for them.
  absl::StatusOr<GroupMemory> MemoryOf(int rank);
  absl::StatusOr<std::shared_ptr<transport::DeviceContext>> ContextOf(int rank);
  absl::StatusOr<std::unique_ptr<Stream>> MakeStream(int rank);

  // After an error: they are connected anew.
  void Drop() { groups_.clear(); }

 private:
  struct Rank {
    std::unique_ptr<transport::Transport> transport;
    std::shared_ptr<Arena> arena;
    std::shared_ptr<transport::DeviceContext> context;
    GroupMemory memory;
  };

  absl::StatusOr<Rank*> RankOf(int rank);
  absl::StatusOr<Group> Connect(const std::vector<int>& members);

  const MakeTransport make_;
  std::map<int, Rank> ranks_;
  uint64_t connected_ = 0;
  std::map<std::pair<std::vector<int>, int>, Group> groups_;
};

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_CASES_GROUPS_H_
