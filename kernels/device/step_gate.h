// The step gate on the device, with the same results as kernels/step_gate.h and
// kernels/gate_tiles.h.
//
// Threads: WriteStepRecord: one warp, a word of the input per lane.
//          VerifyTiles: a block of kGateTile for each tile, a record per
//          thread; the floats are added by one thread, in rank order.
//          GateStep: one block of kGateTile; a record per thread, or a summary
//          per thread and turn.
// Bytes:   as kernels/step_gate.h; 72 per tile written and read.
// Run:     build/gpu-bundle/run device_kernels_test
// Bench:   build/gpu-bundle/run step_gate_bench
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_STEP_GATE_H_
#define LOCKSTEP_KERNELS_DEVICE_STEP_GATE_H_

#include "kernels/device/launch.h"
#include "kernels/gate_tiles.h"
#include "kernels/step_gate.h"

namespace lockstep::kernels::device {

Launched BeginReplay(const GateContext& context, Stream stream);

Launched WriteStepRecord(const GateContext& context, FiniteCheck* norm,
                         StepRecord* record, Stream stream);

// One launch, with any number of ranks; needed where GateStep HasTiles.
Launched VerifyTiles(const GateContext& context, const StepRecord* records,
                     Stream stream);

Launched GateStep(const GateContext& context, const StepRecord* own,
                  const StepRecord* records, VerdictScalars* scalars,
                  Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_STEP_GATE_H_
