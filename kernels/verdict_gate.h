// The verdict gate: copies that take effect only if the verdict allows the step
// to change the state.
//
//   scalars ── MayUpdate? ── no ──▶ nothing is read or written
//                         └─ yes ─▶ from ──▶ to
//
// For work that is enqueued after a verdict that the host has not read yet
// (lockstep/verdict_scalars.h): the scalars are read when the copy runs, not
// when it is called. An optimizer that cannot read them works on a copy of the
// state, and the gate copies the result to the state:
//
//   [verdict] [library's optimizer: state ▶ shadow]
//             [CommitCopy: shadow ▶ state]
//
// Work:    the calling thread.
// Bytes:   per element: reads 1 and writes 1; none if the gate is closed.
// Shapes:  `from` and `to` do not overlap; slots as in pack.h.
// Threads: any, concurrently on different destinations.
// Errors:  as pack.h.
// Run:     build/release/bin/kernels_test
//          --gtest_filter='*VerdictGate*:*CommitUnpack*'

#ifndef LOCKSTEP_KERNELS_VERDICT_GATE_H_
#define LOCKSTEP_KERNELS_VERDICT_GATE_H_

#include <cstddef>
#include <span>

#include "kernels/slots.h"
#include "lockstep/dtype.h"
#include "lockstep/verdict_scalars.h"

namespace lockstep::kernels {

// to = from, `bytes` bytes, if MayUpdate.
void CommitCopy(const VerdictScalars* verdict, const void* from, void* to,
                size_t bytes);

// tensor = bucket * verdict->clip, if MayUpdate: pack.h's UnpackScaled.
void CommitUnpack(const VerdictScalars* verdict, const void* bucket,
                  std::span<const TensorSlot> slots, DType dtype);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_VERDICT_GATE_H_
