// The arena whose memory is a device's.
//
// A buffer is one allocation of the CUDA runtime. Allocating and freeing are
// slow and may wait for all that the device does: at Join, and when a layout is
// prepared or given up; never in a step.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_ARENA_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_ARENA_H_

#include <memory>

#include "client/transport/nccl/cuda_api.h"
#include "lockstep/arena.h"

namespace lockstep::transport::nccl {

std::unique_ptr<Arena> MakeCudaArena(std::shared_ptr<CudaApi> cuda);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_ARENA_H_
