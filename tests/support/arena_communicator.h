// A decorator that moves every buffer into an arena: the suite of communicators
// then runs over memory that the transport uses without a copy.
//
//   caller's in ──copy──▶ arena ── the operation ──▶ arena ──copy──▶ out
//
// All on the caller's stream, so that it looks the same from outside. Buffers
// that overlap (in place) overlap in the arena too.

#ifndef LOCKSTEP_TESTS_SUPPORT_ARENA_COMMUNICATOR_H_
#define LOCKSTEP_TESTS_SUPPORT_ARENA_COMMUNICATOR_H_

#include <memory>

#include "client/transport/transport.h"

namespace lockstep {

// A transport whose communicators do so, each in an arena of `transport`'s.
std::unique_ptr<transport::Transport> MakeArenaTransport(
    std::unique_ptr<transport::Transport> transport);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_ARENA_COMMUNICATOR_H_
