// The DeviceContext of a GPU: memory on the device, used by its kernels.
//
//   ls-comm (host)   Launch:   wait for events ─▶ before ─▶ communicate ─▶ then
//                       │ enqueues                  ▼            ▼          ▼
//   queue's stream   ───┴────────────────────[kernels]──[collective]──[kernels]
//   side stream                                   [kernels of a side `then`]
//
// The queue's thread runs ahead of the device up to the next Wait of a `then`.
// It never enqueues work after a collective that is not queued yet
// (CudaStream::Ready).
//
// The release of a StreamGate is an EventPromise (event_state.h): its message
// is copied to the device, and the stream waits for that copy. When the gate is
// destroyed, work enqueued on the stream before may still read the message: the
// memory is reused only once an event after that work has completed.
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
