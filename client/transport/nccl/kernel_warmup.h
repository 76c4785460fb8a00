// Every kernel once, on a few bytes: at Join, so that none is for the first
// time in a step.
//
// CUDA loads a kernel when it is first launched, and loading may wait for the
// device: behind a reduction whose peer waits for us, for ever. A device for
// which this build has no code is found out here too.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_KERNEL_WARMUP_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_KERNEL_WARMUP_H_

#include "absl/status/status.h"
#include "client/transport/nccl/cuda_api.h"
#include "client/transport/nccl/kernel_api.h"

namespace lockstep::transport::nccl {

// Blocks until all have run.
absl::Status WarmUpKernels(CudaApi* cuda, KernelApi* kernels);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_KERNEL_WARMUP_H_
