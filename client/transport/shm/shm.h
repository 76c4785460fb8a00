// The transport between processes of one host: shared memory.
//
// Buffers in the arena (MakeArena, Session::Allocate) are reduced and read
// where they lie, by all ranks; private ones pass through staging memory, chunk
// by chunk. There is no thread: ranks work, spin and sleep on the threads of
// their streams.
//
//   meeting.h   how the members find and trust each other
//   seat.h      what is in shared memory
//   board.h     how one waits; who has gone
//   lending.h   arena segments between processes
//   collective.h, message.cc   the operations
//
// Limits: kRanksMax (64) ranks in a group. All run as the same user.
// Death:  a peer whose process ends is noticed within a nap (5 ms) of whoever
//         waits for it, by proof (blame.h's IsProven).
// Safety: when a group ends, arena segments that a peer may still write to
//         (stopped, not proven dead) get fresh pages at the same addresses.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_H_

#include <memory>

#include "absl/time/time.h"
#include "client/transport/transport.h"

namespace lockstep::transport {

struct ShmOptions {
  // A peer that is waited for, and whose process has been stopped for so long,
  // ends the group: the error is DeadlineExceeded, and blames the peer.
  absl::Duration silence = absl::Seconds(10);
};

std::unique_ptr<Transport> MakeShmTransport(const ShmOptions& options = {});

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_H_
