// A CUDA stream of the caller's, behind the Stream seam: for jobs whose
// gradients are in device memory (`transport: nccl`).
//
//   auto stream = DeviceStream::Wrap(*session, cuda_stream);  // a cudaStream_t
//   Backward<<<..., cuda_stream>>>(...);                      // the caller's
//   sync->Submit(id, **stream);                               // behind it
//   auto pending = sync->FinishAsync({}, 1.0, **stream);
//   (*stream)->AwaitQueued();                                 // before more
//   Update<<<..., cuda_stream>>>(pending->scalars(), ...);    // behind that
//
// Why one must wait before launching. What the library enqueues behind other
// streams' work is not in the CUDA stream until that work is queued, and behind
// FinishAsync nothing may be until the host has seen the verdict: a kernel that
// was launched before would run too early, and nobody would notice.
//
// Threads: one at a time. The CUDA stream and the session must outlive it; its
//          destructor waits for what the library has enqueued.

#ifndef LOCKSTEP_DEVICE_STREAM_H_
#define LOCKSTEP_DEVICE_STREAM_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/export.h"
#include "lockstep/session.h"
#include "lockstep/stream.h"

namespace lockstep {

class LOCKSTEP_EXPORT DeviceStream : public Stream {
 public:
  // `cuda_stream` is a cudaStream_t of the device that the session uses
  // (JoinOptions::device): InvalidArgument for another one's.
  // FailedPrecondition if the transport moves host memory.
  static absl::StatusOr<std::unique_ptr<DeviceStream>> Wrap(Session& session,
                                                            void* cuda_stream);

  // Blocks until all that was enqueued through this object is queued on the
  // device: what the caller launches then comes behind it.
  virtual absl::Status AwaitQueued() = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_DEVICE_STREAM_H_
