// Runs the calls of a group that spans hosts: shared memory on each host, a
// link between hosts.
//
//   call ──▶ task ──▶ ShmGroup of this host ─┐ one loop advances both, and
//                 └─▶ link to other hosts   ─┘ sleeps on the ShmGroup's futex,
//                                              which link progress wakes too
//
// Numerics: contributions are reduced in the placement's order, across hosts
//           too; f16 and bf16 in f32, rounded once. If each host has
//           neighbouring ranks, the bits equal those of shared memory or links
//           alone.
// Threads:  as collective_executor.h; none of its own.
// Errors:   as collective_executor.h. The death of a rank is proven to ranks of
//           its host (IsProven); other hosts see a broken connection.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_EXECUTOR_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_EXECUTOR_H_

#include <memory>

#include "client/transport/common/collective_executor.h"
#include "client/transport/common/link.h"
#include "client/transport/hierarchical/placement.h"
#include "client/transport/shm/shm_group.h"
#include "client/transport/transport.h"

namespace lockstep::transport {

// Makes the executor of `rank`. `shm_group` has the ranks of its host, by
// index, with control blocks for `traffic`. The placement has several hosts.
std::unique_ptr<CollectiveExecutor> MakeHierarchicalExecutor(
    int rank, const Placement& placement, TrafficClass traffic,
    std::unique_ptr<ShmGroup> shm_group, std::unique_ptr<Link> link);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_EXECUTOR_H_
