// Proves that a plan can run, before any data is sent.
//
//   CheckTables, CheckLanes, ─▶ CheckCollectives, ─▶ FindDeadlock ─▶ OK
//   CheckTasks                  CheckPointToPoint    (verify/simulator.h)
//   (verify/structure.h)        (verify/agreement.h)
//   CheckHalos                  CheckValues (verify/values.h)
//   (verify/halos.h)
//
// Checks, across all ranks:
//   * every index is in range, every field valid; launch_order has every
//     transfer exactly once, keeps each lane's order and does not split groups;
//     a rank uses a communicator in one lane only
//   * a rank has exactly the local operations that the buckets of its transfers
//     need, in order (verify/operations.h); every element is counted once in
//     the norm; every rank ends with the verdict, one group on the communicator
//     of the world, which no other lane uses
//   * buckets: slots inside, disjoint, aligned; each parameter in exactly one
//     bucket, whose communicator is the parameter's group; sizes, dtypes and
//     ops agree with the parameters; a wire dtype is a half and shorter; every
//     member reduces a bucket exactly once, in its wire dtype; a sharded bucket
//     is scattered in equal slices, its flags are all-reduced, and it is
//     gathered once, first in the launch order; a bucket with leaves is summed
//     in pairs by all members, or exchanged in slices and gathered by all; an
//     announced bucket has one parameter and neither slices nor error feedback
//   * halo exchanges: every cell of every padded block has one source, that of
//     the edge's rule, on the rank that has it; both sides of a message have
//     the same boxes; the halo lanes have exactly these messages
//   * state: every element of every tensor is held, by ranks that hold the same
//     block or slice of it (verify/state.h)
//   * on each communicator, all members enqueue the same collectives in the
//     same order: kind, count, dtype, op, root, bucket
//   * every send has its receive with equal tag, shape and dtype, and per
//     (communicator, source, destination) sends and receives are in one order
//   * a rank has each task of its stages once for every micro-batch, after the
//     tasks that produce its inputs on this rank; none without a pipeline
//   * every message has a buffer, which is reused only once it is free
//   * all parts of a task's result are sent to the task of its replica that
//     needs it, and there are no other messages; a bucket comes after the tasks
//     that produce its gradients, and after the sum of those that the first and
//     the last stage share
//   * no lane has a transfer that is never launched
//   * simulated with rendezvous semantics the plan completes twice: with each
//     lane as a separate queue, and with all lanes of a rank as one queue in
//     launch order; its tasks run concurrently
//
// An error names ranks, lanes and both values; a deadlock prints the cycle of
// waits. Takes any plan, also one decoded from hostile bytes, in memory
// proportional to its size, and in time too, but for the boxes of a rank's halo
// exchange (verify/halos.h), at most kHaloBoxesMax.

#ifndef LOCKSTEP_PLAN_VERIFY_VERIFY_H_
#define LOCKSTEP_PLAN_VERIFY_VERIFY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "lockstep/job_options.h"
#include "plan/ir.h"

namespace lockstep::plan {

// 2^53 - 1: JSON readers represent it exactly (plan_json.h, `describe --json`),
// and it has a successor. A revision costs a job a step, so none reaches it.
inline constexpr uint64_t kRevisionMax = (uint64_t{1} << 53) - 1;

// InvalidArgument with the first few findings, FailedPrecondition for a
// deadlock.
absl::Status Verify(const Plan& plan);

// Whether a verified plan can run in this mode. InvalidArgument for:
// - a sharded bucket in a mode other than kReduceScatter, and an unsharded
//   bucket in that mode
// - an announced bucket in a mode other than kNegotiated, and one that is not
//   announced in that mode
// - in negotiated mode, where the coordinator orders reductions one by one: a
//   pipeline or halo lane, whose order only a plan can fix; a halo exchange,
//   also one without messages; a bucket with several parameters; error
//   feedback, which does not support missing gradients
absl::Status CheckSync(const Plan& plan, SyncMode sync);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_VERIFY_H_
