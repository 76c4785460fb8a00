// Assigns ranks: a pure function of the arrived workers and the previous ones.
//
//   first epoch   hosts in the natural order of their first worker, the workers
//                 of a host adjacent, so that a host fills the innermost axes
//   later epochs  a previous member keeps its rank; a new worker takes a free
//                 rank, preferably that of a former worker of its own host
//
//   previous  w0   w1   w2   w3            arrived  w0 w3 x(host of w2) y
//   ranks     w0   y    x    w3

#ifndef LOCKSTEP_SERVER_CORE_ASSIGNMENT_H_
#define LOCKSTEP_SERVER_CORE_ASSIGNMENT_H_

#include <vector>

#include "protocol/types.h"

namespace lockstep::core {

// `arrived` is in any order, with distinct names; `previous` is in rank order,
// empty or of the same size. Returns `arrived` in rank order.
std::vector<protocol::Member> AssignRanks(
    std::vector<protocol::Member> arrived,
    const std::vector<protocol::Member>& previous);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_ASSIGNMENT_H_
