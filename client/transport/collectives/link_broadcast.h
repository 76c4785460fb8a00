// A large Broadcast to several peers: each rank except the root owns a slice.
// The root sends a slice to its owner only, which forwards it to the others,
// chunk by chunk. So the root sends each byte once, for any group size.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_BROADCAST_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_BROADCAST_H_

#include <memory>

#include "client/transport/collectives/link_operation.h"

namespace lockstep::transport {

// If false, the root sends all bytes to each rank (Exchange::AddBlocks).
bool IsSpread(const CollectiveOp& call, int ranks);
std::unique_ptr<LinkOperation> MakeSpread(const CollectiveOp& call,
                                          LinkContext wire);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_BROADCAST_H_
