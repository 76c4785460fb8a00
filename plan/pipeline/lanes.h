// Builds each rank's lanes, tasks and launch order from the parameters, buckets
// and pipeline of a plan.
//
//   gradient                 its buckets, in the order of Plan::buckets
//   to rank 5, from rank 5   messages of the pipeline: one lane, with its own
//                            communicator, for each neighbour and direction
//   halo lat@0               messages of halo exchanges over one group of ranks
//   shared                   parameters of the first and the last stage
//   verdict                  the step's summary, over the world
//
// The launch order has messages in the order of their flow (flow.h), and each
// bucket once its gradients are complete on all its ranks (stages.h). The
// parameters of sharded buckets are gathered first, in the gradient lane. The
// verdict is last. bucket_transfers.h has the operations of a bucket and of the
// verdict.

#ifndef LOCKSTEP_PLAN_PIPELINE_LANES_H_
#define LOCKSTEP_PLAN_PIPELINE_LANES_H_

#include <vector>

#include "absl/status/status.h"
#include "plan/ir.h"

namespace lockstep::plan {

// Fills plan->ranks and adds the pipeline's communicators if they are missing.
// sums_in_pairs[c]: communicator c of a bucket has an all-reduce in pairs;
// `by_records`: how steps end (plan/records.h).
// InvalidArgument: a pipeline that plan/schedule/pipeline_shape.h refuses; a
// shared parameter that the first and the last stage do not both have, or not
// equally; a parameter of a stage on a rank that does not have it.
absl::Status BuildLanes(Plan* plan, const std::vector<bool>& sums_in_pairs,
                        bool by_records);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PIPELINE_LANES_H_
