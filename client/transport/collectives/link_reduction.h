// AllReduce and ReduceScatter.
//
// Small: every rank gives its whole contribution to every other and folds for
// itself. One message deep.
//
// Large: rank p owns slice p. Every rank gives its part of slice p to p; p
// folds in rank order and (AllReduce) gives the result to all. Both halves are
// cut in chunks, so that chunk c is folded while c+1 arrives and c-1 leaves:
//
//   contributions   c0 ─▶ c1 ─▶ c2 ─▶ ...      posted kAhead chunks ahead
//   fold                 c0 ─▶ c1 ─▶ c2 ─▶ ...
//   results                    c0 ─▶ c1 ─▶ ...
//
// Order and place of every addition depend on the count and the group's size
// alone, so every rank has the same bits, on every run.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_REDUCTION_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_REDUCTION_H_

#include <memory>

#include "client/transport/collectives/link_operation.h"

namespace lockstep::transport {

std::unique_ptr<Operation> MakeReduction(const CollectiveOp& call, Wire wire);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_REDUCTION_H_
