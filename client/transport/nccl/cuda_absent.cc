// The runtime and the kernels of a build without CUDA.

#include "client/transport/nccl/gpu.h"

namespace lockstep::transport::nccl {
namespace {

absl::Status Absent() {
  return absl::FailedPreconditionError(
      "no GPU: this build of Lockstep was made without CUDA; "
      "-DLOCKSTEP_CUDA=ON builds it with the toolkit of this machine");
}

}  // namespace

absl::StatusOr<std::shared_ptr<CudaApi>> LoadCuda(int) { return Absent(); }

absl::StatusOr<std::shared_ptr<KernelApi>> LoadKernels() { return Absent(); }

}  // namespace lockstep::transport::nccl
