// The Communicator of every host transport: the stream, the order of
// operations, the first error. The transport supplies an Executor, or a Link
// for the link executor.
//
//   Communicator call ──check──▶ CollectiveOp ──▶ HostStream ──▶ Executor
//                                                (its thread)
//
// The first error of any operation, or Abort, calls
// CollectiveExecutor::Shutdown: it wakes this rank's waiters, and tells the
// peers that this rank has left.
//
// Destroying the communicator aborts it and waits until no operation is running
// (at most the 100 ms of Abort). Operations still queued return when their
// stream reaches them, without touching their buffers.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_CPU_COMMUNICATOR_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_CPU_COMMUNICATOR_H_

#include <memory>

#include "client/transport/common/collective_executor.h"
#include "client/transport/transport.h"
#include "lockstep/communicator.h"

namespace lockstep::transport {

// `group` names the group in errors; rank and size are the executor's.
std::unique_ptr<Communicator> MakeCpuCommunicator(
    const GroupSpec& group, std::unique_ptr<CollectiveExecutor> executor);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_CPU_COMMUNICATOR_H_
