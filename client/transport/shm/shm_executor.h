// Runs collective calls over an ShmGroup: advances each task in turn, and waits
// if none can advance.
//
// Threads: as collective_executor.h; no thread of its own.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_EXECUTOR_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_EXECUTOR_H_

#include <memory>
#include <vector>

#include "client/transport/common/collective_executor.h"
#include "client/transport/shm/shm_group.h"
#include "client/transport/shm/task.h"

namespace lockstep::transport {

std::unique_ptr<CollectiveExecutor> MakeShmExecutor(
    std::unique_ptr<ShmGroup> shm_group);

// Advances `tasks` in turn until all are done or one fails. Blocks. Cancelled
// once this rank has left.
absl::Status RunTasks(CollectiveTasks&& tasks, ShmGroup& shm_group);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_EXECUTOR_H_
