// The one place where a transfer of the plan becomes a call of its
// communicator.
//
//   plan::Transfer ─┬─ kind, dtype, op, root, peer, shape ─▶ which call, counts
//                   └─ its operands, of who owns the memory ─▶ which bytes
//
// What is enqueued is what the plan says: whoever owns the memory says where it
// is, and nothing else.

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

// The memory of a transfer, as its call has it (communicator.h): a send and a
// barrier have no `out`, a receive and a broadcast no `in`.
struct Operands {
  const void* in = nullptr;
  void* out = nullptr;
};

struct PlannedTransfer {
  const plan::Transfer* transfer = nullptr;
  Operands operands;
  int divisor = 0;  // divides the sum of a mean; 0: the number of ranks does
};

// Enqueues a transfer on the communicator that it names, and returns; errors of
// the communicator.
absl::Status Enqueue(const PlannedTransfer& planned, Communicator& communicator,
                     Stream& stream);

// Several of one group, as one operation.
absl::Status EnqueueTogether(absl::Span<const PlannedTransfer> planned,
                             Communicator& communicator, Stream& stream);

// An all-reduce, of either kind, in place, that also computes `checks` of its
// result; on a communicator that can (extended_collectives.h).
absl::Status EnqueueChecked(const PlannedTransfer& planned,
                            const std::vector<transport::CheckedPart>& checks,
                            Communicator& communicator, Stream& stream);

}  // namespace lockstep::executor

#endif  // LOCKSTEP_CLIENT_EXECUTOR_ENQUEUE_H_
