// Loads the real tables: the CUDA runtime as linked, NCCL as found.
//
// NCCL is searched in this order, and loaded once:
//   LOCKSTEP_NCCL_LIBRARY          and nowhere else, if it is set
//   libnccl.so.2                   in the loader's search path
//   <site>/nvidia/nccl/lib/        of the Python environment: VIRTUAL_ENV,
//                                  CONDA_PREFIX, the user's, the system's
//
// The kernels are this library's own; LoadTables launches each once
// (kernel_warmup.h).
//
// Errors: FailedPrecondition if this build has no CUDA, if there is no GPU
//         (nccl.h lists the reasons), and if no NCCL is found: the message
//         lists everything that was tried.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_GPU_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_GPU_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/transport/nccl/cuda_api.h"
#include "client/transport/nccl/kernel_api.h"
#include "client/transport/nccl/nccl.h"
#include "client/transport/nccl/nccl_api.h"
#include "client/transport/transport.h"

namespace lockstep::transport::nccl {

// A variable of the environment; empty if it is not set.
using Environment = std::function<std::string(const std::string&)>;

// The libraries to try, in order.
std::vector<std::string> NcclCandidates(const Environment& environment);

// Loads the first of `candidates` that is an NCCL.
absl::StatusOr<std::shared_ptr<NcclApi>> LoadNccl(
    const std::vector<std::string>& candidates);

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
