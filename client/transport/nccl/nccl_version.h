// Which releases of NCCL can be used. Versions are as of ncclGetVersion: 22809.
//
// Threads: pure functions.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_VERSION_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_VERSION_H_

#include <string>

#include "absl/status/status.h"

namespace lockstep::transport::nccl {

// FailedPrecondition for releases that lack required functions (before 2.22.3).
absl::Status CheckVersion(int version);

// FailedPrecondition for the releases in which communicators cannot be made
// again in a process that has aborted some: 2.28.3 to 2.28.8.
absl::Status CheckRestart(int version);

// "2.28.9" for 22809.
std::string VersionName(int version);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_VERSION_H_
