// The operations of each rank as text, for `plan explain`.
//
//   operations of ranks 0, 2, with the elements and messages of rank 0:
//     messages: 4 to rank 1, 4 from rank 1
//     shared: all-reduce of 14 f32, sum: the gradients of tied, on ranks 0-1
//     gradient: all-reduce of 17 f32, mean, bucket 1
//       after: the sum of tied
//       before: write-flags of elements 16 to 17
//       behind: read-flags of elements 16 to 17; norm of elements 0 to 16
//     one launch of 2 transfers:
//       verdict: all-reduce of 11 f64, sum
//       ...
//     halo lat@0, launched by the caller: u (2 sent, 2 received)

#ifndef LOCKSTEP_PLAN_TIMELINE_OPERATION_LIST_H_
#define LOCKSTEP_PLAN_TIMELINE_OPERATION_LIST_H_

#include <string>

#include "plan/ir.h"

namespace lockstep::plan {

// Ranks that differ only in elements and neighbours are listed once. Each rank
// is in its launch order: transfers with their local operations, those of one
// group under a separate line, and the pipeline messages between them as
// counts. The exchanges of halo lanes, which are not in this order, follow with
// the numbers of their messages. At most the first 48 launches of a rank. The
// plan must be verified. Each line ends with a newline.
std::string OperationList(const Plan& plan);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_TIMELINE_OPERATION_LIST_H_
