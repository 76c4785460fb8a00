// An all-reduce that looks at what it sums while it has it at hand: for the
// global norm of gradients, without another pass over memory.
//
//   data  [ 0's slice | 1's slice      | 2's slice | not checked ]
//                      └ part ┘└ part ┘
//                         │       └─ rank 1 adds the check of this to one total
//                         └───────── and of this to another
//
// Each rank checks parts of what it folds (FoldSlice, call.h): together, every
// element once.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_CHECKED_ALL_REDUCE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_CHECKED_ALL_REDUCE_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/transport/calling_communicator.h"

namespace lockstep::transport {

// Not all transports do: it pays where ranks fold in memory.
inline bool CanCheck(const Communicator& communicator) {
  const auto* calling = dynamic_cast<const CallingCommunicator*>(&communicator);
  return calling != nullptr && calling->checks();
}

// AllReduce in place, of floats; if CanCheck. What is added to each total,
// before `stream` goes on, has the bits of kernels::CheckFinite over the part.
// Other ranks may call AllReduce instead. Of an operation that fails, a total
// says nothing: a part that was folded by then may have been added.
inline absl::Status CheckedAllReduce(Communicator& communicator, void* data,
                                     size_t count, DType dtype, ReduceOp op,
                                     std::vector<CheckedPart> checks,
                                     Stream& stream) {
  return static_cast<CallingCommunicator&>(communicator)
      .CheckedAllReduce(data, count, dtype, op, std::move(checks), stream);
}

// AllReducePairs, likewise; if it also SumsInPairs.
inline absl::Status CheckedAllReducePairs(Communicator& communicator,
                                          void* data, size_t count, DType dtype,
                                          double factor,
                                          std::vector<CheckedPart> checks,
                                          Stream& stream) {
  return static_cast<CallingCommunicator&>(communicator)
      .CheckedAllReducePairs(data, count, dtype, factor, std::move(checks),
                             stream);
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_CHECKED_ALL_REDUCE_H_
