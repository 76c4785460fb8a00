// The GPU of a session whose transport is NCCL.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEVICE_CUDA_DEVICE_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEVICE_CUDA_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "examples/digits/device/device.h"
#include "lockstep/session.h"

namespace lockstep::digits {

// Makes the session's device this thread's current one. The session must
// outlive it. FailedPrecondition if this build has no CUDA, or the session's
// transport moves host memory.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(Session& session);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEVICE_CUDA_DEVICE_H_
