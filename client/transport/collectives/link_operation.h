// An operation on its way, on the stream's thread.
//
//   Start    posts what it can without waiting for anybody
//   Finish   waits, posts the rest, computes
//
// The members of a Group are all started before the first is finished: that is
// how they progress together. A send or receive posts all it has in Start; a
// collective may need its Finish to go on, which is safe because all ranks
// finish their collectives in the same order.
//
// An operation that is destroyed early withdraws its transfers.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_OPERATION_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_OPERATION_H_

#include <memory>

#include "absl/status/status.h"
#include "client/transport/common/collective_op.h"
#include "client/transport/common/link.h"
#include "client/transport/common/scratch.h"

namespace lockstep::transport {

// What operations of one group share; outlives them.
struct Wire {
  Link& link;
  ScratchPool& scratch;

  int rank() const { return link.rank(); }
  int size() const { return link.size(); }
};

class Operation {
 public:
  virtual ~Operation() = default;
  virtual absl::Status Start() = 0;
  virtual absl::Status Finish() = 0;
};

// Chooses the algorithm, by what all ranks of the group know alike. `call` has
// been checked, and outlives the operation.
std::unique_ptr<Operation> MakeOperation(const CollectiveOp& call, Wire wire);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_OPERATION_H_
