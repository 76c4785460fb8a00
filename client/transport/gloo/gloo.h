// The transport between hosts without GPUs: TCP, through Gloo's unbound
// buffers.
//
// Only Gloo's connections and buffers are used. Its collectives cannot be
// aborted, wait half a minute for a dead peer, and do not support bf16; ours
// (common/cpu_communicator.h) have none of these limits.
//
// Threads: one per transport or LinkFactory, "ls-gloo", which moves the bytes
//          of all its groups, sends keepalives and detects silent peers. A
//          process makes one.
// Errors:  in addition to transport.h, Prepare returns Unavailable if it cannot
//          create a socket.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_H_
#define LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/transport/common/link_factory.h"
#include "client/transport/transport.h"

namespace lockstep::transport {

struct GlooOptions {
  // An address of this host, or a name that resolves to one, that the other
  // hosts can reach. Not a wildcard: peers connect to it.
  std::string bind_address = "127.0.0.1";
  // A connection on which data is due ends after so much silence: the error is
  // DeadlineExceeded and names the peer as failed_peer. See silence.h.
  absl::Duration silence = absl::Seconds(10);
};

// InvalidArgument if the address is not one of this host's.
absl::StatusOr<std::unique_ptr<Transport>> MakeGlooTransport(
    const GlooOptions& options);

// Only the links.
absl::StatusOr<std::unique_ptr<LinkFactory>> MakeGlooLinks(
    const GlooOptions& options);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_H_
