// The arithmetic of a reduction: what a call says of it, carried out on rows
// that lie in this rank's reach.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_REDUCE_ROWS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_REDUCE_ROWS_H_

#include <cstddef>
#include <span>

#include "client/transport/common/collective_op.h"
#include "kernels/reduce.h"
#include "kernels/reduce_pairs.h"

namespace lockstep::transport {

// Each of `outs` = the `inputs`, one from each rank in order, as `call` says:
// in rank order, or in pairs.
inline void FoldRows(std::span<const void* const> inputs,
                     std::span<void* const> outs, size_t count,
                     const CollectiveOp& call) {
  if (call.in_pairs) {
    kernels::ReducePairsToAll(inputs, outs, count, call.dtype, call.factor);
  } else {
    kernels::ReduceRanksToAll(inputs, outs, count, call.dtype, call.op,
                              call.divisor);
  }
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_REDUCE_ROWS_H_
