// Mutations of halo exchanges. "Settled" mutations change what a rank copies
// and then make all else agree with it: the sender's boxes, bytes, transfers
// and launches. So only the cells are wrong.
//
//   box dropped, doubled, shifted, longer or shorter, reversed, of another
//   field, of another side
//                      of a rank's own cells, received or filled ones; settled,
//                      or at one side of a message
//   border of two boxes moved, two boxes merged
//                      settled
//   box from another member
//                      settled: also from another replica of the field
//   fill of another value, copied cells filled, filled cells copied
//   boxes of a message exchanged
//                      settled (which is right), or at one side
//   message dropped, doubled, with another peer, with other bytes
//   peers of messages swapped
//   routes dropped, doubled, of another member, of another exchange
//   transfer dropped, doubled, swapped, of another tag, size, peer, group,
//   exchange, kind, dtype or communicator, after others, in another lane
//                      at one side or at both
//   field of other blocks, widths, edge, constant, axis or dtype
//   exchange of other ranks, of another communicator or mesh, named as another

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_WRONG_HALOS_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_WRONG_HALOS_H_

#include <vector>

#include "tests/plan/mutation/mutants.h"

namespace lockstep::plan {

const std::vector<Mutation>& WrongHalos();

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_WRONG_HALOS_H_
