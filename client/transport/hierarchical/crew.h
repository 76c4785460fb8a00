// What the operations of one hierarchical group share: who is where, the board
// of this host, the links to the others. Outlives them.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_CREW_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_CREW_H_

#include <cstddef>

#include "absl/status/status.h"
#include "client/transport/blame.h"
#include "client/transport/hierarchical/placement.h"
#include "client/transport/link.h"
#include "client/transport/operation.h"
#include "client/transport/scratch.h"
#include "client/transport/shm/board.h"

namespace lockstep::transport {

struct Crew {
  const Placement& placement;
  const int rank;            // in the group
  const size_t chunk_bytes;  // the most that passes a stage at once
  Board& board;
  Link& link;
  ScratchPool& scratch;

  int host() const { return placement.host(rank); }
  int index() const { return placement.index(rank); }
  Wire wire() const { return {link, scratch}; }

  // Shared memory blames ranks of the board; an error of the link is made to,
  // so that whoever gets either can tell whom it means (Board::InGroup).
  absl::Status OfLink(absl::Status status) const {
    const auto blamed = BlamedRank(status);
    return blamed ? Blame(std::move(status), board.Outsider(*blamed)) : status;
  }
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_CREW_H_
