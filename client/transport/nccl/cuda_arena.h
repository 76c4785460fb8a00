// The arena whose memory is a device's.
//
// A buffer is one allocation: of NCCL, which can make a window of it (window.h)
// and rounds it up to megabytes; small ones, which gain nothing by that, and
// all where NCCL has no memory to give, of the CUDA runtime. Allocating and
// freeing are slow and may wait for all that the device does: at Join, and when
// a layout is prepared or given up; never in a step.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_ARENA_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_ARENA_H_

#include <cstddef>
#include <memory>

#include "client/transport/nccl/nccl_api.h"
#include "lockstep/arena.h"

namespace lockstep::transport::nccl {

// Buffers of at least so many bytes are NCCL's.
inline constexpr size_t kNcclMemoryBytesMin = 64 << 10;

std::unique_ptr<Arena> MakeCudaArena(std::shared_ptr<NcclApi> nccl,
                                     std::shared_ptr<CudaApi> cuda);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_ARENA_H_
