// Compute on a device: bytes in its memory, worked on by its kernels.
//
//   ls-comm (host)   Transfer: wait for events ─▶ before ─▶ communicate ─▶ then
//                       │ enqueues                  ▼            ▼          ▼
//   queue's stream   ───┴────────────────────[kernels]──[collective]──[kernels]
//   beside it                                     [kernels of a `then` aside]
//
// The queue's thread runs ahead of the device by as much as it may: to the next
// Wait of a `then`. It never enqueues behind a collective that is not queued
// yet (CudaStream::Ready).
//
// A Hold's release is a publication (moment.h): its message is copied to the
// device, and the stream waits for that copy. When the hold is destroyed, work
// enqueued on the stream before may still read the message: the memory is used
// again only once an event behind that work has come.
//
// Threads: as compute.h; a caller's stream by one thread at a time.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_DEVICE_CONTEXT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_DEVICE_CONTEXT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/transport/device_context.h"

namespace lockstep::transport::nccl {

class Launcher;

// On the launcher's device. Takes part of what it needs at once. Errors of the
// device.
absl::StatusOr<std::unique_ptr<DeviceContext>> MakeCudaDeviceContext(
    std::shared_ptr<Launcher> launcher);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_DEVICE_CONTEXT_H_
