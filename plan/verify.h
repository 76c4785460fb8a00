// The proof that a plan can run: judged before a byte moves.
//
// Checked, for all ranks against each other:
//   * every index is in range; launch_order names every transfer exactly once
//     and keeps each lane's order
//   * buckets: slots inside, disjoint, aligned; each parameter in exactly one
//     bucket, whose communicator is the parameter's group; sizes and dtypes
//     agree with the parameters
//   * on each communicator, all members enqueue the same collectives in the
//   same
//     order: kind, count, dtype, op, root, bucket
//   * every send has its receive with equal tag, shape and dtype, and per
//     (communicator, source, destination) sends and receives are in one order
//   * played with rendezvous semantics the plan ends with nothing left over,
//     twice: each lane a queue of its own, and all lanes of a rank as one queue
//     in launch order
//
// A failure names ranks, lanes and both values; a deadlock prints the cycle of
// who waits for whom.

#ifndef LOCKSTEP_PLAN_VERIFY_H_
#define LOCKSTEP_PLAN_VERIFY_H_

#include "absl/status/status.h"
#include "plan/ir.h"

namespace lockstep::plan {

// InvalidArgument with the first few findings, FailedPrecondition for a
// deadlock.
absl::Status Verify(const Plan& plan);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_H_
