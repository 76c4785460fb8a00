// The control channel over gRPC: one connection to one coordinator.
//
//   session loop ─Send─▶ queue ─▶ one write at a time ─▶ │ gRPC
//   session loop ◀─Post─ handler ◀─ one read pending ◀── │ its own threads
//
// A connection that breaks is tried again after 50 to 300 ms; one that says
// nothing for 10 s is pinged, and given up 5 s later. Each channel has a
// connection of its own, also to an address that another channel speaks to.
//
// Threads: control_channel.h; callbacks come on gRPC's threads, whose number
//          does not depend on how many streams there are.

#ifndef LOCKSTEP_CLIENT_SESSION_GRPC_CHANNEL_H_
#define LOCKSTEP_CLIENT_SESSION_GRPC_CHANNEL_H_

#include <memory>

#include "client/session/control_channel.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace lockstep::session {

// What proves who speaks. Empty today: connections are neither encrypted nor
// authenticated; certificates will be named here.
struct CredentialOptions {};

std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(
    const CredentialOptions& options);

std::unique_ptr<ChannelFactory> MakeGrpcChannels(
    std::shared_ptr<grpc::ChannelCredentials> credentials);

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_GRPC_CHANNEL_H_
