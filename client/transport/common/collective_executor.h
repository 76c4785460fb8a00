// The interface that a host transport implements to run collective operations.
// cpu_communicator.h does the checks, the streams and the first error.
//
//   CpuCommunicator ─▶ CommunicatorState ─▶ CollectiveExecutor
//                                             ├─ over a Link (collectives/)
//                                             └─ over memory (shm/)
//
// Threads: Execute from the streams' threads, several at once; Shutdown from
//          any.
// Errors:  those of status() in communicator.h, with the failed peer
//          (failed_peer.h) if they are about one. Cancelled after Shutdown.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_COLLECTIVE_EXECUTOR_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_COLLECTIVE_EXECUTOR_H_

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "client/transport/common/collective_op.h"

namespace lockstep::transport {

class CollectiveExecutor {
 public:
  virtual ~CollectiveExecutor() = default;  // nothing runs by then

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view transport() const = 0;
  // Whether it supports CollectiveOp::checks.
  virtual bool checks() const { return false; }

  // Whether it supports CollectiveOp::boxes. Identical on all ranks.
  virtual bool moves_boxes() const { return false; }

  // Whether it supports CollectiveOp::in_pairs.
  virtual bool sums_in_pairs() const = 0;

  // Executes checked `calls` as one group, on the calling thread, and blocks
  // until they are done or have failed.
  virtual absl::Status Execute(std::span<const CollectiveOp> calls) = 0;

  // Ends current and later operations, and leaves the group. `why`: this rank's
  // first error. Does not block. Idempotent.
  virtual void Shutdown(const absl::Status& why) = 0;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_COLLECTIVE_EXECUTOR_H_
