// What a host transport supplies to its communicators: somebody who carries
// out calls. Checks, streams and the first error are host_communicator.h's.
//
//   CpuCommunicator ──▶ Membership ──▶ Executor ─┬─ over a Link (link.h)
//                                                 └─ over shared memory (shm/)
//
// Threads: Execute from the streams' threads, several at once; Cut from any.
// Errors:  as communicator.h says of status(); those about a peer say which
//          (blame.h). Cancelled after Cut.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_COLLECTIVE_EXECUTOR_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_COLLECTIVE_EXECUTOR_H_

#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "client/transport/common/collective_op.h"
#include "client/transport/common/link.h"

namespace lockstep::transport {

class Executor {
 public:
  virtual ~Executor() = default;  // nothing runs by then

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view transport() const = 0;
  // Does it check what it sums (Call::checks)?
  virtual bool checks() const { return false; }

  // Whether it can carry out sums in pairs.
  virtual bool sums_in_pairs() const = 0;

  // Executes checked `calls` as one group, on the calling thread, and blocks
  // until they are done or have failed.
  virtual absl::Status Execute(std::span<const CollectiveOp> calls) = 0;

  // Ends what runs and what is yet to run, and leaves the group: `why` is this
  // rank's first error. Does not wait for anything; again is harmless.
  virtual void Cut(const absl::Status& why) = 0;
};

// Calls become operations over `link` (operation.h).
std::unique_ptr<Executor> MakeLinkExecutor(std::unique_ptr<Link> link);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_COLLECTIVE_EXECUTOR_H_
