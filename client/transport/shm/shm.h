// The shared-memory transport between processes of one host.
//
// All ranks reduce and read buffers in the arena (MakeArena, Session::Allocate)
// in place; private buffers are copied through staging memory, chunk by chunk.
// A message of boxes (extended_collectives.h) is one copy, from the sender's
// tensor in the arena to the receiver's, if its runs have 64 bytes or more.
// The transport has no thread: operations run and wait on the threads of their
// streams.
//
//   rendezvous.h        connects and authenticates the members
//   control_block.h     the layout of shared memory
//   shm_group.h         wakes, waiting, and which ranks are gone
//   wait_policy.h       how long a rank spins, yields and sleeps
//   segment_sharing.h   arena segments between processes
//   collective.h, message.cc   the operations
//   box_table.h         messages of boxes in arena segments
//
// Limits: kRanksMax (64) ranks in a group. All run as the same user.
// Death:  a rank that waits for a peer notices within a nap (5 ms) that the
//         peer's process has ended. The failure is proven (failed_peer.h).
// Safety: when a group ends, arena segments that a peer may still write to
//         (stopped, not proven dead) get new pages at the same addresses.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_H_

#include <memory>

#include "absl/time/time.h"
#include "client/transport/transport.h"

namespace lockstep::transport {

struct ShmOptions {
  // How long the process of a peer may be stopped before a wait for it fails
  // with DeadlineExceeded, with the failed peer, and ends the group.
  absl::Duration silence = absl::Seconds(10);
};

std::unique_ptr<Transport> MakeShmTransport(const ShmOptions& options = {});

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_H_
