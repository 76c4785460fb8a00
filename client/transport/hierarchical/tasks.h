// The operations of a hierarchical group, as tasks (shm/task.h). The call and
// the context outlive them. The failed peer of their errors is a rank of the
// ShmGroup or an outsider.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_TASKS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_TASKS_H_

#include <memory>

#include "client/transport/common/collective_op.h"
#include "client/transport/hierarchical/hierarchical_context.h"
#include "client/transport/shm/task.h"

namespace lockstep::transport {

// AllReduce, ReduceScatter, AllGather and Broadcast, by a schedule
// (shm/chunked_collective.cc).
std::unique_ptr<CollectiveTask> MakeHierarchicalCollective(
    const CollectiveOp& call, const HierarchicalContext& context);

// Barrier and small AllReduce: one rank of each host receives all contributions
// and reduces them.
bool IsSmallReduction(const CollectiveOp& call, const Placement& placement);
std::unique_ptr<CollectiveTask> MakeSmallReduction(
    const CollectiveOp& call, const HierarchicalContext& context);

// Send, Recv, AllToAll and AllToAllV, directly with each peer.
std::unique_ptr<CollectiveTask> MakeDirectExchange(
    const CollectiveOp& call, const HierarchicalContext& context);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_TASKS_H_
