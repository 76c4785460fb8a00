// Communicators of one process's ranks for conformance cases, kept for the next
// case with groups of the same sizes.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_COLLECTIVES_GROUPS_H_
#define LOCKSTEP_TESTS_CONFORMANCE_COLLECTIVES_GROUPS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/transport/transport.h"
#include "lockstep/communicator.h"

namespace lockstep::conformance {

using Group = std::vector<std::unique_ptr<Communicator>>;  // by index

class Groups {
 public:
  using MakeTransport =
      std::function<absl::StatusOr<std::unique_ptr<transport::Transport>>()>;

  explicit Groups(MakeTransport make) : make_(std::move(make)) {}

  // A group of `size`; the `number`th of this size in a case.
  absl::StatusOr<Group*> Get(size_t size, size_t number);

  // After an error: they are connected anew.
  void Drop() { groups_.clear(); }

 private:
  absl::StatusOr<Group> Connect(size_t size);

  const MakeTransport make_;
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  uint64_t connected_ = 0;
  std::map<std::pair<size_t, size_t>, Group> groups_;
};

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_COLLECTIVES_GROUPS_H_
