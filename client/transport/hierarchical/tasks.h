// The operations of a hierarchical group, as tasks beside those of shared
// memory alone (shm/task.h). Calls and the crew outlive them. Their errors
// blame numbers of the board, outsiders among them.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_TASKS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_TASKS_H_

#include <memory>

#include "client/transport/common/collective_op.h"
#include "client/transport/hierarchical/hierarchical_context.h"
#include "client/transport/shm/task.h"

namespace lockstep::transport {

// AllReduce, ReduceScatter, AllGather and Broadcast: along a schedule
// (collectives/chunked_collective.cc).
std::unique_ptr<Task> MakeHierarchicalCollective(
    const CollectiveOp& call, const HierarchicalContext& context);

// Barrier, and AllReduce of what IsSmallReduction: one rank of each host hears
// all contributions and folds them.
bool IsSmallReduction(const CollectiveOp& call, const Placement& placement);
std::unique_ptr<Task> MakeSmallReduction(const CollectiveOp& call,
                                         const HierarchicalContext& context);

// Send, Recv, AllToAll and AllToAllV: with each peer the direct way.
std::unique_ptr<Task> MakeDirectExchange(const CollectiveOp& call,
                                         const HierarchicalContext& context);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_TASKS_H_
