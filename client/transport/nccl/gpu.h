// Loads the real tables: the CUDA runtime as linked, NCCL as found.
//
// The kernels are this library's own; LoadTables launches each once
// (kernel_warmup.h).
//
// Errors: FailedPrecondition if this build has no CUDA, if there is no GPU
//         (nccl.h lists the reasons), and those of LoadNccl.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_GPU_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_GPU_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/transport/nccl/cuda_api.h"
#include "client/transport/nccl/kernel_api.h"
#include "client/transport/nccl/nccl.h"
#include "client/transport/nccl/nccl_library.h"
#include "client/transport/transport.h"

namespace lockstep::transport::nccl {

// The runtime, for device `device` of this process.
absl::StatusOr<std::shared_ptr<CudaApi>> LoadCuda(int device);

// The kernels of this library. FailedPrecondition without CUDA.
absl::StatusOr<std::shared_ptr<KernelApi>> LoadKernels();

// The device of this process among those that it sees: `wanted` (negative: not
// set), else LOCAL_RANK, else the calling thread's current device. LOCAL_RANK
// is ignored if only one device is visible: the launcher has chosen.
// InvalidArgument for a device that does not exist, and for a LOCAL_RANK that
// is not a number.
absl::StatusOr<int> ChooseDevice(int wanted, const Environment& environment,
                                 CudaApi& cuda);

// Loads all three; OK only if there is a GPU and an NCCL.
absl::StatusOr<Tables> LoadTables(const Environment& environment, int device);

// The transport of this process, on the device of ChooseDevice.
absl::StatusOr<std::unique_ptr<Transport>> MakeGpuTransport(
    const Environment& environment, int wanted);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_GPU_H_
