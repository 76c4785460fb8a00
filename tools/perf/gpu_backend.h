// A rank's backend on this host's GPUs: NCCL, device memory, a CUDA stream.
//
//   ranks 0 1 2 3 on 2 GPUs    rank 0, 2: GPU 0    rank 1, 3: GPU 1
//
// NCCL takes each GPU once for a group, and so for a host: ranks that share
// one say that they are on hosts of their own (NCCL_HOSTID), and move bytes
// through sockets. That shows that it works, not how fast.

#ifndef LOCKSTEP_TOOLS_PERF_GPU_BACKEND_H_
#define LOCKSTEP_TOOLS_PERF_GPU_BACKEND_H_

#include "absl/status/statusor.h"
#include "tools/perf/options.h"
#include "tools/perf/rank.h"

namespace lockstep::perf {

// FailedPrecondition where there is no GPU or no NCCL; says which.
absl::StatusOr<Backend> MakeGpuGround(const PerfOptions& options, int rank);

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_GPU_BACKEND_H_
