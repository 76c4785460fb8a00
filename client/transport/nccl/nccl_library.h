// Finds NCCL and loads it: the part of gpu.h that needs no CUDA.
//
// NCCL is searched in this order, and loaded once:
//   LOCKSTEP_NCCL_LIBRARY          and nowhere else, if it is set
//   libnccl.so.2                   in the loader's search path
//   <site>/nvidia/nccl/lib/        of the Python environment: VIRTUAL_ENV,
//                                  CONDA_PREFIX, the user's, the system's
//
// Errors: FailedPrecondition if no NCCL is found: the message lists everything
//         that was tried.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_LIBRARY_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_LIBRARY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/transport/nccl/nccl_api.h"

namespace lockstep::transport::nccl {

// A variable of the environment; empty if it is not set.
using Environment = std::function<std::string(const std::string&)>;

// The libraries to try, in order.
std::vector<std::string> NcclCandidates(const Environment& environment);

// Loads the first of `candidates` that is an NCCL.
absl::StatusOr<std::shared_ptr<NcclApi>> LoadNccl(
    const std::vector<std::string>& candidates);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_LIBRARY_H_
