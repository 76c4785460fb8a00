// A collective that runs in chunks by a schedule (chunk_schedule.h), on one
// host or on several.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_CHUNKED_COLLECTIVE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_CHUNKED_COLLECTIVE_H_

#include <memory>
#include <vector>

#include "client/transport/common/collective_op.h"
#include "client/transport/shm/chunk_schedule.h"
#include "client/transport/shm/remote_transfers.h"
#include "client/transport/shm/shm_group.h"
#include "client/transport/shm/task.h"

namespace lockstep::transport {

// The part of the other hosts in a collective over several.
struct RemotePart {
  int ranks;                        // of the whole group
  const std::vector<int>& members;  // the ranks of this host; outlives the task
  std::unique_ptr<const ChunkSchedule> schedule;
  std::unique_ptr<RemoteTransfers> transfers;
};

// `call` and `shm_group` outlive the task.
std::unique_ptr<CollectiveTask> MakeChunkedCollective(const CollectiveOp& call,
                                                      ShmGroup& shm_group,
                                                      RemotePart remote);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_CHUNKED_COLLECTIVE_H_
