// The halo exchanges that a rank declares, from their declaration to the end of
// the epoch (Session::Halo).
//
//   Declare ──▶ declarations() ──▶ the plan ──▶ Connect ──▶ Abort, Close
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_CLIENT_SESSION_HALO_REGISTRY_H_
#define LOCKSTEP_CLIENT_SESSION_HALO_REGISTRY_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/halo/halo_exchange_impl.h"
#include "client/session/group_registry.h"
#include "lockstep/halo_exchange.h"
#include "lockstep/halo_spec.h"
#include "lockstep/mesh.h"
#include "plan/ir.h"

namespace lockstep::session {

class HaloRegistry {
 public:
  using Communicators = GroupRegistry::Communicators;
  using CauseOfGroup = GroupRegistry::CauseOfGroup;

  explicit HaloRegistry(CauseOfGroup of_communicator)
      : of_communicator_(std::move(of_communicator)) {}
  ~HaloRegistry() { Close(); }

  // Errors: InvalidArgument as Normalized, or a name that was declared before;
  // ResourceExhausted for more than the bounds in protocol/halo.h;
  // FailedPrecondition after `declarations`.
  absl::StatusOr<HaloExchange> Declare(const Mesh& mesh, const HaloSpec& spec);

  // Ends the declarations, and returns them.
  std::vector<HaloSpec> declarations();
  bool empty() const;

  // Once: takes the communicators of halos out of those of the plan. Memory
  // that `allocate` gives is that of `context`. InternalError if the plan lacks
  // an exchange; errors of the allocation.
  // `checked`: members of a group compare what they call.
  absl::Status Connect(const plan::Plan& plan, int rank, bool checked,
                       std::shared_ptr<transport::DeviceContext> context,
                       halo::HaloGroup::Allocate allocate,
                       std::shared_ptr<executor::LaneTraffic> traffic,
                       Communicators* communicators);

  // Aborts the communicators. Does not block.
  void Abort(const std::string& cause);
  // Ends the exchanges: their peers learn that this rank has left.
  void Close();

  // The groups that exchanges were called on.
  std::vector<protocol::GroupProgress> progress() const;

 private:
  struct Group {
    std::shared_ptr<AxisGroup::Impl> members;
    std::shared_ptr<Communicator> communicator;
    std::shared_ptr<halo::HaloGroup> group;
  };

  const CauseOfGroup of_communicator_;
  mutable Mutex mutex_;
  bool declared_ ABSL_GUARDED_BY(mutex_) = false;
  size_t tensors_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::shared_ptr<HaloExchange::Impl>> halos_
      ABSL_GUARDED_BY(mutex_);
  std::map<int, Group> groups_ ABSL_GUARDED_BY(mutex_);  // by communicator
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_HALO_REGISTRY_H_
