// Broadcast. Small, or to a single peer: the root gives all to each. Large:
// each other rank owns a slice, which the root gives to it alone and it gives
// to the rest, chunk by chunk; so the root sends its bytes once, however large
// the group.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_BROADCAST_H_
#define LOCKSTEP_CLIENT_TRANSPORT_BROADCAST_H_

#include <memory>

#include "client/transport/operation.h"

namespace lockstep::transport {

std::unique_ptr<Operation> MakeBroadcast(const Call& call, Wire wire);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_BROADCAST_H_
