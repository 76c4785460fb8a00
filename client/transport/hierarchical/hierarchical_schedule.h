// The schedules of collectives over several hosts.
//
//   AllReduce, ReduceScatter    the chunks are distributed over the lines; a
//                               line is a chain of ranks, one on each host
//
//     host 0 reduce ─partial─▶ host 1 reduce ─partial─▶ host 2 reduce: result
//            give   ◀─result──        give   ◀─result──        give
//
//     (ReduceScatter: the last host sends a result directly to the host of its
//     only reader)
//
//   Broadcast    root ──▶ its host; and along the lines ──▶ host ──▶ host
//   AllGather    each rank ──▶ its host; and ──▶ one rank of each other host,
//                which gives the block to that host
//
// A step of a rank waits only for other ranks' steps with no higher number, and
// partial sums and results are sent in opposite directions: no deadlock.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_SCHEDULE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_SCHEDULE_H_

#include <cstddef>
#include <memory>

#include "client/transport/common/collective_op.h"
#include "client/transport/hierarchical/placement.h"
#include "client/transport/shm/chunk_schedule.h"

namespace lockstep::transport {

// The schedule of `rank`. `call` is an AllReduce, a ReduceScatter, an AllGather
// or a Broadcast; chunks have at most `chunk_bytes`.
std::unique_ptr<const ChunkSchedule> MakeHierarchicalSchedule(
    const CollectiveOp& call, const Placement& placement, int rank,
    size_t chunk_bytes);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_SCHEDULE_H_
