// Who gets which rank: a pure function of who is there and who was there.
//
//   at first   hosts in the natural order of their first worker, workers of a
//              host side by side, so that a host fills the innermost axes
//   later      who was there keeps the rank; a newcomer fills a hole, that of a
//              worker of its own host if there is one
//
//   previous  w0   w1   w2   w3            arrived  w0 w3 x(host of w2) y
//   ranks     w0   y    x    w3

#ifndef LOCKSTEP_SERVER_CORE_ASSIGNMENT_H_
#define LOCKSTEP_SERVER_CORE_ASSIGNMENT_H_

#include <vector>

#include "plan/words/protocol.h"

namespace lockstep::core {

// `arrived` in any order, with distinct names; `previous` in rank order, empty
// or as many. Returns `arrived` in rank order.
std::vector<protocol::Member> AssignRanks(
    std::vector<protocol::Member> arrived,
    const std::vector<protocol::Member>& previous);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_ASSIGNMENT_H_
