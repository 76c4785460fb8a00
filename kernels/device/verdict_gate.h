// The verdict gate on the device, with the same results as
// kernels/verdict_gate.h. The scalars may be in device memory or in pinned host
// memory: the kernels read them when they run.
//
// Threads: CommitCopy:16 bytes per thread if `from` and `to` have the same
//          alignment, 256 per block, grid-stride. CommitUnpack: as pack.h.
// Bytes:   per element: reads 1 and writes 1; none if the gate is closed.
// Run:     build/gpu-bundle/run device_kernels_test
// Bench:   build/gpu-bundle/run gpu_kernels_bench
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_VERDICT_GATE_H_
#define LOCKSTEP_KERNELS_DEVICE_VERDICT_GATE_H_

#include <cstddef>
#include <span>

#include "kernels/device/launch.h"
#include "kernels/slots.h"
#include "lockstep/dtype.h"
#include "lockstep/verdict_scalars.h"

namespace lockstep::kernels::device {

Launched CommitCopy(const VerdictScalars* verdict, const void* from, void* to,
                    size_t bytes, Stream stream);

Launched CommitUnpack(const VerdictScalars* verdict, const void* bucket,
                      std::span<const TensorSlot> slots, DType dtype,
                      Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_VERDICT_GATE_H_
