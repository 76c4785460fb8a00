// kernels/verdict_gate.h on the device. The scalars may lie in the device's
// memory or in pinned memory of the host: the kernels read them when they run.
//
// launch.h says what holds for every function here.

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
