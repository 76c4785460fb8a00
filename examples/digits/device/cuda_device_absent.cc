#include "examples/digits/device/cuda_device.h"

namespace lockstep::digits {

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(Session&) {
  return absl::FailedPreconditionError(
      "this program was built without CUDA; -DLOCKSTEP_CUDA=ON builds it with "
      "the toolkit of this machine");
}

}  // namespace lockstep::digits
