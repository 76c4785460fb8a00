// The runtime where this was built without CUDA.

#include "client/transport/nccl/gpu.h"

namespace lockstep::transport::nccl {

absl::StatusOr<std::shared_ptr<CudaApi>> LoadCuda(int) {
  return absl::FailedPreconditionError(
      "no GPU: this build of Lockstep was made without CUDA");
}

}  // namespace lockstep::transport::nccl
