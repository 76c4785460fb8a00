// Converts a transfer of the plan to a call of its communicator. No other code
// does.
//
//   plan::Transfer ─┬─ kind, dtype, op, root, peer, shape ─▶ which call, counts
//                   └─ its operands, from the memory's owner ─▶ which bytes
//
// The plan determines every argument except the operands, which the owner of
// the memory provides.

#ifndef LOCKSTEP_CLIENT_EXECUTOR_ENQUEUE_H_
#define LOCKSTEP_CLIENT_EXECUTOR_ENQUEUE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/transport/common/collective_op.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"
#include "plan/ir.h"

namespace lockstep::executor {

// The memory of a transfer, as the arguments of its call (communicator.h): a
// send and a barrier have no `out`, a receive and a broadcast no `in`.
struct Operands {
  const void* in = nullptr;
  void* out = nullptr;
};

struct PlannedTransfer {
  const plan::Transfer* transfer = nullptr;
  Operands operands;
  int divisor = 0;  // of the sum of a mean; 0: the number of ranks
  // The mean is enqueued as a sum, which the owner of the memory multiplies
  // (LaneOwner::ScalesMean).
  bool is_scaled_later = false;
  // A send's or receive's, if its communicator moves boxes. `out` is then the
  // packed message or a buffer for it, for both.
  transport::BoxOperands boxes = {};
};

// Enqueues a transfer on its communicator, and returns; errors of the
// communicator.
absl::Status Enqueue(const PlannedTransfer& planned, Communicator& communicator,
                     Stream& stream);

// Enqueues several transfers of one group as one operation.
absl::Status EnqueueTogether(absl::Span<const PlannedTransfer> planned,
                             Communicator& communicator, Stream& stream);

// Enqueues an in-place all-reduce, of either kind, that also computes `checks`
// of its result. The communicator must support it (extended_collectives.h).
absl::Status EnqueueChecked(const PlannedTransfer& planned,
                            const std::vector<transport::CheckedPart>& checks,
                            Communicator& communicator, Stream& stream);

}  // namespace lockstep::executor

#endif  // LOCKSTEP_CLIENT_EXECUTOR_ENQUEUE_H_
