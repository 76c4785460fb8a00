// The schedules of collectives over several hosts.
//
//   AllReduce, ReduceScatter    a line of ranks, one on each host, has every
//                               so manieth chunk
//
//     host 0 reduce ─partial─▶ host 1 reduce ─partial─▶ host 2 reduce: result
//            give   ◀─result──        give   ◀─result──        give
//
//     (ReduceScatter: the last host sends a result straight to its one reader's
//     host)
//
//   Broadcast    root ──▶ its host; and along the lines ──▶ host ──▶ host
//   AllGather    each rank ──▶ its host; ──▶ one rank of every other ──▶ its
//                host
//
// A step of a rank waits only for steps with no higher number of others, and
// partial sums go up where results come down: so it cannot deadlock.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_SCHEDULE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_SCHEDULE_H_

#include <cstddef>
#include <memory>

#include "client/transport/collectives/schedule.h"
#include "client/transport/common/collective_op.h"
#include "client/transport/hierarchical/placement.h"

namespace lockstep::transport {

// For `rank`. `call` is an AllReduce, a ReduceScatter, an AllGather or a
// Broadcast; chunks are of at most `chunk_bytes`.
std::unique_ptr<const Schedule> MakeHierarchicalSchedule(
    const CollectiveOp& call, const Placement& placement, int rank,
    size_t chunk_bytes);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_SCHEDULE_H_
