// The step gate on the device, with the same results as kernels/step_gate.h.
//
// Threads: WriteStepRecord: one warp, a word of the input per lane. GateStep:
//          one block of 256, a record per thread and turn; the floats are added
//          by one thread, in rank order.
// Bytes:   as kernels/step_gate.h.
// Run:     build/gpu-bundle/run device_kernels_test
// Bench:   build/gpu-bundle/run step_gate_bench
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_STEP_GATE_H_
#define LOCKSTEP_KERNELS_DEVICE_STEP_GATE_H_

#include "kernels/device/launch.h"
#include "kernels/step_gate.h"

namespace lockstep::kernels::device {

Launched BeginReplay(const GateContext& context, Stream stream);

Launched WriteStepRecord(const GateContext& context, FiniteCheck* norm,
                         StepRecord* record, Stream stream);

Launched GateStep(const GateContext& context, const StepRecord* own,
                  const StepRecord* records, VerdictScalars* scalars,
                  Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_STEP_GATE_H_
