// An operation in flight, on the stream's thread.
//
//   Start    posts the transfers that need no wait
//   Finish   waits, posts the rest, computes
//
// All members of a Group are started before the first is finished, so they
// progress together. A send or receive posts all its transfers in Start. A
// collective may progress only in Finish, which is safe because all ranks
// finish their collectives in the same order.
//
// If an operation is destroyed early, its transfers are withdrawn.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_OPERATION_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_OPERATION_H_

#include <memory>

#include "absl/status/status.h"
#include "client/transport/common/collective_op.h"
#include "client/transport/common/link.h"
#include "client/transport/common/scratch.h"

namespace lockstep::transport {

// Shared by the operations of one group; outlives them.
struct LinkContext {
  Link& link;
  ScratchPool& scratch;

  int rank() const { return link.rank(); }
  int size() const { return link.size(); }
};

class LinkOperation {
 public:
  virtual ~LinkOperation() = default;
  virtual absl::Status Start() = 0;
  virtual absl::Status Finish() = 0;
};

// Chooses the algorithm, identically on all ranks. `call` has been checked, and
// outlives the operation.
std::unique_ptr<LinkOperation> MakeOperation(const CollectiveOp& call,
                                             LinkContext wire);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_OPERATION_H_
