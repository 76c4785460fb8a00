// The control channel over gRPC: one connection to one coordinator.
//
//   session loop ─Send─▶ queue ─▶ one write at a time ─▶ │ gRPC
//   session loop ◀─Post─ handler ◀─ one read pending ◀── │ its own threads
//
// A broken connection is retried after 50 to 300 ms. A connection that is
// silent for 10 s is pinged, and closed 5 s later. Each channel has its own
// connection, even if several channels use one address. A stream uses the
// certificates that are in the TLS folder when it is opened.
//
// Threads: see control_channel.h; callbacks run on gRPC's threads, whose number
//          does not depend on the number of streams.

#ifndef LOCKSTEP_CLIENT_SESSION_GRPC_CHANNEL_H_
#define LOCKSTEP_CLIENT_SESSION_GRPC_CHANNEL_H_

#include <memory>

#include "client/session/control_channel.h"
#include "proto/grpc_credentials.h"

namespace lockstep::session {

std::unique_ptr<ChannelFactory> MakeGrpcChannels(
    std::unique_ptr<proto::ClientCredentials> credentials);

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_GRPC_CHANNEL_H_
