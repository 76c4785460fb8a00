// The DeviceContext of a GPU: memory on the device, used by its kernels
// (cuda_kernel_queue.h), in streams of the program and of queues
// (cuda_queue.h).
//
// Threads: as device_context.h; a caller's stream by one thread at a time.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_DEVICE_CONTEXT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_DEVICE_CONTEXT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/transport/device_context.h"

namespace lockstep::transport::nccl {

class Launcher;

// For the launcher's device. Allocates some of its memory at once. Errors of
// the device.
absl::StatusOr<std::unique_ptr<DeviceContext>> MakeCudaDeviceContext(
    std::shared_ptr<Launcher> launcher);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_DEVICE_CONTEXT_H_
