// The proof that a plan can run: judged before a byte moves.
//
//   CheckTables, CheckLanes, ─▶ CheckCollectives, ─▶ FindDeadlock ─▶ OK
//   CheckTasks                  CheckPointToPoint    (verify/player.h)
//   (verify/structure.h)        (verify/agreement.h)
//                               CheckValues (verify/values.h)
//
// Checked, for all ranks against each other:
//   * every index is in range, every field within its meaning; launch_order
//     names every transfer exactly once, keeps each lane's order and leaves
//     groups together; a rank uses a communicator in one lane only
//   * a rank does on the sides of its transfers what their buckets need, in its
//     order, and nothing else (verify/operations.h); every element is counted
//     in the norm once in the world; every rank ends with the verdict, one
//     group on the communicator of the world, which nothing else uses
//   * buckets: slots inside, disjoint, aligned; each parameter in exactly one
//     bucket, whose communicator is the parameter's group; sizes, dtypes and
//     ops agree with the parameters; a wire dtype is a half and shorter; every
//     member reduces a bucket exactly once, in its wire dtype; a sharded one
//     is scattered in equal slices with its flags beside it, and gathered once,
//     before all else in the launch order; one with leaves is summed in pairs
//     by all members, or exchanged in slices and gathered again by all; one
//     that is announced has one parameter and neither slices nor error feedback
//   * on each communicator, all members enqueue the same collectives in the
//     same order: kind, count, dtype, op, root, bucket
//   * every send has its receive with equal tag, shape and dtype, and per
//     (communicator, source, destination) sends and receives are in one order
//   * a rank has the tasks of its stages for every micro-batch, each once, and
//     after those of its own that it is computed from; a plan without a
//     pipeline has none
//   * every message has a buffer, which is used again only once it is free
//   * what a task makes goes, in all its parts, to the task of its replica that
//     needs it, and no message is left over; a bucket comes after the tasks
//     that make its gradients, and after the sum of those that the first and
//     the last stage share
//   * nothing is in a lane that nobody runs it in
//   * played with rendezvous semantics the plan ends with nothing left over,
//     twice: each lane a queue of its own, and all lanes of a rank as one queue
//     in launch order; its tasks run beside
//
// A failure names ranks, lanes and both values; a deadlock prints the cycle of
// who waits for whom. Takes any plan whatever, also one decoded from hostile
// bytes, in time and memory proportional to its size.

#ifndef LOCKSTEP_PLAN_VERIFY_VERIFY_H_
#define LOCKSTEP_PLAN_VERIFY_VERIFY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "lockstep/job_spec.h"
#include "plan/ir.h"

namespace lockstep::plan {

// 2^53 - 1: JSON readers hold it exactly (plan_json.h, `describe --json`), and
// it has a next one. Each revision costs a job a step, so none counts as far.
inline constexpr uint64_t kRevisionMax = (uint64_t{1} << 53) - 1;

// InvalidArgument with the first few findings, FailedPrecondition for a
// deadlock.
absl::Status Verify(const Plan& plan);

// May a verified plan run in this mode? InvalidArgument for a sharded bucket in
// another mode than kReduceScatter, and one that is not in that; for an
// announced bucket in another mode than kNegotiated, and one that is not in
// that; in negotiated mode, where the coordinator orders reductions one by one,
// for a pipeline or halo lane, whose order only a plan can fix, for a bucket of
// several parameters, and for error feedback, which knows no gradients that are
// left out.
absl::Status CheckSync(const Plan& plan, SyncMode sync);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_VERIFY_H_
