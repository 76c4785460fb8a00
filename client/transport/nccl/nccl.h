// The transport between GPUs: NCCL, called by the threads that enqueue; others
// end communicators.
//
// The handle of a group's first rank contains NCCL's unique id of the group.
// The other ranks' handles contain only their rank.
//
//   Communicator ─▶ Launcher (one order per device) ─▶ CommState ─▶ NCCL, CUDA
//        └── CudaStream: what the operation waits for, and what waits for it
//
// In addition to communicator.h: operations need a CudaStream. All ranks must
// enqueue on all their communicators in compatible order, which the plan
// ensures. Ranks that call different operations get no error, and a rank that
// waits for a lost peer waits until it is aborted: the plan is verified before,
// and the coordinator reports lost ranks. An abort ends every communicator of
// the process's transport (launcher.h). Sums are made in NCCL's order.
// NCCL's groups belong to threads: a caller must not enqueue inside an
// ncclGroupStart of its own, which would keep the operation from the device.
//
// Threads: "ls-watch", one per transport, and "ls-reclaim", for each end of
//          communicators. A process makes one transport.
// Errors:  in addition to transport.h, FailedPrecondition if there is no GPU
//          (with the reason) or NCCL is too old, and from Prepare if this
//          release of NCCL cannot connect again after an abort.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/transport/nccl/comm_state.h"
#include "client/transport/nccl/nccl_version.h"
#include "client/transport/transport.h"

namespace lockstep::transport::nccl {

// FailedPrecondition unless there is a usable device: no driver, a driver that
// is too old, or no device.
absl::Status CheckGpu(CudaApi& cuda);

absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(const Tables& tables);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_H_
