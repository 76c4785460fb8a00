// The state shared by the operations of one hierarchical group: the placement,
// this host's ShmGroup, the link to other hosts. Outlives them.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_CONTEXT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_CONTEXT_H_

#include <cstddef>

#include "absl/status/status.h"
#include "client/transport/collectives/link_operation.h"
#include "client/transport/common/link.h"
#include "client/transport/common/scratch.h"
#include "client/transport/failed_peer.h"
#include "client/transport/hierarchical/placement.h"
#include "client/transport/shm/shm_group.h"

namespace lockstep::transport {

struct HierarchicalContext {
  const Placement& placement;
  const int rank;            // in the group
  const size_t chunk_bytes;  // the largest chunk that fits every stage
  ShmGroup& shm_group;
  Link& link;
  ScratchPool& scratch;

  int host() const { return placement.host(rank); }
  int index() const { return placement.index(rank); }
  LinkContext wire() const { return {link, scratch}; }

  // Converts the failed peer of a link error to an outsider of the ShmGroup.
  // So all errors of a task number ranks alike (ShmGroup::InGroup).
  absl::Status OfLink(absl::Status status) const {
    const auto failed_peer = FailedPeer(status);
    return failed_peer ? WithFailedPeer(std::move(status),
                                        shm_group.Outsider(*failed_peer))
                       : status;
  }
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_HIERARCHICAL_CONTEXT_H_
