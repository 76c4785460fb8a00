// A decorator that copies every buffer into an arena, so that the conformance
// suite covers memory that the transport uses without a copy.
//
//   caller's in ──copy──▶ arena ── the operation ──▶ arena ──copy──▶ out
//
// All copies are on the caller's stream, so the decorator is invisible to the
// caller. Buffers that overlap (in place) overlap in the arena too.

#ifndef LOCKSTEP_TESTS_SUPPORT_ARENA_COMMUNICATOR_H_
#define LOCKSTEP_TESTS_SUPPORT_ARENA_COMMUNICATOR_H_

#include <memory>

#include "client/transport/transport.h"

namespace lockstep {

// A transport of such communicators, each with an arena made by `transport`.
std::unique_ptr<transport::Transport> MakeArenaTransport(
    std::unique_ptr<transport::Transport> transport);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_ARENA_COMMUNICATOR_H_
