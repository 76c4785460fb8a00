// A rank's backend on a device whose functions are given as interfaces.

#ifndef LOCKSTEP_TOOLS_PERF_DEVICE_BACKEND_H_
#define LOCKSTEP_TOOLS_PERF_DEVICE_BACKEND_H_

#include "absl/status/statusor.h"
#include "client/transport/nccl/comm_state.h"
#include "tools/perf/rank.h"

namespace lockstep::perf {

// Errors: those of the device and of nccl.h.
absl::StatusOr<Backend> MakeDeviceBackend(
    const transport::nccl::Tables& tables);

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_DEVICE_BACKEND_H_
