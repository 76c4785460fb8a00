#include "examples/digits/device/cuda_device.h"

namespace lockstep::digits {

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(Session&) {
  return absl::FailedPreconditionError("this program was built without CUDA");
}

}  // namespace lockstep::digits
