// The transport between hosts without GPUs: TCP, through Gloo's unbound
// buffers.
//
// Only Gloo's connections and buffers are used. Its collectives cannot be
// aborted, wait for a dead peer for half a minute, and know no bf16; ours
// (host_communicator.h) can, do not, and do.
//
// Threads: one per transport or source of links, "ls-gloo", which moves the
//          bytes of all its groups and sends and judges keepalives. A process
//          makes one.
// Errors:  beside transport.h's, Prepare gives Unavailable where no socket can
//          be had.

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
  // An address of this host, or a name of one, that the other hosts can reach.
  // Not a wildcard: it is what peers connect to.
  std::string bind_address = "127.0.0.1";
  // Silence of so long on a connection where something is owed ends it: the
  // error is DeadlineExceeded, and blames the peer. See silence.h.
  absl::Duration silence = absl::Seconds(10);
};

// InvalidArgument if the address is not one of this host's.
absl::StatusOr<std::unique_ptr<Transport>> MakeGlooTransport(
    const GlooOptions& options);

// The links alone.
absl::StatusOr<std::unique_ptr<LinkFactory>> MakeGlooLinks(
    const GlooOptions& options);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_H_
