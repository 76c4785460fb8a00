// An all-reduce that looks at what it sums while it has it at hand: for the
// global norm of gradients, without another pass over memory.
//
//   data  [ 0's slice | 1's slice | 2's slice | not checked ]
//                      └─ rank 1 adds the check of this to *total
//
// Together the ranks check every element of the first `checked` once.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_CHECKED_ALL_REDUCE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_CHECKED_ALL_REDUCE_H_

#include "absl/status/status.h"
#include "client/transport/calling_communicator.h"
#include "kernels/finite_check.h"

namespace lockstep::transport {

// Not all transports do: it pays where ranks fold in memory.
inline bool CanCheck(const Communicator& communicator) {
  const auto* calling = dynamic_cast<const CallingCommunicator*>(&communicator);
  return calling != nullptr && calling->checks();
}

// AllReduce in place, of floats; if CanCheck. What is added to *total, before
// `stream` goes on, has the bits of kernels::CheckFinite over this rank's
// FoldSlice (slices.h), as far as it lies in the first `checked` elements.
// Other ranks may call AllReduce instead. An operation that fails adds nothing.
inline absl::Status CheckedAllReduce(Communicator& communicator, void* data,
                                     size_t count, DType dtype, ReduceOp op,
                                     size_t checked,
                                     kernels::FiniteCheck* total,
                                     Stream& stream) {
  return static_cast<CallingCommunicator&>(communicator)
      .CheckedAllReduce(data, count, dtype, op, checked, total, stream);
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_CHECKED_ALL_REDUCE_H_
