// AllReduce and ReduceScatter.
//
// Small: every rank sends its whole contribution to every other, and each rank
// reduces all. Latency: one message.
//
// Large: rank p owns slice p. Every rank sends its part of slice p to p. Rank p
// reduces in rank order and (AllReduce) sends the result to all. Both halves
// run in chunks, so that c is reduced while c+1 is received and c-1 is sent:
//
//   contributions   c0 ─▶ c1 ─▶ c2 ─▶ ...      posted kAhead chunks ahead
//   reduce               c0 ─▶ c1 ─▶ c2 ─▶ ...
//   results                    c0 ─▶ c1 ─▶ ...
//
// The order and the rank of every addition depend only on the count and the
// group's size, so every rank has the same bits, on every run.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_REDUCTION_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_REDUCTION_H_

#include <memory>

#include "client/transport/collectives/link_operation.h"

namespace lockstep::transport {

std::unique_ptr<LinkOperation> MakeReduction(const CollectiveOp& call,
                                             LinkContext wire);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_REDUCTION_H_
