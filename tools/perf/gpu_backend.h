// A rank's backend on this host's GPUs: NCCL, device memory, a CUDA stream.
//
//   ranks 0 1 2 3 on 2 GPUs    rank 0, 2: GPU 0    rank 1, 3: GPU 1
//
// NCCL accepts each GPU once per group and host. Ranks that share a GPU
// therefore claim to be on different hosts (NCCL_HOSTID), and send through
// sockets: a test of correctness, not of speed.

#ifndef LOCKSTEP_TOOLS_PERF_GPU_BACKEND_H_
#define LOCKSTEP_TOOLS_PERF_GPU_BACKEND_H_

#include "absl/status/statusor.h"
#include "tools/perf/options.h"
#include "tools/perf/rank.h"

namespace lockstep::perf {

// FailedPrecondition without a GPU or without NCCL; the message says which.
absl::StatusOr<Backend> MakeGpuBackend(const PerfOptions& options, int rank);

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_GPU_BACKEND_H_
