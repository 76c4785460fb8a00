// Turns the parameters, buckets and pipeline of a plan into what each rank
// does: lanes, tasks, and the one order in which it launches.
//
//   gradient                 its buckets, in the order of Plan::buckets
//   to rank 5, from rank 5   messages of the pipeline, one lane for each
//                            neighbour and direction, each with a communicator
//   shared                   parameters of the first and the last stage
//   verdict                  the step's summary, over the world
//
// In the launch order messages come as in their flow (flow.h); a bucket comes
// once its gradients are complete on all ranks that hold it (stages.h). Of
// sharded buckets the parameters are gathered before all else, in the gradient
// lane too. The verdict is launched last. bucket_transfers.h has the operations
// of a bucket and of the verdict.

#ifndef LOCKSTEP_PLAN_PIPELINE_LANES_H_
#define LOCKSTEP_PLAN_PIPELINE_LANES_H_

#include <vector>

#include "absl/status/status.h"
#include "plan/ir.h"

namespace lockstep::plan {

// Fills plan->ranks, and adds the pipeline's communicators if they are not yet
// there. sums_in_pairs[c]: communicator c of a bucket adds sums of leaves in
// pairs by itself. InvalidArgument: a pipeline that shape.h refuses; a shared
// parameter that the first and the last stage have not both, or not alike; a
// parameter of a stage on a rank that does not have it.
absl::Status BuildLanes(Plan* plan, const std::vector<bool>& sums_in_pairs);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PIPELINE_LANES_H_
