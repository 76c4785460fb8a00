// The verdict's gate: copies that happen only if the step may change the state.
//
//   scalars ── MayUpdate? ── no ──▶ nothing is read or written
//                         └─ yes ─▶ from ──▶ to
//
// For what is enqueued behind a verdict that the host has not seen
// (lockstep/verdict_scalars.h): the scalars are read when the copy runs, not
// when it is called. An update that cannot read them itself works on a copy of
// the state, and the gate brings the result over:
//
//   [verdict] [library's optimizer: state ▶ shadow] [CommitCopy: shadow ▶
//   state]
//
// Shapes:  `from` and `to` do not overlap; slots as in pack.h.
// Threads: any, at the same time on different destinations.
// Errors:  as pack.h.

#ifndef LOCKSTEP_KERNELS_VERDICT_GATE_H_
#define LOCKSTEP_KERNELS_VERDICT_GATE_H_

#include <cstddef>
#include <span>

#include "kernels/slots.h"
#include "lockstep/dtype.h"
#include "lockstep/verdict_scalars.h"

namespace lockstep::kernels {

// to = from, `bytes` of them, if MayUpdate.
void CommitCopy(const VerdictScalars* verdict, const void* from, void* to,
                size_t bytes);

// tensor = bucket * verdict->clip, if MayUpdate: pack.h's UnpackScaled.
void CommitUnpack(const VerdictScalars* verdict, const void* bucket,
                  std::span<const TensorSlot> slots, DType dtype);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_VERDICT_GATE_H_
