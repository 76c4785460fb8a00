// A CUDA stream of the caller as a Stream, for jobs whose gradients are in
// device memory (`transport: nccl`).
//
//   auto stream = DeviceStream::Wrap(*session, cuda_stream);  // a cudaStream_t
//   Backward<<<..., cuda_stream>>>(...);                      // the caller's
//   sync->Submit(id, **stream);                               // after Backward
//   auto pending = sync->FinishAsync({}, 1.0, **stream);
//   (*stream)->AwaitQueued();                                 // then launch
//   Update<<<..., cuda_stream>>>(pending->scalars(), ...);    // after verdict
//
// Call AwaitQueued before a launch. The library queues its work in the CUDA
// stream only once the work of other streams that it depends on is queued;
// after FinishAsync of a step with gradients in views, only once the host has
// seen the verdict. A kernel that is launched earlier runs too early, without
// an error. After FinishAsync of a step that was submitted from buffers,
// everything is queued.
//
// Threads: one at a time. The CUDA stream and the session must outlive this
//          object. The destructor waits for the work that the library enqueued.

#ifndef LOCKSTEP_DEVICE_STREAM_H_
#define LOCKSTEP_DEVICE_STREAM_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/export.h"
#include "lockstep/stream.h"

namespace lockstep {

class Session;

class LOCKSTEP_EXPORT DeviceStream : public Stream {
 public:
  // `cuda_stream` is a cudaStream_t of the session's device
  // (JoinOptions::device). Errors: InvalidArgument (a stream of another
  // device), FailedPrecondition (the transport moves host memory).
  static absl::StatusOr<std::unique_ptr<DeviceStream>> Wrap(Session& session,
                                                            void* cuda_stream);

  // Blocks until all work enqueued through this object is in the CUDA stream:
  // kernels that the caller launches afterwards run after it. Returns the first
  // error of that work that is known, until Synchronize has returned it. Then
  // launch nothing that writes to gradients: a step that has not passed here
  // may be rolled forward from them.
  virtual absl::Status AwaitQueued() = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_DEVICE_STREAM_H_
