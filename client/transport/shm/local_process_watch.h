// A ProcessWatch over Unix sockets: each process gives the others a pidfd of
// itself, and an eventfd that is readable once it is done.
//
//   watching process                     watched process (listens since Listen)
//     │── connect ───────────────────────▶│
//     │◀─ greeting, [pidfd, eventfd] ─────│  to processes of the same user
//     │   both close the connection       │
//
//   poll(pidfd) ─ ended ─▶ the eventfd is not readable: kExited
//
// The kernel passes descriptors within one host only, so a received pidfd
// proves where the process runs; it also works between containers, which have
// pids of their own. A child that the process has forked holds its sockets, but
// is another process.
//
// A refused connection, or one that ends without a greeting, is kSocketClosed.
//
// Each pair of processes connects twice, once for each direction. A process
// keeps two descriptors a peer.
//
// Threads: "ls-peers", from Watch to the destructor, if a peer is on this host.
//          It waits in poll only.
// Errors:  Listen: Unavailable (the kernel has no pidfds, or a sandbox forbids
//          them), ResourceExhausted (no descriptors).

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_LOCAL_PROCESS_WATCH_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_LOCAL_PROCESS_WATCH_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/transport/process_watch.h"

namespace lockstep::transport {

absl::StatusOr<std::unique_ptr<ProcessWatch>> MakeLocalProcessWatch();

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_LOCAL_PROCESS_WATCH_H_
