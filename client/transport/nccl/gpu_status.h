// Converts results of CUDA and NCCL to absl::Status.
//
//   CUDA   out of memory            ResourceExhausted
//          anything else            Internal
//   NCCL   remote or system error   Unavailable: the peer or its link is lost
//          invalid argument, usage  Internal: a bug of this library
//          anything else            Internal

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_GPU_STATUS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_GPU_STATUS_H_

#include <string_view>

#include "absl/status/status.h"
#include "client/transport/nccl/cuda_api.h"
#include "client/transport/nccl/nccl_api.h"

namespace lockstep::transport::nccl {

// OK for success. `call` is the function's name, for the message. Clears the
// thread's last error (cuda_api.h).
absl::Status Check(CudaApi& cuda, CudaResult result, std::string_view call);

// OK for success, and for a call in progress, whose result a later poll
// returns. The message includes NCCL's last error; `comm` may be null.
absl::Status Check(NcclApi& nccl, NcclResult result, std::string_view call,
                   NcclComm comm = nullptr);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_GPU_STATUS_H_
