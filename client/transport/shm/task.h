// An operation over shared memory, on the stream's thread: asked again and
// again to go on as far as it can without waiting, so that the members of a
// group progress together.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_TASK_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_TASK_H_

#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "client/transport/common/collective_op.h"
#include "client/transport/shm/control_block.h"
#include "client/transport/shm/shm_group.h"

namespace lockstep::transport {

enum class Progress { kNothing, kMoved, kDone };

class Task {
 public:
  virtual ~Task() = default;

  // A step of bounded length: a caller looks for aborts in between. Not called
  // again after kDone or an error.
  virtual absl::StatusOr<Progress> Advance() = 0;

  // Of the last Advance that moved nothing: without which ranks it will not.
  RankMask waits() const { return waits_; }

 protected:
  RankMask waits_ = 0;
};

// What runs together: mostly one.
using Tasks = absl::InlinedVector<std::unique_ptr<Task>, 1>;

// The longest piece that is copied or folded in one step.
inline constexpr size_t kStepBytes = 1 << 20;

// `call` outlives the task, `board` too.
std::unique_ptr<Task> MakeTask(const CollectiveOp& call, ShmGroup& shm_group);

// Its choice among these. Small: a reduction among `ranks` whose contributions
// fit cells; the others are cut in chunks (collectives/chunked_collective.cc).
bool IsSmallReduce(const CollectiveOp& call, int ranks);
std::unique_ptr<Task> MakeSmallReduce(const CollectiveOp& call,
                                      ShmGroup& shm_group);
std::unique_ptr<Task> MakeLocalReduction(const CollectiveOp& call,
                                         ShmGroup& shm_group);
std::unique_ptr<Task> MakeExchange(const CollectiveOp& call,
                                   ShmGroup& shm_group);
std::unique_ptr<Task> MakeMessage(const CollectiveOp& call,
                                  ShmGroup& shm_group);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_TASK_H_
