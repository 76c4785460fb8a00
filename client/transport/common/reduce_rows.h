// The arithmetic of a reduction, on rows that this rank can read and write.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_REDUCE_ROWS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_REDUCE_ROWS_H_

#include <cstddef>
#include <span>

#include "client/transport/common/collective_op.h"
#include "kernels/reduce.h"
#include "kernels/reduce_pairs.h"

namespace lockstep::transport {

// Reduces `inputs`, one per rank, to each of `outs`: in rank order, or in pairs
// if `call` says so.
inline void ReduceRows(std::span<const void* const> inputs,
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
