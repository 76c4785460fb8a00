// Carries out the calls of a group that spans hosts: shared memory on each, a
// link between them.
//
//   call ──▶ task ──▶ board of this host   ─┐ one loop moves both, and sleeps
//                 └─▶ link to other hosts  ─┘ on the board's bell, which the
//                                             link's news ring too
//
// Numerics: contributions are folded in the placement's order, halves in f32
//           from the first rank to the last, across hosts too, and rounded
//           once. Where hosts hold neighbouring ranks these are the bits of
//           shared memory and links alone.
// Threads:  as executor.h; none of its own.
// Errors:   as executor.h. The death of a rank is proven to those of its host
//           (IsProven), and a broken connection to the others.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_EXECUTOR_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_EXECUTOR_H_

#include <memory>

#include "client/transport/common/collective_executor.h"
#include "client/transport/common/link.h"
#include "client/transport/hierarchical/placement.h"
#include "client/transport/shm/shm_group.h"
#include "client/transport/transport.h"

namespace lockstep::transport {

// Of `rank`, whose host's ranks are those of `board`, by index, with a seat for
// `traffic`. The placement has several hosts.
std::unique_ptr<Executor> MakeHierarchicalExecutor(
    int rank, const Placement& placement, Traffic traffic,
    std::unique_ptr<ShmGroup> shm_group, std::unique_ptr<Link> link);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_EXECUTOR_H_
