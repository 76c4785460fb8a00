// The groups that a rank declares, from their declaration to the end of the
// epoch (Session::Group).
//
//   Declare ──▶ declarations() ──▶ the plan ──▶ Connect ──▶ Abort, Close
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_CLIENT_SESSION_GROUP_REGISTRY_H_
#define LOCKSTEP_CLIENT_SESSION_GROUP_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/collectives/axis_group_impl.h"
#include "lockstep/axis_group.h"
#include "lockstep/mesh.h"
#include "plan/ir.h"
#include "protocol/axis_group.h"

namespace lockstep::session {

class GroupRegistry {
 public:
  using Communicators = std::vector<std::unique_ptr<Communicator>>;

  // As AxisGroup::Impl::Causes; `ranks`: the group's members.
  using CauseOfGroup = std::function<absl::Status(const std::vector<int>& ranks,
                                                  const std::string& call,
                                                  const absl::Status& error)>;

  GroupRegistry(CauseOfGroup of_communicator, AxisGroup::Impl::Cause of_values)
      : of_communicator_(std::move(of_communicator)),
        of_values_(std::move(of_values)) {}
  ~GroupRegistry() { Close(); }

  // The group over these axes that `rank` is in; the same one if it was
  // declared before. Errors: InvalidArgument as GroupsOver, ResourceExhausted
  // for more than the bounds in protocol/axis_group.h, FailedPrecondition for a
  // new group after `declarations`.
  absl::StatusOr<AxisGroup> Declare(
      const Mesh& mesh, int rank, bool checked,
      const protocol::AxisGroupDeclaration& declaration);

  // Ends the declarations, and returns them.
  std::vector<protocol::AxisGroupDeclaration> declarations();

  // Once: takes the groups' communicators out of those of the plan.
  // InternalError if the plan lacks a group.
  absl::Status Connect(const plan::Plan& plan, const GroupMemory& memory,
                       Communicators* communicators);
  bool empty() const;

  // Aborts the communicators. Does not block.
  void Abort(const std::string& cause);
  // Ends the groups: their peers learn that this rank has left.
  void Close();

  // The groups that operations were called on.
  std::vector<protocol::GroupProgress> progress() const;

 private:
  struct Group {
    protocol::AxisGroupDeclaration declaration;
    std::vector<int> ranks;  // its members
    std::shared_ptr<AxisGroup::Impl> impl;
    std::shared_ptr<Communicator> communicator;
    int index = -1;  // of the communicator in the plan
  };

  const CauseOfGroup of_communicator_;
  const AxisGroup::Impl::Cause of_values_;
  mutable Mutex mutex_;
  bool declared_ ABSL_GUARDED_BY(mutex_) = false;
  size_t indices_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Group> groups_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_GROUP_REGISTRY_H_
