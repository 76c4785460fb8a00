// Communicators over a link between each two members: all collectives are made
// of its sends and receives (link_operation.h).

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_TRANSPORT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_TRANSPORT_H_

#include <memory>

#include "client/transport/common/link.h"
#include "client/transport/common/link_factory.h"
#include "client/transport/transport.h"
#include "lockstep/communicator.h"

namespace lockstep::transport {

// `group` names the group in errors; rank and size are the link's.
std::unique_ptr<Communicator> MakeLinkCommunicator(const GroupSpec& group,
                                                   std::unique_ptr<Link> link);

// A transport whose communicators use these links.
std::unique_ptr<Transport> MakeLinkTransport(
    std::unique_ptr<LinkFactory> links);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_TRANSPORT_H_
