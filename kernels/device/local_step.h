// RunLocalStep on the device, with the same bits as kernels/local_step.h. All
// memory of the step, `*fault` too, is in device memory; zero the fault first.
//
// The launches are those of the kernels that kernels/local_step.h names, whose
// headers in this folder say more; a step may be two launches.
//
// Run:     build/gpu-bundle/run device_kernels_test
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_LOCAL_STEP_H_
#define LOCKSTEP_KERNELS_DEVICE_LOCAL_STEP_H_

#include "kernels/device/launch.h"
#include "kernels/local_step.h"

namespace lockstep::kernels::device {

Launched RunLocalStep(const LocalStep& step, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_LOCAL_STEP_H_
