// An operation over shared memory. The stream's thread calls Advance again and
// again; it never blocks, so all tasks of a batch progress together.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_TASK_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_TASK_H_

#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "client/transport/common/collective_op.h"
#include "client/transport/shm/control_block.h"
#include "client/transport/shm/shm_group.h"

namespace lockstep::transport {

enum class AdvanceResult { kNothing, kMoved, kDone };

class CollectiveTask {
 public:
  virtual ~CollectiveTask() = default;

  // Runs one step of bounded length; the caller checks for aborts in between.
  // Not called again after kDone or an error.
  virtual absl::StatusOr<AdvanceResult> Advance() = 0;

  // After an Advance that returned kNothing: the ranks it waits for.
  RankMask waits() const { return waits_; }

 protected:
  RankMask waits_ = 0;
};

// The tasks of one batch: mostly one.
using CollectiveTasks = absl::InlinedVector<std::unique_ptr<CollectiveTask>, 1>;

// The longest piece that is copied or reduced in one step.
inline constexpr size_t kStepBytes = 1 << 20;

// `call` and `shm_group` outlive the task.
std::unique_ptr<CollectiveTask> MakeTask(const CollectiveOp& call,
                                         ShmGroup& shm_group);

// MakeTask chooses among these. A reduction among `ranks` is small if each
// contribution fits a slot; larger ones run in chunks
// (shm/chunked_collective.cc).
bool IsSmallReduce(const CollectiveOp& call, int ranks);
std::unique_ptr<CollectiveTask> MakeSmallReduce(const CollectiveOp& call,
                                                ShmGroup& shm_group);
std::unique_ptr<CollectiveTask> MakeLocalReduction(const CollectiveOp& call,
                                                   ShmGroup& shm_group);
std::unique_ptr<CollectiveTask> MakeExchange(const CollectiveOp& call,
                                             ShmGroup& shm_group);
std::unique_ptr<CollectiveTask> MakeMessage(const CollectiveOp& call,
                                            ShmGroup& shm_group);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_TASK_H_
