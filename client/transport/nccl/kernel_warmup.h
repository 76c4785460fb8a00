// Launches every kernel once, on a few bytes, at Join, so that no first launch
// occurs in a step.
//
// CUDA loads a kernel when it is first launched, and loading may wait for the
// device: if a reduction is running whose peer waits for this rank, forever.
// Also detects a device for which this build has no code.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_KERNEL_WARMUP_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_KERNEL_WARMUP_H_

#include "absl/status/status.h"
#include "client/transport/nccl/cuda_api.h"
#include "client/transport/nccl/kernel_api.h"

namespace lockstep::transport::nccl {

// Blocks until all kernels have run.
absl::Status WarmUpKernels(CudaApi* cuda, KernelApi* kernels);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_KERNEL_WARMUP_H_
