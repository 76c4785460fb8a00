// The real tables: CUDA's runtime as it was linked, NCCL as it is found.
//
// NCCL is looked for in this order, and loaded once:
//   LOCKSTEP_NCCL_LIBRARY          and nowhere else, if it is set
//   libnccl.so.2                   where the loader looks
//   <site>/nvidia/nccl/lib/        of the Python environment: VIRTUAL_ENV,
//                                  CONDA_PREFIX, the user's, the system's
//
// The kernels are this library's own; LoadTables launches each once
// (rehearsal.h).
//
// Errors: FailedPrecondition where this build has no CUDA, where there is no
//         GPU (nccl.h says which of the reasons), and where no NCCL is found:
//         all that was tried is listed.

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

// What to try to load, first choice first.
std::vector<std::string> NcclCandidates(const Environment& environment);

// The first of `candidates` that is an NCCL.
absl::StatusOr<std::shared_ptr<NcclApi>> LoadNccl(
    const std::vector<std::string>& candidates);

// The runtime, for device `device` of this process.
absl::StatusOr<std::shared_ptr<CudaApi>> LoadCuda(int device);

// The kernels of this library. FailedPrecondition without CUDA.
absl::StatusOr<std::shared_ptr<KernelApi>> LoadKernels();

// Which of the devices that this process sees is its own: `wanted` (negative:
// none is), else LOCAL_RANK, else the calling thread's current one. LOCAL_RANK
// is passed over where only one device is to be seen: the launcher has chosen.
// InvalidArgument for a device that is not there, and a LOCAL_RANK that is no
// number.
absl::StatusOr<int> ChooseDevice(int wanted, const Environment& environment,
                                 CudaApi& cuda);

// All three; OK only where there is a GPU and an NCCL.
absl::StatusOr<Tables> LoadTables(const Environment& environment, int device);

// The transport of this process, on the device of ChooseDevice.
absl::StatusOr<std::unique_ptr<Transport>> MakeGpuTransport(
    const Environment& environment, int wanted);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_GPU_H_
