// A CUDA stream of the caller as a Stream, for jobs whose gradients are in
// device memory (`transport: nccl`).
//
//   auto stream = DeviceStream::Wrap(*session, cuda_stream);  // a cudaStream_t
//   Backward<<<..., cuda_stream>>>(...);                      // the caller's
//   sync->Submit(id, **stream);                               // after Backward
//   auto pending = sync->FinishAsync({}, 1.0, **stream);
//   Update<<<..., cuda_stream>>>(pending->scalars(), ...);    // after verdict
//
// Each call returns when its work is in the CUDA stream: what the caller
// launches afterwards runs behind it. A call that returns an error may have
// enqueued nothing: launch nothing that depends on it. NCCL's groups belong to
// threads: make no call inside an ncclGroupStart of your own, or of another
// library.
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
  // (Session::device). Errors: InvalidArgument (a stream of another
  // device), FailedPrecondition (the transport moves host memory).
  static absl::StatusOr<std::unique_ptr<DeviceStream>> Wrap(Session& session,
                                                            void* cuda_stream);
};

}  // namespace lockstep

#endif  // LOCKSTEP_DEVICE_STREAM_H_
