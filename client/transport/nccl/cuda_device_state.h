// What all objects of one device share: its calls, and its blocks of memory.
//
// A stream gate that is destroyed leaves memory that its stream may still use:
// it is kept until an event behind that has completed (Reclaim).
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_DEVICE_STATE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_DEVICE_STATE_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/transport/nccl/cuda_blocks.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/launcher.h"

namespace lockstep::transport::nccl {

// Memory of a destroyed gate that work on its stream may still use: the copy of
// its message, and its readers.
struct RetiredMessage {
  std::shared_ptr<void> message;
  std::shared_ptr<void> staging;
  StreamFence readers;
};

struct CudaDeviceState {
  std::shared_ptr<Launcher> launcher;
  std::shared_ptr<CudaApi> cuda;
  std::shared_ptr<KernelApi> kernels;
  std::shared_ptr<CudaBlocks> pinned;
  std::shared_ptr<CudaBlocks> memory;
  // For work without a stream, from any thread.
  std::unique_ptr<CudaStream> own_stream;
  Mutex own_stream_mutex;

  Mutex retired_mutex;
  std::vector<RetiredMessage> retired ABSL_GUARDED_BY(retired_mutex);

  void Retire(RetiredMessage message);
  // Frees the memory that no work reads any more. Calls CUDA without the lock,
  // which a gate takes where it is destroyed: in a function on the host, too.
  void Reclaim();
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_DEVICE_STATE_H_
