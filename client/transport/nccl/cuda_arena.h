// The arena of device memory.
//
// A buffer is one allocation. Large buffers are NCCL's, which can make a window
// of them (window.h) and rounds them up to megabytes. Small ones, which a
// window does not help, and all buffers if NCCL cannot allocate, are the CUDA
// runtime's. Allocating and freeing are slow and may wait for all work of the
// device: they occur at Join, and when a layout is prepared or dropped; never
// in a step.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_ARENA_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_ARENA_H_

#include <cstddef>
#include <memory>

#include "client/transport/nccl/nccl_api.h"
#include "lockstep/arena.h"

namespace lockstep::transport::nccl {

// Buffers of at least this size are NCCL's.
inline constexpr size_t kNcclMemoryBytesMin = 64 << 10;

std::unique_ptr<Arena> MakeCudaArena(std::shared_ptr<NcclApi> nccl,
                                     std::shared_ptr<CudaApi> cuda);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_ARENA_H_
