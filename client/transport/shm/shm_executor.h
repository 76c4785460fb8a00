// Carries out calls over a board: asks each task in turn to go on, and waits
// when none can.
//
// Threads: as executor.h; no thread of its own.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_EXECUTOR_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_EXECUTOR_H_

#include <memory>
#include <vector>

#include "client/transport/common/collective_executor.h"
#include "client/transport/shm/shm_group.h"
#include "client/transport/shm/task.h"

namespace lockstep::transport {

std::unique_ptr<Executor> MakeShmExecutor(std::unique_ptr<ShmGroup> shm_group);

// Blocks until all `tasks` are done, or one fails, or this rank has left: then
// Cancelled. They go on in turns, so that they progress together.
absl::Status RunTasks(Tasks&& tasks, ShmGroup& shm_group);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_EXECUTOR_H_
