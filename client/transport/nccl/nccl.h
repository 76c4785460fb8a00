// The transport between GPUs: NCCL, under one launch thread.
//
// A handle is made by each group's first rank: NCCL's id of the group. The
// other ranks' handles say only who they are.
//
//   Communicator ──Call──▶ Launcher (one thread) ──▶ Member ──▶ NCCL, CUDA
//        └── CudaStream: what it waits for, and who waits for it
//
// Beside communicator.h's: operations need a CudaStream. All ranks must enqueue
// on their communicators in compatible order, whichever they are: the plan's.
// Ranks that call different operations are not told, and who waits for a peer
// that has gone waits until it is aborted: the plan is verified before, and the
// coordinator tells who has gone. An abort ends every communicator of the
// process's transport (launcher.h). Sums are made in NCCL's order.
//
// Threads: one per transport, "ls-launch". A process makes one transport.
// Errors:  beside transport.h's, FailedPrecondition where there is no GPU, with
//          the reason, where NCCL is too old, and from Prepare where this
//          release of NCCL cannot begin again after an abort.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/transport/nccl/comm_state.h"
#include "client/transport/transport.h"

namespace lockstep::transport::nccl {

// FailedPrecondition unless there is a device to use: says whether there is no
// driver, one that is too old, or no device.
absl::Status CheckGpu(CudaApi& cuda);

// FailedPrecondition for a release that lacks what is used (before 2.18).
absl::Status CheckVersion(int version);

// FailedPrecondition for the releases in which communicators cannot be made
// again in a process that has aborted some: 2.28.3 to 2.28.8.
absl::Status CheckRestart(int version);

// "2.28.9" for 22809.
std::string VersionName(int version);

absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(const Tables& tables);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_H_
