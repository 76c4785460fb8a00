// A large Broadcast to several peers: each rank but the root owns a slice,
// which the root gives to it alone and it gives to the rest, chunk by chunk; so
// the root sends its bytes once, however large the group.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_BROADCAST_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_BROADCAST_H_

#include <memory>

#include "client/transport/collectives/link_operation.h"

namespace lockstep::transport {

// Otherwise the root gives all to each (Exchange::AddBlocks).
bool IsSpread(const CollectiveOp& call, int ranks);
std::unique_ptr<Operation> MakeSpread(const CollectiveOp& call, Wire wire);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_BROADCAST_H_
