// Checks that the ranks of each halo exchange copy the cells that a process
// would get which pads the whole field.

#ifndef LOCKSTEP_PLAN_VERIFY_HALOS_H_
#define LOCKSTEP_PLAN_VERIFY_HALOS_H_

#include "plan/ir.h"
#include "plan/verify/diagnostics.h"

namespace lockstep::plan {

// The tables of the plan must have passed (structure.h). Checks that
//
//   * an exchange is cut by axes of the plan's mesh, in their order; its ranks
//     are one group over them, in order, and its communicator has these ranks
//     (none, if it is one rank); a rank has no two exchanges of one name
//   * fields have blocks of 1 cell or more, one for each coordinate of the axis
//     that cuts a dimension; widths are not negative, and what is reflected is
//     narrower than the field; a padded block has at most kHaloBytesMax
//   * every member has the exchange once, in the order of Plan::halos. Its own
//     boxes, those it receives and those it fills tile its padded block, and
//     each of their cells is the one of the edge's rule, from the block that
//     has it (halo_boxes.h)
//   * a rank sends what another one receives: equal bytes and boxes
//   * a rank has a halo lane for each communicator over which it exchanges
//     messages, and no other one, with exactly these messages: in the order of
//     its exchanges, a group for each of the exchange and its adjoint
//     (Lane). No transfer of another lane is of an exchange
//
// Time is proportional to the plan's size, but for a rank's boxes of one field,
// which are compared with each other if they begin at one place.
void CheckHalos(const Plan& plan, Diagnostics& diagnostics);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_HALOS_H_
